"""A worker that dies under a parameter server (docs/decisions/0018): the attempt goes on without it.

Real processes and kill -9, on four nodes of unequal speed. Each epoch's samples count once: the
server's updates, the samples and the points of the charts are compared. Where the attempt needs the
rank that died (the keeper, a lockstep strategy), the job goes on from its checkpoint as before."""
import json
import os
import signal

import pytest

from service import Service, ranks_of, spec, until

# a step lasts about 40 ms, on `slow` 120 ms: long enough to see a gap, short enough for a test
NODES = ("fast-1=cpu:1,slowdown=20", "fast-2=cpu:1,slowdown=20", "fast-3=cpu:1,slowdown=25",
         "slow=cpu:1,slowdown=60")
SAMPLES, EPOCHS = 2560, 12
STRATEGIES = {
    "asgd": {"type": "asgd"},
    "softsync": {"type": "softsync", "n": 2},
    "softsync that blocks": {"type": "softsync", "n": 1, "pull": "blocking"},
    "dbs-sgd": {"type": "dbs-sgd", "c": 4, "pull": "blocking"},
    "ssp": {"type": "ssp", "s": 2},
}


@pytest.fixture(scope="module")
def service():
    with Service(nodes=NODES) as s:
        yield s


def job_spec(strategy, **changes):
    policy = "dynamic" if strategy["type"] == "dbs-sgd" else "equal"
    return spec(**{"strategy": strategy, "workers": 4, "epochs": EPOCHS,
                   "batching": {"global_batch": 64, "policy": policy},
                   "optimizer": {"type": "sgd", "learning_rate": 0.05},
                   "evaluate": {"every_epochs": EPOCHS}, "checkpoint": {"every_steps": 40},
                   **changes})


def rank_on(service, id, node):
    return next(w["rank"] for w in service.job(id)["workers"] if w["node"] == node)


def kill(service, id, node, after):
    """kill -9 of the worker on this node, once the job has done so many steps."""
    service.steps(id, after)
    rank = rank_on(service, id, node)
    ranks = until("all ranks run", lambda: (r := ranks_of(id)) and len(r) == 5 and r)
    os.kill(ranks[rank], signal.SIGKILL)
    return rank


def left(service, id):
    """Events "left" of the job, as they are told to whoever listens."""
    found = []
    with service.http.get(service.url + "/api/v1/events", stream=True, timeout=5,
                          headers={"Last-Event-ID": "0-0"}) as stream:
        try:
            for line in stream.iter_lines(decode_unicode=True):
                if line.startswith("data:") and '"left"' in line:
                    found.append(json.loads(line[5:]))
        except Exception as e:  # nothing more comes
            assert "timed out" in str(e).lower(), e
    return [e for e in found if e.get("job") == id and e.get("type") == "left"]


def assert_whole(service, id, job):
    """Every sample once; every update is an update of the chart or told as missing."""
    assert job["state"] == "succeeded" and job["error"] is None
    assert job["progress"]["samples"] == EPOCHS * SAMPLES and job["progress"]["fraction"] == 1.0
    nodes = service.get(f"jobs/{id}/staleness").json()["nodes"]
    assert sum(sum(n["histogram"]) for n in nodes) == sum(w["updates"] for w in job["workers"])
    assert sum(w["samples"] for w in job["workers"]) == EPOCHS * SAMPLES


def longest_gap(service, id, step):
    """The longest time between two rows of the survivors around `step`, in steps of the slowest."""
    series = service.get(f"jobs/{id}/series?names=compute_seconds&x=time&points=20000").json()
    own = [s for s in series["series"] if s["node"] != "slow" and s["node"]]
    times = sorted(x for s in own for x in s["x"])
    return max(b - a for a, b in zip(times, times[1:]))


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_worker_that_is_killed_costs_neither_the_attempt_nor_a_sample(service, name):
    id = service.submit(job_spec(STRATEGIES[name]))
    rank = kill(service, id, "slow", 40)
    job = service.wait(id, "succeeded")
    print(job["progress"], [(w["node"], w["state"], w["batch"], w["updates"], w["samples"]) for w in job["workers"]],
          job["rows_dropped"], longest_gap(service, id, 0))
    print(left(service, id))
    assert job["attempt"] == 1
    assert_whole(service, id, job)
