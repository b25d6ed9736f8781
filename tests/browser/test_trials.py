"""Real trials from the form: short runs under several strategies replace what was predicted, and
can be deleted."""
import pytest

from service import Service, until

from test_submit import open_form

ROWS = ("return [...document.querySelectorAll('.prediction tbody tr')].map((r) => [r.querySelector("
        "'.choice').textContent.replace(' (chosen)', ''), r.textContent.includes('measured')])")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Service(nodes=("a=cpu:1", "b=cpu:1,slowdown=2")) as s:
        yield s


def trials(service):
    return service.get("jobs?tag=trial").json()["jobs"]


def small(page):
    """A job whose steps are short; nothing is known of its network yet."""
    page.choose("/model", "mlp")
    page.type(page.field("/epochs"), "50")
    page.choose("/strategy/type", "asgd")
    page.type('.field[data-pointer="/name"] input', "tried")
    page.wait_text(".json-state", "^valid")


def test_trials_measure_strategies_that_nothing_was_known_of_and_are_deleted(page, service):
    open_form(page)
    small(page)
    page.type("#trial-seconds", "1")
    page.click("#try")
    page.wait_text(".trials [role=status]", "3 trials done", 180)
    measured = [name for name, yes in page.script(ROWS) if yes]
    assert len(measured) == 3, page.script(ROWS)
    tried = trials(service)
    assert sorted(j["spec"]["strategy"]["type"] for j in tried) == sorted(measured)
    assert all(j["state"] in ("cancelled", "succeeded") for j in tried)
    assert page.text("#recommendation")
    page.click("#delete-trials")
    until("they are gone", lambda: trials(service) == [])
    assert [name for name, yes in page.script(ROWS) if yes] == measured


def test_leaving_the_page_ends_the_trial_that_runs(page, service):
    open_form(page)
    small(page)
    page.type("#trial-seconds", "100")
    page.click("#try")

    def states():
        return [j["state"] for j in trials(service)]
    until("a trial runs", lambda: states() == ["running"])
    page.open("/nodes")
    until("it was cancelled", lambda: states() == ["cancelled"])


AWAY = """
const real = window.fetch;
window.fetch = (url, options) => /jobs/.test(String(url)) ? Promise.reject(new TypeError('gone'))
                                                          : real(url, options);
window.back = () => { window.fetch = real; };
"""


def test_a_service_that_is_away_for_a_while_costs_no_trial(page, service):
    """A service that was started anew in a trial, 7 s, left "Not measured: asgd: the service does
    not answer" and a job that nobody ended; what came after it was not tried at all."""
    open_form(page)
    small(page)
    page.type("#trial-seconds", "2")
    page.click("#try")
    page.wait_text(".trials [role=status]", "2 of 3")
    page.script(AWAY)
    page.wait_text(".trials [role=status]", "^The trial goes on, but the service does not answer")
    page.script("window.back()")
    page.wait_text(".trials [role=status]", "^3 trials done", 180)
    assert len([name for name, yes in page.script(ROWS) if yes]) == 3
    assert all(j["state"] in ("cancelled", "succeeded") for j in trials(service))


def test_what_to_expect_is_asked_again_when_the_trials_nodes_are_free(page, service):
    open_form(page)
    small(page)
    page.type("#trial-seconds", "100")
    page.click("#try")
    until("a trial runs", lambda: [j["state"] for j in trials(service)].count("running") == 1)
    page.type('.field[data-pointer="/name"] input', "meanwhile")
    page.wait_text(".expect .note", "0 nodes are free")
    page.click("#stop-trials")
    page.wait_text(".trials [role=status]", "stopped|Not measured")
    page.wait_text(".expect .note", "^starts as soon as it is submitted$")


def test_a_trial_is_judged_by_what_came_after_it_settled(page):
    points = [{"seconds": s, "samples": n} for s, n in
              ((0, 0), (1, 10), (2, 200), (3, 400), (4, 600), (5, 700), (6, 1000))]
    job = {"spec": {"strategy": {"type": "asgd"}, "batching": {"global_batch": 40}},
           "staleness": {"update_mean": 1.5, "max": 4}}
    row = page.script("return import('/js/spec/trial.js')"
                      ".then((m) => m.measuredRow(...arguments[0]))",
                      [points, job, {"sample_worth": 0.5}, 4000])
    assert row["samples_per_second"] == 200 and row["step_seconds"] == 0.2
    assert row["epoch_seconds"] == 20 and row["sample_worth"] == 0.5 and row["measured"]
    assert row["step_seconds_least"] <= 0.2 <= row["step_seconds_most"]
    assert row["staleness"] == {"update_mean": 1.5, "max": 4} and row["strategy"] == "asgd"
    none = page.script("return import('/js/spec/trial.js')"
                      ".then((m) => m.measuredRow(...arguments[0]))",
                       [[{"seconds": 0, "samples": 0}], job, {}, 4000])
    assert none is None


def test_a_trial_is_the_job_with_an_optimizer_that_the_strategy_takes(page):
    spec = {"name": "mine", "strategy": {"type": "asgd", "scale": "global"}, "epochs": 3,
            "optimizer": {"type": "sgd", "learning_rate": 0.1, "momentum": 0.9},
            "target": {"test_accuracy": 0.9}, "max_restarts": 3}
    of = ("return import('/js/spec/trial.js').then((m) => ['asgd', 'hpsgd'].map((s) => "
          "m.trialSpec(arguments[0], s, 30)))")
    own, other = page.script(of, spec)
    assert own["strategy"] == spec["strategy"] and own["optimizer"] == spec["optimizer"]
    assert other["strategy"] == {"type": "hpsgd"}
    assert other["optimizer"] == {"type": "sgd", "learning_rate": 0.1}
    assert other["tags"] == ["trial"] and other["max_restarts"] == 0 and "target" not in other
