"""An elastic job with real processes: it starts on the free nodes, grows, gives nodes to a job of
higher priority, and counts every sample once."""
import re

import pytest

from service import Service, spec, until
from test_cli import run
from test_recovery import EPOCHS, assert_whole, job_spec


@pytest.fixture(scope="module")
def service():
    with Service(nodes=[f"{n}=cpu:1,slowdown=80" for n in "abc"],
                 options=["--elastic-settle", "0", "--elastic-every", "0",
                          "--elastic-worth", "0"]) as s:
        yield s


def resized(service, id, n):
    """The job once it has changed its size n times and steps again."""
    def stepping():
        job = service.job(id)
        changes = job["resizes"]
        return len(changes) >= n and changes[n - 1]["seconds"] is not None and job
    return until(f"it has changed its size {n} times", stepping)


def test_it_grows_and_shrinks_and_counts_every_sample_once(service):
    assert service.post("nodes/c/drain").ok
    id = service.submit(job_spec(elastic={"min": 1, "max": 3}, workers=3, max_restarts=0))
    service.steps(id, 20)
    assert len(service.job(id)["workers"]) == 2
    assert service.post("nodes/c/enable").ok
    job = resized(service, id, 1)
    assert job["resizes"][0]["reason"] == "grew from 2 to 3 nodes: c joined"
    out, _, status = run("show", id, service=service)
    assert status == 0 and "  3 of 1 to 3 nodes\n" in out
    assert re.search(r"attempt 2: grew from 2 to 3 nodes: c joined, [\d.]+ s without a step", out)
    high = service.submit(spec(workers=1, epochs=1, priority=5))
    job = resized(service, id, 2)
    change = job["resizes"][1]
    assert (change["from"], change["to"], change["attempt"]) == (3, 2, 3)
    assert change["reason"].endswith(f"for job {high} of higher priority")
    service.wait(high, "succeeded")
    job = service.wait(id, "succeeded")
    assert_whole(service, id, job, EPOCHS)
    assert job["restarts"] == 0


def test_it_is_predicted_with_the_nodes_that_there_are(service):
    whole = service.submit(job_spec(1, workers=3))  # so that all nodes are known
    service.wait(whole, "succeeded")
    plan = service.post("jobs?dryRun=true", job_spec(1, workers=5, elastic={"min": 2, "max": 5}))
    assert plan.ok, plan.text
    assert plan.json()["starts"] == "now" and len(plan.json()["nodes"]) == 3
    assert plan.json()["prediction"]["strategies"], plan.json()["prediction"]
