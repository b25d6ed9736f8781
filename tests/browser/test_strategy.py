"""The page shows what a strategy tells of itself, where the other figures are; strategies that tell
nothing have no such row."""
import pytest

from service import spec, until

CLUSTER = {"nodes": [{"name": "a", "count": 2, "fixed_seconds": 0.1, "seconds_per_sample": 0.01},
                     {"name": "b", "fixed_seconds": 0.3}], "links": {"latency_seconds": 0.05}}


def virtual(service, strategy):
    job = spec(cluster=CLUSTER, strategy=strategy, workers=3, optimizer={"learning_rate": 0.05},
               data={"format": "glyphs", "samples": 640, "test_samples": 50})
    id = service.submit(job)
    service.wait(id, "succeeded")
    return id


@pytest.mark.parametrize("strategy,title,value",
                         [({"type": "hpsgd", "k": 2}, "Local steps of a round", "2"),
                          ({"type": "local-sgd", "k": 2}, "Distance of the replicas", None),
                          ({"type": "dc-asgd", "lambda": 0}, "Compensation", "1"),
                          ({"type": "ssp", "s": 0}, "Waiting for the slowest", None)])
def test_a_strategy_has_its_own_chart_and_values_per_node(page, service, strategy, title, value):
    page.open_job(virtual(service, strategy))
    row = page.wait_for("[aria-label='What the strategy does']")
    until("the chart has its title", lambda: title in row.text)
    cells = lambda: [c.text for c in row.find_elements("css selector", "tbody td.num:nth-child(2)")]
    until("every node has its value", lambda: len(cells()) == 3
          and all(c and c != "none" for c in cells()))
    assert value is None or set(cells()) == {value}


def test_a_strategy_that_tells_nothing_has_no_such_row(page, service):
    page.open_job(virtual(service, {"type": "asgd"}))
    page.wait_for("[aria-label='Throughput']")
    assert not page.all("[aria-label='What the strategy does']")


@pytest.mark.parametrize("strategy,calm", [("sync", True), ("local-sgd", False)])
def test_where_all_exchange_at_every_step_a_sentence_stands_for_the_staleness(
        page, service, strategy, calm):
    page.open_job(virtual(service, {"type": strategy}))
    row = page.wait_for("[aria-label='Staleness']")
    page.wait_for("[aria-label='Throughput']")
    until("the row is as the strategy is", lambda: ("no gradient is ever late" in row.text) == calm)


def test_a_column_that_the_table_of_rows_names_is_a_chart_of_every_node(page, service):
    """The list is made from job/row.def; here it has one column more."""
    job = virtual(service, {"type": "sync"})
    name = """import('/js/views/job/rowcharts.js').then(({CHARTS}) => {
        CHARTS.%s; arguments[0](); });"""
    add = "push({series: 'compute_seconds', title: 'Own time', subtitle: 'of a step'})"
    page.driver.execute_async_script(name % add)
    try:
        page.open_job(job)
        row = page.wait_for("[aria-label='Own time']")
        page.click("[aria-label='Numbers of Own time as a table']")
        until("it has a point of each node", lambda: {c.text for c in row.find_elements(
            "css selector", "table td:first-child")} == {"a-1", "a-2", "b"})
    finally:
        page.driver.execute_async_script(name % "pop()")
