"""A job's page while it trains: everything comes by itself, nothing is loaded again."""
import pytest

from selenium.webdriver.common.keys import Keys

from service import Service, until

LONG = {
    "name": "live", "model": "mlp",
    "data": {"format": "glyphs", "samples": 20000, "test_samples": 1000},
    "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9},
    "strategy": {"type": "asgd"}, "batching": {"global_batch": 512, "policy": "dynamic"},
    "workers": 4, "epochs": 10**6, "seed": 1,
}


# A quarter as fast as those of conftest.py: the job trains for as long as the file lasts, and takes
# a core from the browsers beside it otherwise
NODES = ("fast-1=cpu:1,slowdown=16", "fast-2=cpu:1,slowdown=16", "mid=cpu:1,slowdown=32",
         "slow=cpu:1,slowdown=64")


@pytest.fixture(scope="module")
def service():
    with Service(nodes=NODES) as s:
        yield s


@pytest.fixture(scope="module")
def running(service):
    """A job of four unequal nodes that goes on for as long as the tests want."""
    job = service.submit(LONG)
    yield job
    service.post(f"jobs/{job}/cancel")
    service.wait(job, "cancelled", "succeeded")


def points(page, chart):
    return int(page.script(
        "const c = document.querySelector(arguments[0]); return c ? Number(c.dataset.points || 0) "
        ": 0", f'.chart[data-chart="{chart}"]') or 0)


def test_loss_falls_and_every_chart_fills_without_reload(page, running):
    page.open_job(running)
    page.script("window.notReloaded = true")
    page.wait_text("#tile-loss .value", r"\d")
    first = page.number("#tile-loss .value")
    step = page.number(".progress-line")
    until("the loss falls", lambda: page.number("#tile-loss .value") < 0.8 * first)
    for chart in ("loss", "accuracy", "staleness-slow", "staleness-fast-1", "minibatch-per-node",
                  "throughput"):
        until(f"{chart} has points", lambda c=chart: points(page, c) >= 2)
    until("steps go on", lambda: page.text(".progress-line")
          and page.number(".progress-line") is not None and page.text(".progress-line") != step)
    page.wait_text("#reasons", "v2")
    until("a test result came", lambda: "%" in page.text("#tile-accuracy"))
    page.wait_text("#verdict", r"slow computes [\d.]+× slower than the median node")
    assert page.script("return window.notReloaded") is True


# The page's next question for the job is answered as it was before the first step, a second late.
OLD_ANSWER = """
const real = window.fetch, path = '/api/v1/jobs/' + arguments[0];
const value = document.querySelector('#tile-loss .value');
window.blanks = 0;
new MutationObserver(() => { window.blanks += !/\\d/.test(value.innerText); })
  .observe(value, {childList: true, characterData: true, subtree: true});
window.fetch = async (url, options) => {
  const answer = await real(url, options);
  if (!String(url).endsWith(path) || (options.method || 'GET') !== 'GET') { return answer; }
  window.fetch = real;
  const job = await answer.json();
  job.metrics.train_loss = null;
  await new Promise((done) => setTimeout(done, 1000));
  window.answered = performance.now();
  const headers = {'Content-Type': 'application/json'};
  return new Response(JSON.stringify(job), {status: 200, headers});
};
"""


def test_an_answer_that_is_older_than_what_has_come_since_changes_no_figure(page, running, service):
    page.open_job(running)
    page.wait_text("#tile-loss .value", r"\d")
    page.script(OLD_ANSWER, running)
    # an event of the job: the page reads it anew
    assert service.ask("PATCH", f"jobs/{running}", json={"priority": 3}).status_code == 200
    until("the page has read it",
          lambda: page.script(
              "return window.answered && performance.now() - window.answered > 1500"))
    assert page.script("return window.blanks") == 0


def test_the_page_is_at_most_a_second_behind(page, running, service):
    page.open_job(running)
    page.wait_text("#tile-loss .value", r"\d")
    step = service.job(running)["progress"]["step"]
    until("the page shows a later step",
          lambda: page.script(
              "const b = [...document.querySelectorAll('.progress-line span')].map(e => "
              "e.textContent).join(' '); return Number((/([\\d,]+) updates/.exec(b) || [0, "
              "'0'])[1].replace(/,/g, ''))") > step)


def test_each_node_has_its_staleness_and_its_minibatch(page, running):
    page.open_job(running)
    for node in ("fast-1", "fast-2", "mid", "slow"):
        page.wait_for(f'.node-table tr[data-node="{node}"]')
        page.wait_for(f'.strip[data-node="{node}"]')
        page.wait_text(f'.dist tr[data-node="{node}"]', r"\d")
    until("the slow node has the smallest minibatch",
          lambda: min((page.number(f'.node-table tr[data-node="{n}"] td.num b') or 0, n)
                      for n in ("fast-1", "fast-2", "mid", "slow"))[1] == "slow")


def test_layers_and_load_fill_while_the_job_runs(page, running):
    page.open_job(running)
    page.click("#layers summary")
    page.wait_text("#layers .norm-line .norm-end", r"\d")
    assert page.script("return [...document.querySelectorAll('.norm-name')].map(n => n.textContent)"
                       ) == ["dense1.weight", "dense1.bias", "dense2.weight", "dense2.bias"]
    page.click("#layers .seg button:nth-child(2)")
    page.wait_text("#layers .fold-body", "gradient of one worker")
    page.click("#layers .tool[title=Table]")
    page.wait_text("#layers .chart-table", r"dense1\.weight\s+100,352\s+\d")
    page.click("#load summary")
    page.wait_text("#load .load-host h3", "fast-1")
    assert len(page.all("#load .load-host")) == 1  # they share a host
    page.wait_text("#load .load-plot .load-value", r"\d")


def test_axes_marks_and_tables(page, running):
    page.open_job(running)
    until("loss has points", lambda: points(page, "loss") > 2)
    for name in ("Time", "Samples", "Update"):
        page.script(
            "[...document.querySelectorAll('#axis button')].find(b => b.textContent === "
            "arguments[0]).click()", name)
        until(f"loss by {name} has points", lambda: points(page, "loss") > 2)
    for button in page.all(".chart-box .tool[title=Table]"):
        page.script("arguments[0].click()", button)
    until("every chart has its table",
          lambda: page.script(
              "return [...document.querySelectorAll('.chart-table')].filter(t => !t.hidden && "
              "t.querySelectorAll('tbody tr').length > 0).length") >= 4)
    for button in page.all(".chart-box .tool[title=Table]"):
        page.script("arguments[0].click()", button)


def test_the_reading_line_and_zoom_work_by_keys(page, running):
    page.open_job(running)
    until("loss has points", lambda: points(page, "loss") > 20)
    chart = page.find('.chart[data-chart="loss"]')
    page.script("arguments[0].focus()", chart)
    page.keys(Keys.ARROW_LEFT)
    page.wait_text(".learning .rail-head", "At update")
    before = page.text(".learning .rail-head")
    page.keys(Keys.SHIFT, Keys.ARROW_LEFT)
    until("the line moved", lambda: page.text(".learning .rail-head") != before)
    page.keys("+")
    until("the address keeps the range", lambda: "from=" in page.driver.current_url)
    page.keys("t")
    page.wait_for(".chart-table tbody tr")
    page.keys(Keys.ESCAPE)
    page.keys("0")
    until("the whole run is back", lambda: "from=" not in page.driver.current_url)
    page.keys(Keys.ESCAPE)
    page.wait_text(".learning .rail-head", "Now")


def test_last_steps_have_a_lane_per_node_and_count_staleness(page, running):
    page.open_job(running)
    page.script(
        "document.querySelector('section[aria-label=\"Last steps\"]').scrollIntoView({block: "
        "'center'})")
    until("four lanes", lambda: len(page.all(".lane-name .name")) == 4)
    until("steps are drawn", lambda: len(page.all(".lanes .step")) > 8)
    page.script("document.querySelector('.lanes').focus()")
    page.keys(Keys.ARROW_LEFT)
    page.wait_text(".lanes-caption", r"computed on version [\d,]+, applied after .* staleness \d+")


def test_logs_of_every_rank_are_there(page, running):
    page.open_job(running)
    page.click("#logs")
    page.wait_text(".log-lines", "ready")
    tabs = page.text(".drawer-tools")
    assert "slow" in tabs and "server" in tabs
    page.click("#logs")


def test_the_overview_shows_the_running_job_and_the_nodes(page, running):
    page.open("/")
    page.wait_text(".run-row", "live")
    page.wait_text("h1", "One job trains on 4 of 4 nodes")
    page.wait_text(".node-list", "slow")
    before = page.text(".run-row")
    until("its numbers change by themselves", lambda: page.text(".run-row") != before)


OUTSIDE = """
const plot = document.querySelector('.fit'), screen = plot.parentElement.getBoundingClientRect();
return [...plot.querySelectorAll('text')].filter((t) => {
  const b = t.getBoundingClientRect();
  return b.left < screen.left || b.right > screen.right + 1;
}).map((t) => t.textContent)"""


def test_step_times_by_minibatch_are_whole_on_a_phone(page, running):
    page.open("/nodes")
    page.wait_for(".fit .fit-line")
    page.resize(390, 844, mobile=True)
    try:
        until("the figure has the screen's width", lambda: 250 < page.script(
            "return document.querySelector('.fit').getBoundingClientRect().width") <= 390)
        assert page.script(OUTSIDE) == []
        assert {t.text for t in page.all(".fit .fit-name")} == {"fast-1", "fast-2", "mid", "slow"}
    finally:
        page.resize_back()


def test_names_of_workers_are_no_columns_of_letters_on_a_phone(page, running):
    page.resize(390, 844, mobile=True)
    try:
        page.open_job(running)
        page.script("document.querySelector('#workers').open = true")
        tall = until("all are named", lambda: (lambda all: all if len(all) >= 4 else None)(
            page.script("""
                const all = [...document.querySelectorAll('#workers .name .txt')];
                all.forEach((e) => { e.textContent = 'a-longer-name'; });
                return all.map((e) => e.getBoundingClientRect().height)""")))
        assert max(tall) <= 64  # a name may end its lines at its hyphens
        page.wait_for(".split-table .name")
        assert 200 < page.script("""
            document.querySelectorAll('.split-table .name .txt').forEach((e) => {
              e.textContent = 'a-much-longer-name-of-a-node';
            });
            return Math.max(...[...document.querySelectorAll('.split-table')].map(
                (e) => e.getBoundingClientRect().right))""") <= 390
    finally:
        page.resize_back()


def test_of_many_nodes_step_times_name_the_fastest_and_the_slowest(page):
    names = page.script("""
        const [{fitPlot}, {NodeKey}] = await Promise.all(
            [import('/js/views/nodes/fitplot.js'), import('/js/elements/nodekey.js')]);
        const nodes = [...Array(128).keys()].map((i) => 'a-node-with-a-long-name-' + i);
        const lines = nodes.map((node, i) => ({node, a: 0, k: 1e-4 * (1 + (i * 5) % 128),
                                               batch: 32, points: [], guessed: true}));
        const plot = fitPlot(lines, new NodeKey(nodes), 32, 0.05, 358);
        return [...plot.querySelectorAll('.fit-name')].map((t) => t.textContent)""")
    assert [name.rpartition("-")[2] for name in names] == ["0", "51"]
    assert names[0].startswith("…")  # at the right edge; the other line leaves at the top, far left


def test_nodes_page_shows_who_is_busy_and_drains_after_asking(page, running, service):
    page.open("/nodes")
    page.wait_text('.nodes-table tr[data-node="slow"]', "busy")
    page.wait_for(".fit .fit-line")
    page.click('.nodes-table tr[data-node="slow"] td:nth-child(2) button')
    page.wait_text("#node-load", r"(?s)Load of slow.*CPU\s*\d")
    page.click('.nodes-table tr[data-node="slow"] td:nth-child(2) button')
    page.click('.nodes-table tr[data-node="slow"] .btn')
    page.wait_text(".ask", "Drain slow")
    page.click(".ask .danger")
    page.wait_text('.nodes-table tr[data-node="slow"]', "(?s)draining.*Enable")
    page.wait_text(".sub", "^4 of 4 nodes train")  # its job goes on; they said that 3 do
    assert service.get("nodes/slow").json()["drained"]
    page.open("/")
    page.wait_text(".lead", "One job trains on 4 of 4 nodes")
    page.wait_text("main", "3 busy, 1 draining")
    page.open("/nodes")
    page.click('.nodes-table tr[data-node="slow"] .btn')
    page.wait_text('.nodes-table tr[data-node="slow"]', "Drain")
    assert not service.get("nodes/slow").json()["drained"]
    page.click('.nodes-table tr[data-node="slow"] .btn')
    page.wait_text(".ask", "Disable slow")
    page.click('.ask [data-act="disable"]')
    page.wait_text('.nodes-table tr[data-node="slow"]', "Enable")
    assert service.get("nodes/slow").json()["state"] == "disabled"
    page.click('.nodes-table tr[data-node="slow"] .btn')
    page.wait_text('.nodes-table tr[data-node="slow"]', "Drain")


def test_light_and_dark_by_system_and_by_switch(page, running):
    page.open_job(running)
    ground = "return getComputedStyle(document.body).backgroundColor"
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    until("dark as the system", lambda: page.script(ground) == "rgb(12, 14, 17)")
    page.click("#theme")
    until("light by choice", lambda: page.script(ground) == "rgb(246, 247, 249)")
    page.click("#theme")
    until("dark by choice", lambda: page.script(ground) == "rgb(12, 14, 17)")
    page.click("#theme")
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                {"features": [{"name": "prefers-color-scheme", "value": "light"}]})
    until("light as the system", lambda: page.script(ground) == "rgb(246, 247, 249)")


@pytest.mark.parametrize("width", [390, 705, 768, 1440, 1920])
def test_nothing_is_wider_than_the_screen(page, running, width):
    page.resize(width, 844, mobile=width < 600)
    try:
        for route in ("/", "/jobs/" + running, "/nodes?node=slow", "/new",
                      "/compare?runs=" + running):
            page.open(route)
            page.wait_for("main h1, main .lead")
            page.wait_for("main .sheet")
            # a phone's own innerWidth grows with what is too wide
            fits = "return document.documentElement.scrollWidth <= arguments[0]"
            until(f"{route} fits {width}", lambda: page.script(fits, width))
    finally:
        page.resize_back()


@pytest.mark.parametrize("width", [390, 705, 768, 900, 1100, 1440])
def test_figures_of_a_running_job_keep_to_their_columns(page, running, width):
    """At 200 % a loss was written over the accuracy beside it."""
    page.resize(width, 844, mobile=width < 600)
    try:
        page.open("/")
        page.wait_text(".run-row", r"Train loss[\s\S]*One step")
        wide = page.script("""return [...document.querySelectorAll('.run-row .pair')]
            .filter((p) => p.scrollWidth > p.clientWidth).map((p) => p.innerText)""")
        assert not wide, wide
    finally:
        page.resize_back()


def test_pause_resume_and_cancel_from_the_page(page, service):
    job = service.submit({**LONG, "name": "to be cancelled", "workers": 1, "priority": 5,
                          "strategy": {"type": "sync"}})
    try:
        page.open_job(job)
        page.wait_text(".job-head .pill", "Queued|Launching|Running")
        page.click("#cancel")
        page.wait_text(".ask", "Cancel “to be cancelled”")
        page.keys(Keys.ESCAPE)
        until("the question is gone", lambda: not page.all(".ask"))
        page.click("#cancel")
        page.click("#confirm-cancel")
        page.wait_text(".job-head .pill", "Cancelled", 120)
        assert service.job(job)["state"] == "cancelled"
        page.click("#delete")
        page.click("#confirm-delete")
        until("back at the jobs", lambda: page.driver.current_url.endswith("#/"))
        assert service.get("jobs/" + job).status_code == 404
    finally:
        service.post(f"jobs/{job}/cancel")
