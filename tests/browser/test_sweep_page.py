"""The page of a sweep: its drawings, its table, what the pointer and the keyboard find; and the
list of sweeps."""
import json

import pytest

from service import spec, until
from test_axe import FOUND, findings
from test_pure import NARROW, call

RATE = "/optimizer/learning_rate"


@pytest.fixture(scope="module")
def sweep(service):
    """A grid of four virtual jobs, one of which diverges."""
    base = spec(workers=1, epochs=1, data={"format": "glyphs", "samples": 256, "test_samples": 64},
                cluster={"nodes": [{"name": "v", "seconds_per_sample": 0.001}]})
    answer = service.post("sweeps", {
        "name": "rates & sizes", "spec": base, "method": {"type": "grid"}, "parallel": 2,
        "parameters": [{"pointer": RATE, "range": [0.01, 1], "scale": "log", "steps": 2},
                       {"pointer": "/batching/global_batch", "values": [16, 32]}]})
    assert answer.status_code == 201, answer.text
    id = answer.json()["id"]
    return until("the sweep has ended", lambda: (lambda s: s if s["finished"] else None)(
        service.get("sweeps/" + id).json()))


def test_the_page_shows_settings_results_and_the_best_and_leads_to_the_jobs(page, sweep):
    page.open("/sweeps/" + sweep["id"])
    page.wait_for(".trial-jobs a")
    assert len(page.all(".trial")) == len(page.all(".trial-dot")) == 4
    assert [e.text for e in page.all(".trial-axis .fit-name")] == [
        "learning_rate", "global_batch", "test accuracy"]
    assert len(page.all("g.trial.best-trial")) == 1
    said = page.text("#sweep-sentence")
    assert "4 jobs of 4 trials have ended." in said
    assert f"Trial {sweep['best']['trial']} is the best, with learning_rate " in said
    links = [a.get_attribute("href").rsplit("/", 1)[1] for a in page.all(".trial-jobs a")]
    assert links == [t["jobs"][0]["id"] for t in sweep["trials"]]
    page.script("document.querySelectorAll('.trial-jobs a')[2].focus()")
    until("the line is looked at", lambda: page.script(
        "return [...document.querySelectorAll("
        "'.trial.highlighted,.trial-dot.highlighted,tr.highlighted')]"
        ".map((e) => e.dataset.trial).join()") == "3,3,3")
    assert page.text(".row-title .note").startswith(
        "Trial 3, learning_rate 1 and global_batch 16: test accuracy ")
    page.script("document.activeElement.blur()")
    until("no line is looked at", lambda: not page.all(".highlighted"))
    page.script("document.querySelector('.trial[data-trial=\"2\"] .trial-line')"
                ".dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    page.wait_for("#verdict")
    assert page.script("return location.hash") == "#/jobs/" + sweep["trials"][1]["jobs"][0]["id"]
    page.wait_text(".facts", "of a sweep")


def test_the_best_of_several_seeds_is_told_with_their_spread_and_who_is_as_good(loaded):
    trials = [{"number": n, "rung": 0, "metric": metric, "spread": 0.028}
              for n, metric in ((1, 0.07), (2, 0.1), (3, 0.12), (4, None))]
    sweep = {"state": "succeeded", "counts": {"trials": 4, "ended": 8, "failed": 2},
             "metric": {"name": "test_accuracy"},
             "best": {"trial": 3, "metric": 0.12, "settings": {RATE: 0.1}}}

    def told():
        return call(loaded, "/js/views/sweeps/words.js",
                    f"m.sentenceOf({json.dumps(sweep)}, {json.dumps(trials)})")

    best = f"learning_rate 0.1: test accuracy 12.0{NARROW}%"
    within = f"{best} ± 2.8{NARROW}% over its seeds. 1 other trial is within that."
    assert told().endswith(within)
    trials[1]["rung"] = 1  # another length of training
    assert told().endswith("over its seeds.")
    trials[2]["spread"] = None
    assert told().endswith(best + ".")
    trials[0]["metric"] = 0.12
    assert told().endswith(best + ". 1 other trial is as good.")


def test_an_argument_of_a_program_is_called_by_its_option(loaded):
    """It read "Trial 2 is the best, with 1 0.306"."""
    spec = json.dumps({"program": {"args": ["--lr", "0.1", "fast"]}})
    assert call(loaded, "/js/views/sweeps/words.js",
                f"[1, 2].map((n) => m.titleOf('/program/args/' + n, {spec}))") \
        == ["--lr", "argument 3"]
    assert call(loaded, "/js/views/sweeps/words.js",
                "m.titleOf('/program/env/WIDTH')") == "WIDTH"


def test_a_sweep_whose_trials_all_guess_has_no_best_settings(loaded):
    """"Trial 8 is the best", with 12 % of ten classes."""
    sweep = {"state": "succeeded", "counts": {"trials": 2, "ended": 2, "failed": 0},
             "metric": {"name": "test_accuracy"}, "spec": {"model": "mlp"},
             "best": {"trial": 2, "metric": 0.12, "settings": {RATE: 0.1}}}

    def told():
        return call(loaded, "/js/views/sweeps/words.js", f"m.sentenceOf({json.dumps(sweep)})")

    assert told().endswith("No trial is better than guessing: the most is a test accuracy of "
                           f"12.0{NARROW}%.")
    sweep["best"]["metric"] = 0.14
    assert "Trial 2 is the best" in told()
    sweep.update(metric={"name": "test_loss"})
    sweep["best"]["metric"] = 0.05
    assert "Trial 2 is the best" in told()


def test_lists_lead_to_a_sweep_and_fold_it_into_one_line(page, sweep):
    page.open("/runs?fold=sweeps")
    page.wait_text(".run-table .fold", "rates & sizes")
    assert "4 runs" in page.text(".run-table .fold")
    assert page.find(".run-table .run-name a").get_attribute("href").endswith(sweep["id"])
    page.open("/sweeps")
    page.wait_text(".trial-table .job-link", "rates & sizes")
    page.click(".trial-table .job-link")
    page.wait_for(".trial")


def test_the_best_trials_are_compared_with_all_of_their_seeds(page, sweep):
    def trial(number, metric, rung=1):
        jobs = [{"id": f"{number}-{r}-{seed}", "rung": r, "seed": seed}
                for r in range(rung + 1) for seed in (1, 2, 3)]
        return {"number": number, "metric": metric, "rung": rung, "jobs": jobs}

    trials = [trial(1, 0.9), trial(2, None), trial(3, 0.95), trial(4, 0.99, 0), trial(5, 0.8)]
    best = lambda direction: call(page, "/js/views/sweeps/words.js", "m.bestJobs(" + json.dumps(
        {"trials": trials, "metric": {"direction": direction}}) + ", 8)")
    assert best("max") == [f"{n}-1-{seed}" for n in (3, 1) for seed in (1, 2, 3)]
    assert best("min") == [f"{n}-1-{seed}" for n in (5, 1) for seed in (1, 2, 3)]
    page.open("/sweeps/" + sweep["id"])
    page.wait_text("#sweep-compare", "Compare the best [34]")
    page.click("#sweep-compare")
    page.wait_text(".differs", "optimizer/learning_rate|batching/global_batch")
    assert "tags" not in page.text(".differs")
    page.open("/sweeps")


def test_the_list_of_jobs_has_a_line_for_a_sweep_with_its_count_and_best(page, service, sweep):
    page.open("/")
    page.wait_text(".fold-runs", r"rates & sizes\s*4 runs")
    row = page.find(".fold-runs").find_element("xpath", "ancestor::tr")
    assert f"{100 * sweep['best']['metric']:.1f}{NARROW}%" in row.text and "Succeeded" in row.text
    assert row.find_element("css selector", "a").get_attribute("href").endswith(sweep["id"])
    names = {service.get("jobs/" + job["id"]).json()["name"]
             for trial in sweep["trials"] for job in trial["jobs"]}
    shown = lambda: {a.text for a in page.all("tr.link .job-link")}
    assert not names & shown(), "its runs are folded"
    page.click(".fold-runs")
    until("its runs are shown", lambda: names <= shown())
    page.click(".fold-runs")
    until("and hidden again", lambda: not names & shown())
    page.type("#find", sorted(names)[0])
    until("who looks for a run finds it", lambda: sorted(names)[0] in shown())
    page.open("/sweeps")


PAGES = """
const sweep = (i) => ({id: 's' + i, name: 'lr-' + i, state: 'succeeded', created: '2026', spec: {},
    finished: '2026-01-02T03:' + i, tags: ['sweep:0123456789abcdef']});
const other = (i) => ({id: 'o' + i, name: 'o' + i, state: 'succeeded', created: '2025', spec: {},
    finished: '2025-01-02T03:' + i, tags: []});
const all = [...Array(200).keys()].map(sweep).concat([...Array(60).keys()].map(other));
const real = window.fetch;
window.fetch = async (url) => {
  const [path, query] = String(url).split('?');
  const at = Number(new URLSearchParams(query).get('cursor') || 0);
  const next = at + 50 < all.length ? String(at + 50) : null;
  const body = path.endsWith('/sweeps') ? {sweeps: []} : {jobs: all.slice(at, at + 50), next};
  return new Response(JSON.stringify(body), {headers: {'Content-Type': 'application/json'}});
};
const done = arguments[arguments.length - 1];
import('/js/views/jobs/model.js').then(async ({JobsModel}) => {
  const model = new JobsModel();
  const lines = () => model.finishedLines().map((line) => line.jobs.length);
  await model.readLines(0);
  const none = lines();
  model.next = '0';
  await model.readLines(0);
  const first = lines();
  await model.readMore();
  return [none, first, lines()];
}).catch(String).then((got) => { window.fetch = real; done(got); });
"""


def test_a_sweep_of_many_runs_leaves_room_for_other_jobs(loaded):
    """Its 200 runs were the newest four pages, and the list of 50 had nothing else."""
    none, first, more = loaded.driver.execute_async_script(PAGES)
    assert none == [] and first == [200] + [1] * 50 and more == [200] + [1] * 60


@pytest.mark.parametrize("numbers, room, told", [
    (range(1, 201), 17, [1] + list(range(20, 201, 20))), (range(1, 9), 20, list(range(1, 9))),
    (range(1, 101), 17, [1] + list(range(10, 101, 10))), ([7], 20, [7]),
    (range(1, 31), 8, [1, 5, 10, 15, 20, 25, 30])])
def test_the_trials_that_are_numbered_are_round(loaded, numbers, room, told):
    assert sorted(call(loaded, "/js/views/sweeps/progress.js",
                       f"[...m.trialTicks({list(numbers)}, {room})]")) == told


def test_it_fits_every_width_and_has_no_finding(page, sweep):
    try:
        for width, theme in ((1440, "light"), (390, "dark")):
            page.resize(width)
            page.script("window.evenstepTheme.set(arguments[0])", theme)
            for route in ("/sweeps/" + sweep["id"], "/sweeps", "/runs?fold=sweeps", "/"):
                page.open(route)
                page.wait_for("main table tbody tr")
                assert page.script("return document.documentElement.scrollWidth") <= width
                result = page.all(".trial-table td:nth-child(3)")  # it was behind a scroll
                assert result or not route.startswith("/sweeps/")
                assert all(td.rect["x"] + td.rect["width"] <= width for td in result)
                if FOUND:
                    assert findings(page) == [], route
    finally:
        page.script("window.evenstepTheme.set('auto')")
        page.resize_back()


def test_the_best_so_far_follows_the_direction(page):
    best = lambda direction: page.script(
        "return import('/js/views/sweeps/progress.js').then("
        "(m) => m.bestSoFar([3, 1, 4, 2], arguments[0]))", direction)
    assert best("max") == [3, 3, 4, 4] and best("min") == [3, 1, 1, 1]
