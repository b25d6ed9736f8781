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
