"""A long queue on the list of jobs: all of it is counted, and what starts first stands first."""
import json

import pytest

from service import Service, spec
from test_pure import call

JOBS = 120  # more than were read of a state


@pytest.fixture(scope="module")
def service():
    with Service(nodes=("a=cpu:1",)) as s:
        yield s


def test_all_that_waits_is_counted_and_stands_in_the_order_of_its_start(page, service):
    assert service.post("nodes/a/disable").ok
    for i in range(JOBS):
        service.submit(spec(name=f"wait-{i}", workers=1))
    page.driver.refresh()
    page.wait_text("h1", f"^No jobs are running; {JOBS} jobs wait")
    page.wait_text("main", r"\n1\s+wait-0\s")
    page.wait_text("main", f"{JOBS}, the first 100, in the order they start")
    assert "wait-99" in page.text("main") and "wait-100" not in page.text("main")


@pytest.mark.parametrize("spec, wanted", [
    ({"workers": 2}, "2 free nodes"), ({"workers": 1, "cluster": {}}, "its turn")])
def test_a_virtual_job_waits_for_no_node(page, spec, wanted):
    assert call(page, "/js/measures/measures.js",
                f"m.awaited({json.dumps({'spec': spec})})") == wanted


@pytest.mark.parametrize("kinds, wanted", [
    ("rv", "One job trains on 3 of 4 nodes, and one on virtual nodes."),
    ("rrvv", "2 jobs train on 3 of 4 nodes, and 2 on virtual nodes."),
    ("r", "One job trains on 3 of 4 nodes."), ("vv", "2 jobs train on virtual nodes.")])
def test_virtual_jobs_do_not_train_on_our_nodes(page, kinds, wanted):
    """Of a job on three nodes and a virtual one it was said that two train on three of four."""
    jobs = [{"spec": {"cluster": {}} if kind == "v" else {}} for kind in kinds]
    nodes = [{"state": "busy", "job": "j"}, {"state": "busy", "job": "j"},
             {"state": "draining", "job": "j"}, {"state": "lost", "job": "j"}]
    got = call(page, "/js/views/jobs/lead.js",
               f"new m.Lead({{nodes: {json.dumps(nodes)}}}).trains({json.dumps(jobs)}, '')")
    assert got == wanted
