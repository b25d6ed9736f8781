"""Metrics that a program logged: a chart for each on the job's page, a column of the table of runs,
and their points in the saved file."""
import json

import pytest

import canned
from canned import curve, evaluations, job, metric
from service import until
from test_pure import call

LOGGED = "/js/measures/logged.js"
COLUMNS = "/js/views/runs/columns.js"
CHOICE = "/js/views/runs/choice.js"
FALLS = [2.3 * 0.97**i for i in range(100)]
CHARTS = ".named-charts .chart-box"


def show(page, *metrics):
    newest = {m["name"]: m["mean"][-1] for m in metrics}
    canned.show(page, job(**({"logged": newest} if metrics else {})), [curve("train_loss", FALLS)],
                evaluations([0.9, 0.95]), logged=metrics)


def texts(page, selector):
    """At one moment, since charts may come and go."""
    return page.script("""return [...document.querySelectorAll(arguments[0])].map(
        (e) => e.innerText)""", selector)


def titles(page):
    return texts(page, CHARTS + " h2")


@pytest.fixture
def sized(page):
    yield page.resize
    page.resize_back()


def test_each_metric_has_a_chart_with_its_newest_value(page):
    show(page, metric("bleu", [20.0, 28.5, 31.25]), metric("eval/κ <b>", [0.1, None, 0.25]),
         metric("broken", [None, None]))
    until("charts are there", lambda: titles(page) == ["bleu", "eval/κ <b>", "broken"])
    until("they have ends", lambda: texts(page, CHARTS + " .ends span") == ["31.3", "0.25"])
    assert "Every value became NaN or infinite" in page.text("[data-chart=broken]")
    assert texts(page, CHARTS + " .count") == ["3 points", "3 points", "2 points"]
    # the values at the reading line
    page.script("""document.querySelector('[data-chart=loss]').dispatchEvent(
        new KeyboardEvent('keydown', {key: 'ArrowLeft', bubbles: true}))""")
    until("they are told", lambda: "point" not in page.text(CHARTS + " .count"))


def test_a_range_that_is_shown_is_read_anew(page):
    """So that its points are not those of the whole run, thinned."""
    show(page, metric("bleu", [20.0, 28.5, 31.25]))
    page.script("location.hash += '?x=samples&from=12800&to=25600'")  # epochs of 12,800

    def asked():
        found = [q for q in page.script("return window.asked") if q.startswith("logged?")]
        return [q for q in found if "by=epoch" in q]

    query = until("it is asked for", asked)[-1]
    parts = dict(p.split("=") for p in query.removeprefix("logged?").split("&"))
    assert (float(parts["from"]), float(parts["to"])) == (pytest.approx(0.98), pytest.approx(2.02))


def test_on_every_axis(page):
    metrics = json.dumps(metric("bleu", [20.0, None]))
    for axis, x in ("step", [100, 200]), ("time", [30, 60]), ("samples", [500, 1000]):
        found = call(page, LOGGED, f"m.curveOf({metrics}, '{axis}', 500)")
        assert found["x"] == x and found["total"] == 2 and found["mean"][0] == 20


def test_of_many_metrics_some_are_shown_at_first(page, sized):
    sized(390, 844)
    show(page, *[metric(f"metric-{i}", [float(i), i + 1.0]) for i in range(9)])
    until("six are shown", lambda: len(titles(page)) == 6)
    assert page.script("return document.documentElement.scrollWidth") <= 390
    page.script("document.querySelector('.named .few').click()")
    until("all are shown", lambda: len(titles(page)) == 9)
    assert page.text(".named .few") == "Fewer metrics"
    page.script("document.querySelector('.named .few').click()")
    until("six are shown again", lambda: len(titles(page)) == 6)


def test_a_run_that_logged_nothing_has_no_place_for_them(page):
    show(page)
    page.wait_for("[data-chart=loss]")
    assert not page.visible(".named")


JOB = {"id": "a", "name": "run", "state": "succeeded", "spec": {"name": "run"},
       "logged": {"bleu": 31.25, "eval/top-5": None}}


def test_each_is_a_column_of_the_table_of_runs(page):
    ids = call(page, COLUMNS, f"m.columnsOf([{json.dumps(JOB)}]).map((c) => c.id)")
    assert {"logged/bleu", "logged/eval/top-5"} <= set(ids)
    code = f"((c) => [c.title, c.kind, m.textOf(c, {json.dumps(JOB)})])(m.columnOf('%s'))"
    assert call(page, COLUMNS, code % "logged/bleu") == ["bleu", "figure", "31.3"]
    assert call(page, COLUMNS, code % "logged/eval/top-5") == ["eval/top-5", "figure", "none"]


@pytest.mark.parametrize("sort, order", [
    ("-logged/bleu", "-logged.bleu"), ("logged/eval/5.x", "logged.eval/5.x"),
    ("logged/a<b", None), ("metrics/test_loss", "metrics.test_loss")])
def test_the_service_orders_a_long_table_by_one(page, sort, order):
    assert call(page, CHOICE, f"m.servedOrder({json.dumps(sort)}) ?? null") == order
