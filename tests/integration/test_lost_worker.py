"""A worker that dies under a parameter server (docs/decisions/0020): the attempt goes on.

Real processes and kill -9, on four nodes of unequal speed. Each epoch's samples count once: the
server's updates, the counters and the points of the charts are compared. Where the attempt needs
the rank that died (the keeper, a lockstep strategy), the job goes on from its checkpoint."""
import json
import os
import re
import signal
import statistics

import pytest

from agents import Agent, ready
from service import Service, ranks_of, spec, until

NODES = ("fast-1=cpu:1,slowdown=20", "fast-2=cpu:1,slowdown=20", "fast-3=cpu:1,slowdown=25",
         "slow=cpu:1,slowdown=60")
SAMPLES, EPOCHS = 2560, 120  # it still runs when a busy machine gets around to killing a rank
STRATEGIES = {
    "asgd": {"type": "asgd"},
    "softsync": {"type": "softsync", "n": 2},
    "softsync that blocks": {"type": "softsync", "n": 1, "pull": "blocking"},
    "dbs-sgd": {"type": "dbs-sgd", "c": 4, "pull": "blocking"},
    "ssp": {"type": "ssp", "s": 2},
}


@pytest.fixture
def service():
    with Service(nodes=NODES) as s:  # of its own: a node whose workers die again and again rests
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


def kill(id, rank):
    os.kill(until("all ranks run", lambda: len(r := ranks_of(id)) == 5 and r)[rank], signal.SIGKILL)


def listen(service, id):
    """The stream of the job's events from now on."""
    return service.http.get(f"{service.url}/api/v1/events?job={id}", stream=True, timeout=60)


def told(stream, type):
    """The next event "log" of this type."""
    for line in stream.iter_lines(decode_unicode=True):
        if line.startswith("data:"):
            data = json.loads(line[5:]).get("data") or {}
            if data.get("type") == type:
                return data


def assert_whole(service, id, job):
    """Every sample once, every update in the counters and in the figures of staleness."""
    assert job["state"] == "succeeded" and job["error"] is None
    assert job["progress"]["samples"] == EPOCHS * SAMPLES and job["progress"]["fraction"] == 1.0
    assert sum(w["samples"] for w in job["workers"]) == EPOCHS * SAMPLES
    nodes = service.get(f"jobs/{id}/staleness").json()["nodes"]
    assert sum(sum(n["histogram"]) for n in nodes) == sum(w["updates"] for w in job["workers"])


def times_of(service, id):
    """{node: the times of its rows, in seconds of the job}."""
    series = service.get(f"jobs/{id}/series?names=compute_seconds&x=time&points=20000").json()
    return {s["node"]: s["x"] for s in series["series"] if s["node"]}


def longest_pause(service, id):
    """The longest time that no survivor made a step, and the median of what `slow` needed for one
    while it lived."""
    times = times_of(service, id)
    slow = times.pop("slow")
    steps = sorted(t for own in times.values() for t in own)
    return (max(b - a for a, b in zip(steps, steps[1:])),
            statistics.median(b - a for a, b in zip(slow, slow[1:])))


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_worker_that_is_killed_costs_neither_the_attempt_nor_a_sample(service, name):
    id = service.submit(job_spec(STRATEGIES[name]))
    service.steps(id, 40)
    stream, rank = listen(service, id), rank_on(service, id, "slow")
    kill(id, rank)
    event = told(stream, "left")
    stream.close()
    assert event["message"] == f"slow left at step {event['step']}, 3 nodes go on"
    assert event["node"] == "slow" and event["rank"] == rank and event["step"] >= 40
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1 and job["restarts"] == 0
    assert_whole(service, id, job)
    dead = next(w for w in job["workers"] if w["node"] == "slow")
    assert dead["state"] == "left" and dead["batch"] == 0 and dead["updates"] > 0
    last = service.get(f"jobs/{id}/assignments").json()["assignments"]
    share = next(a for a in last if a["reason"].startswith("slow left, 3 nodes go on"))
    assert sum(share["batches"].values()) == 64 and "slow" not in share["batches"]
    if name == "asgd":  # each update is a point of its own, or told as missing
        points = service.get(f"jobs/{id}/series?names=train_loss&points=20000").json()["series"][0]
        assert points["total_points"] == job["progress"]["step"] - job["rows_dropped"]
    pause, step = longest_pause(service, id)
    print(f"{name}: no step for {pause:.3f} s, a step of the slow node took {step:.3f} s")
    told_by = re.search(rf"a worker is lost, the attempt goes on.* job={id} .*rank={rank} .*",
                        service.text())
    assert "signal 9" in told_by.group(), "its guard knows; who misses a heartbeat does not"
    if name in ("asgd", "softsync"):  # nobody waits for the one that died, nor for the verdict
        rows = service.get(f"jobs/{id}/series?names=staleness&points=20000").json()["series"]
        last = max(x for s in rows if s["node"] == "slow" for x in s["x"])
        assert event["step"] > last + 3


def test_the_last_worker_goes_on_alone_and_then_the_attempt_needs_it(service):
    id = service.submit(job_spec(STRATEGIES["asgd"], epochs=2000))
    service.steps(id, 40)
    for node, others in (("fast-1", 3), ("slow", 2), ("fast-3", 1)):
        stream, rank = listen(service, id), rank_on(service, id, node)
        os.kill(ranks_of(id)[rank], signal.SIGKILL)
        assert told(stream, "left")["others"] == others
        stream.close()
    at = service.job(id)["progress"]["step"]
    service.steps(id, at + 40)
    assert service.job(id)["attempt"] == 1
    os.kill(ranks_of(id)[rank_on(service, id, "fast-2")], signal.SIGKILL)
    until("it is started again", lambda: service.job(id)["attempt"] == 2)
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")


def test_a_worker_on_another_host_is_missed_as_fast():
    with Service(nodes=[], options=["--no-local-node"]) as service, Agent(
            service, "alpha", "a1=cpu:1,slowdown=20", "a2=cpu:1,slowdown=20"), Agent(
                service, "beta", "b1=cpu:1,slowdown=20"):
        ready(service, "a1", "a2", "b1")
        id = service.submit(job_spec(STRATEGIES["asgd"], workers=3))
        service.steps(id, 40)
        stream, rank = listen(service, id), rank_on(service, id, "b1")
        os.kill(ranks_of(id)[rank], signal.SIGKILL)
        event = told(stream, "left")
        stream.close()
        assert event["message"] == f"b1 left at step {event['step']}, 2 nodes go on"
        job = service.wait(id, "succeeded")
        assert job["attempt"] == 1
        assert_whole(service, id, job)


@pytest.mark.parametrize("strategy,dead", [("asgd", 4), ("sync", 1)])
def test_what_the_attempt_needs_sends_the_job_back_to_its_checkpoint(service, strategy, dead):
    id = service.submit(job_spec({"type": strategy}))
    service.steps(id, 60)
    until("a checkpoint is there", lambda: list(
        (service.dir / "jobs" / id / "checkpoints").glob("*.safetensors")))
    kill(id, dead)
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 2 and job["progress"]["samples"] == EPOCHS * SAMPLES
