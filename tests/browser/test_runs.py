"""The table of runs: any setting or figure as a column, order, conditions, seeds folded, runs
chosen to be compared, and all of it in the address."""
import json

import pytest
from selenium.webdriver.common.keys import Keys

from service import spec, until
from test_pure import call

LINES = "/js/views/runs/lines.js"
CONDITIONS = "/js/views/runs/conditions.js"
COLUMNS = "/js/views/runs/columns.js"
JOB = {"id": "a", "name": "run", "state": "succeeded", "restarts": 0, "tags": ["paper", "final"],
       "metrics": {"test_accuracy": 0.931, "train_loss": 0.5, "samples_per_second": 0},
       "staleness": {"update_mean": 2.5}, "seconds": 62.4, "created": "2026-03-03T12:00:00Z",
       "spec": {"name": "run", "tags": ["paper"], "seed": 1, "workers": 4,
                "strategy": {"type": "asgd"},
                "optimizer": {"type": "sgd", "learning_rate": 0.05}}}


@pytest.mark.parametrize("condition, met", [
    ("strategy/type=asgd", True), ("strategy/type=ASGD", True), ("strategy/type!=asgd", False),
    ("optimizer/learning_rate>=0.05", True), ("optimizer/learning_rate<0.05", False),
    ("metrics/test_accuracy>=93 %", True), ("metrics/test_accuracy>93.1%", False),
    ("metrics/test_accuracy=93.1\u202f%", True), ("name~un", True), ("data/path=", True),
    ("data/path=none", True), ("data/path>=1", False), ("batching/policy=dynamic", True),
    ("metrics/samples_per_second=none", True), ("job/nodes<=4", True), ("job/tags~final", True),
    ("job/tags~thesis", False), ("job/note=none", True), ("job/tags=final", True),
    ("job/tags!=paper", False), ("job/tags=pap", False), ("job/trained>=1 min 2 s", True),
    ("job/trained>=64\u202fs", False), ("job/trained<=1 min 3 s", True), ("job/trained<1h", True),
    ("metrics/train_loss<=0.500", True), ("job/created>=3 Mar 2026", False),
    ("job/created>=2026-03-03", True), ("job/created<=2026-03-03", False)])
def test_a_condition_holds_or_not(page, condition, met):
    code = f"m.meets(m.parseCondition({json.dumps(condition)}), {json.dumps(JOB)})"
    assert call(page, CONDITIONS, code) is met


@pytest.mark.parametrize("condition, faulty", [
    ("metrics/test_accuracy>=abc", True), ("metrics/test_accuracy>=", True),
    ("metrics/test_accuracy>=90 %", False), ("job/took<=58 s", False), ("job/took<=58 x", True),
    ("job/created>=09:56", False), ("job/created>=3 Mar 09:56", False),
    ("job/created>=yesterday", True), ("strategy/type=abc", False)])
def test_a_condition_that_no_run_could_meet_is_a_mistake(page, condition, faulty):
    """The form offers "58 s" and "09:56" as the table shows them, and found no run by them."""
    found = call(page, CONDITIONS, f"m.faultOf(m.parseCondition({json.dumps(condition)}))")
    assert bool(found) is faulty, found


def test_what_is_no_condition_is_none(page):
    for text in ("", "strategy", "=asgd"):
        assert call(page, CONDITIONS, f"m.parseCondition({json.dumps(text)})") is None


def test_every_setting_and_every_figure_can_be_a_column(page):
    ids = call(page, COLUMNS, f"m.columnsOf([{json.dumps(JOB)}]).map((c) => c.id)")
    assert {"optimizer/learning_rate", "strategy/type", "batching/policy", "seed",
            "metrics/test_accuracy", "staleness/update_mean", "job/created"} <= set(ids)
    assert len(ids) == len(set(ids))
    assert "job/tags" in ids and "tags" not in ids, "those of the spec may have been changed since"


def job(name, seed, accuracy, rate=0.1):
    return {"id": name, "name": name, "state": "succeeded",
            "metrics": {} if accuracy is None else {"test_accuracy": accuracy},
            "spec": {"name": name, "seed": seed, "optimizer": {"learning_rate": rate}}}


JOBS = [job("a", 1, 0.9), job("b", 2, 0.8), job("c", 1, None, 0.2), job("d", 1, 0.95, 0.3)]


@pytest.mark.parametrize("choice, lines", [
    ({"sort": "metrics/test_accuracy"}, ["b", "a", "d", "c"]),
    ({"sort": "-metrics/test_accuracy"}, ["d", "a", "b", "c"]),
    ({"sort": "-name"}, ["d", "c", "b", "a"]),
    ({"sort": "-metrics/test_accuracy", "fold": "seeds"}, ["d", "ab", "c"])])
def test_lines_are_in_order_and_what_has_no_value_is_last(page, choice, lines):
    choice = {"where": [], "fold": "", **choice}
    code = (f"m.linesOf({json.dumps(JOBS)}, {json.dumps(choice)})"
            ".map((l) => l.jobs.map((j) => j.id).join(''))")
    assert call(page, LINES, code) == lines


def test_a_group_of_seeds_has_another_row_than_the_sweep_of_the_same_runs(page):
    """A row is drawn once for each key: its name and count would be those of the fold before."""
    sweep = [{**j, "tags": ["sweep:0123456789abcdef"]} for j in JOBS[:2]]
    seeds, sweeps = (call(page, LINES, f"m.linesOf({json.dumps(sweep)}, {json.dumps(choice)})"
                          ".map((l) => l.key)")
                     for choice in ({"where": [], "sort": "-name", "fold": fold}
                                    for fold in ("seeds", "sweeps")))
    assert len(seeds) == len(sweeps) == 1 and seeds != sweeps


def test_several_runs_show_their_mean_and_range(page):
    text = lambda id: call(
        page, COLUMNS, f"m.textOfAll(m.columnOf('{id}'), {json.dumps(JOBS[:2])})")
    assert text("metrics/test_accuracy") == "85.0\u202f% (80.0\u202f% to 90.0\u202f%)"
    assert text("optimizer/learning_rate") == "0.1" and text("seed").endswith("values")
    virtual = [{**j, "spec": {**j["spec"], "cluster": {}}, "virtual_seconds": 60.0 * (i + 1)}
               for i, j in enumerate(JOBS[:2])]
    assert call(page, COLUMNS, f"m.textOfAll(m.columnOf('job/took'), {json.dumps(virtual)})") == (
        "1\u202fmin 30\u202fs (1\u202fmin to 2\u202fmin) of virtual time")


@pytest.fixture(scope="module")
def runs(service):
    """Two runs that differ in their seeds, and one of another strategy."""
    made = [service.submit(spec(name=f"even-{seed}", seed=seed, epochs=1)) for seed in (1, 2)]
    made.append(service.submit(spec(name="other", strategy={"type": "asgd"}, epochs=1)))
    for id in made:
        service.wait(id, "succeeded")
    return made


def names(page):
    return page.script("return [...document.querySelectorAll('.run-table tbody .run-name')]"
                       ".map((cell) => cell.querySelector('a, .strong').innerText)")


def test_the_table_sorts_filters_and_keeps_it_in_the_address(page, runs):
    page.open("/runs")
    until("all runs are there", lambda: set(names(page)) >= {"even-1", "even-2", "other"})
    page.click(".run-table [data-sort=name]")
    until("they are sorted", lambda: (shown := names(page)) == sorted(shown))
    until("curves of the loss are drawn", lambda: page.script(
        "return [...document.querySelectorAll('.run-table .spark')]"
        ".filter((line) => line.getAttribute('points')).length") >= 3)
    page.script("document.querySelector('.run-filters .btn').click()")
    page.type(".run-condition input", "asgd")
    page.script("document.querySelector('.run-condition').requestSubmit()")
    until("only that strategy is left", lambda: names(page) == ["other"])
    address = page.driver.current_url
    page.open("/nodes")
    page.wait_for("main .nodes-table")
    page.driver.get(address)
    page.wait_text(".run-filters .chip", "Strategy is asgd")
    until("the same run is shown", lambda: names(page) == ["other"])
    assert "sort=name" in address


def test_columns_are_chosen(page, runs):
    page.open("/runs")
    page.click("#run-columns")
    page.script(
        "for (const label of document.querySelectorAll('dialog label')) {"
        "  if (label.innerText.includes('optimizer/learning_rate')) { label.click(); } }")
    page.script("document.querySelector('dialog .primary').click()")
    page.wait_text(".run-table thead", "Learning rate")
    until("the address has it", lambda: "optimizer/learning_rate" in page.driver.current_url)


def test_seeds_fold_into_one_line_and_open(page, runs):
    page.open("/runs?fold=seeds&q=even")
    page.wait_text(".run-table", "2 seeds")
    assert len(names(page)) == 1
    page.click(".run-table .fold")
    until("its members are shown", lambda: len(names(page)) == 3)


LISTED = """
const jobs = arguments[0], real = window.fetch;
window.fetch = async (url, options = {}) => String(url).startsWith('/api/v1/jobs?')
    ? new Response(JSON.stringify({jobs, next: null}),
        {headers: {'Content-Type': 'application/json'}})
    : real(url, options);
"""


def test_a_group_of_long_ranges_is_within_the_page(page):
    """Its mean and range in one line pushed the last column, when it was made, off the page."""
    made = [{**job(f"a-long-name-of-a-run-{n}", n, 0.91 + 0.013 * n), "id": f"{n:016x}",
             "created": f"2026-01-{n + 10}T02:35:41.000Z", "started": None, "finished": None,
             "progress": {"step": 40, "samples": 2560, "epoch": 1, "epochs": 1, "fraction": 1},
             "workers": [{}] * 4, "restarts": 0, "priority": 0, "tags": [], "seconds": 1.0}
            for n in (1, 2, 3)]
    for n, one in enumerate(made):
        one["metrics"].update({"train_loss": 2.147 + n, "samples_per_second": 31084.0 + 1111 * n})
        one["started"] = one["created"]
        one["finished"] = one["created"].replace("02:35", f"0{n + 3}:{n + 41}")
    page.script(LISTED, made)
    page.open("/runs?fold=seeds")
    page.wait_text(".run-table tbody", "3 seeds")
    room = ("const s = document.querySelector('.run-table').parentElement;"
            "return [s.scrollWidth, s.clientWidth]")
    until("nothing is cut off", lambda: (w := page.script(room))[0] <= w[1])
    assert "11 Jan 02:35 to 13 Jan 02:35" in page.text(".run-table .group")


MANY = """
const made = arguments[0], real = window.fetch;
let read = 0;
window.orders = [];
window.fetch = async (url, options = {}) => {
    const asked = new URL(url, location.href);
    if (asked.pathname !== '/api/v1/jobs' || !asked.searchParams.has('fields')) {
        return real(url, options);  // the list of jobs, from which the page comes, may ask still
    }
    window.orders.push(asked.searchParams.get('sort'));
    if ((asked.searchParams.get('sort') || '').includes('no_such')) {
        return new Response('{"status": 422}', {status: 422});
    }
    read = asked.searchParams.has('cursor') ? read : 0;
    const jobs = Array.from({length: 200}, () => ({...made, id: String(read++).padStart(16, '0')}));
    return new Response(JSON.stringify({jobs, next: read < 1200 ? 'more' : null}),
        {headers: {'Content-Type': 'application/json'}});
};
"""


def test_what_is_not_among_the_runs_that_were_read_is_not_said_to_be_nowhere(page):
    made = {**job("one", 1, 0.5), "created": "2026-01-01T00:00:00.000Z", "restarts": 0, "tags": []}
    page.script(MANY, made)
    page.open("/runs?where=metrics/test_accuracy>=0.9")
    page.wait_text("main", "0 of the newest 1,000 runs")
    page.wait_text("main", "None of the newest 1,000 runs meets all of this")
    page.script("[...document.querySelectorAll('main button')].find("
                "(b) => b.innerText === 'Read more runs').click()")
    page.wait_text("main", "No run meets all of this")


def test_of_more_runs_than_are_read_the_first_ones_of_all_are_shown(page):
    """The best of 5,000 runs were not among the newest 1,000, which alone were sorted."""
    made = {**job("one", 1, 0.5), "created": "2026-01-01T00:00:00.000Z", "restarts": 0, "tags": []}
    page.script(MANY, made)
    page.open("/runs")
    page.wait_text("main", "^(?s:.*)the newest 1,000 runs")
    for column, order in (("metrics/test_accuracy", "-metrics.test_accuracy"),
                          ("strategy/type", "spec.strategy.type")):
        page.script("window.orders = []")
        page.click(f'.run-table button[data-sort="{column}"]')
        page.wait_text("main", "the first 1,000 runs")
        until(f"all pages are in the order {order}",
              lambda: page.script("return window.orders") == [order] * 5)  # noqa: B023
    page.open("/runs?sort=no_such/setting")
    page.wait_text("main", "the newest 1,000 runs")


def labels(page, project, tags, note):
    """Writes them on the job whose page is shown."""
    page.click("#edit-labels")
    page.type(page.field("/project"), project)
    page.type(page.field("/tags"), tags)
    page.type('.field[data-pointer="/note"] textarea', note)
    page.click("#labels .btn")


def test_a_run_is_given_a_project_tags_and_a_note_and_folds_with_its_project(page, runs, service):
    even, _, other = runs
    assert service.ask("PATCH", "jobs/" + even, json={"tags": ["project:digits"]}).ok
    page.open_job(other)
    labels(page, "two words", "kept", "for the\nthesis")
    page.wait_text('.field[data-pointer="/project"] .fault', "A tag has 1 to 40 letters")
    page.type(page.field("/project"), "digits")
    page.type(page.field("/tags"), "no!, nor!")
    page.click("#labels .btn")
    tags = '.field[data-pointer="/tags"] .fault'
    page.wait_text(tags, "A tag has 1 to 40 letters")
    assert page.text(tags).count("A tag has") == 1, "two tags are wrong, and alike"
    page.console()  # Chromium reports the answers, which are errors
    page.type(page.field("/tags"), "kept")
    page.click("#labels .btn")
    page.wait_text(".labels-shown", r"(?s)project digits\s*kept\s*for the\nthesis")
    told = service.job(other)
    assert told["tags"] == ["project:digits", "kept"] and told["note"] == "for the\nthesis"
    page.click("#edit-labels")
    page.keys(Keys.ESCAPE)
    until("the form is gone", lambda: not page.all(".label-form"))
    page.click(".labels-shown a")
    until("its runs are shown", lambda: sorted(names(page)) == ["even-1", "other"])
    page.open("/runs?fold=projects")
    page.wait_text(".run-table .group", r"digits\s*2 runs")
    page.open("/new?from=" + other)
    page.wait_text(".json-state", "valid")
    assert page.script("return JSON.parse(document.getElementById('json').value).tags") == [
        "project:digits", "kept"]


def test_a_run_like_one_of_a_sweep_is_not_of_the_sweep(page):
    """Its form had the sweep's tag, and the new run was listed as one of the sweep's."""
    asked = {"tags": ["sweep:0123456789abcdef", "mine"], "spec": {"epochs": 2, "tags": ["old"]}}
    assert call(page, "/js/spec/tags.js", f"m.specAgain({json.dumps(asked)})") == {
        "epochs": 2, "tags": ["mine"]}
    assert call(page, "/js/spec/tags.js", f"m.tagsWith({json.dumps(asked)}, 'p', ['x'])") == [
        "sweep:0123456789abcdef", "project:p", "x"]


def test_chosen_runs_are_compared(page, runs):
    page.open("/runs?q=even")
    until("both are there", lambda: len(names(page)) == 2)
    for box in page.all(".run-table tbody .pick input"):
        box.click()
    page.click("#compare-runs")
    until("they are compared", lambda: len(page.all(".run-card")) == 2)
    beside = lambda: page.script("""
        return [...document.querySelectorAll('.chart')].map((c) => {
          const room = parseFloat(getComputedStyle(c).getPropertyValue('--ends'));
          const edge = c.querySelector('.plot').clientWidth - room;
          const labels = [...c.querySelectorAll('.ends .bold')];
          const off = labels.map((e) => Math.abs(parseFloat(e.style.left) - edge - 6));
          return off.length ? Math.max(...off) : 99;
        })""")
    try:
        for width in (1440, 390, 1440):
            page.resize(width)
            until(f"labels stand beside the plot at {width} px",
                  lambda: page.script("return innerWidth") == width and max(beside()) < 2, 20)
    finally:
        page.resize_back()


def test_a_run_that_is_submitted_and_one_that_is_deleted_show_at_once(page, runs, service):
    page.open("/runs?q=fresh")
    page.wait_text("main", "There is no run yet")
    id = service.submit(spec(name="fresh", epochs=1))
    until("it is there", lambda: names(page) == ["fresh"])
    service.wait(id, "succeeded")
    page.wait_text(".run-table .pill", "Succeeded")
    service.ask("DELETE", "jobs/" + id)
    until("it is gone", lambda: names(page) == [])
