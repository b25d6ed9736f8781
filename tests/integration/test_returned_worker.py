"""A worker that dies under a parameter server is started again and joins its attempt
(docs/decisions/0049): kill -9 of real processes, once, again and again, while it joins, and beside
everything else that may happen to a job meanwhile. A stopped guard holds the join up for as long as
a test needs that."""
import json
import os
import re
import signal
import time

import pytest

from service import Service, ranks_of, until
from test_lost_worker import (STRATEGIES, assert_whole, job_spec, kill, longest_pause, parent_of,
                              rank_on)

# Some 100 steps a second of all: a join takes more than one, and a job goes on after it.
NODES = ("fast-1=cpu:1,slowdown=400", "fast-2=cpu:1,slowdown=400", "slow=cpu:1,slowdown=800")
EPOCHS, LONG = 15, 2000
SERVED = {name: s for name, s in STRATEGIES.items() if s["type"] != "sync"}


@pytest.fixture
def service():
    with Service(nodes=NODES) as s:
        yield s


class Events:
    """The job's events "log" from now on."""

    def __init__(self, service, id):
        self.stream = service.http.get(f"{service.url}/api/v1/events?job={id}", stream=True,
                                       timeout=60)
        self.lines = self.stream.iter_lines(chunk_size=1, decode_unicode=True)

    def next(self, type):
        for line in self.lines:
            data = (json.loads(line[5:]).get("data") or {}) if line.startswith("data:") else {}
            if data.get("type") == type:
                return data


def submit(service, strategy="asgd", **changes):
    of = SERVED[strategy]
    changes = {"workers": 3, "epochs": EPOCHS, "evaluate": {"every_epochs": 10}, **changes}
    if of["type"] == "dbs-sgd":
        of = {**of, "c": 3}
    id = service.submit(job_spec(of, **changes))
    service.steps(id, 40)
    return id


def worker(service, id, node):
    return next(w for w in service.job(id)["workers"] if w["node"] == node)


def waits_for_fast_1(service, id):
    """Kills fast-1's worker and stops its guard: it is to be started again, and does not come."""
    rank, events = rank_on(service, id, "fast-1"), Events(service, id)
    guard = parent_of(ranks_of(id)[rank])
    kill(id, rank)
    assert events.next("left")["node"] == "fast-1"
    os.kill(guard, signal.SIGSTOP)
    until("it is to be started again",
          lambda: re.search(f"a worker is started again.* job={id} ", service.text()))
    return guard, events


@pytest.mark.parametrize("name", SERVED)
def test_a_killed_worker_comes_back_into_the_attempt(service, name):
    id = submit(service, name)
    events, before = Events(service, id), worker(service, id, "fast-1")["updates"]
    kill(id, rank_on(service, id, "fast-1"))
    left, began = events.next("left"), time.monotonic()
    back, seconds = events.next("returned"), time.monotonic() - began
    assert back["message"] == f"fast-1 came back at step {back['step']}"
    assert back["step"] >= left["step"] and back["nodes"] == 3
    until("it makes steps", lambda: worker(service, id, "fast-1")["updates"] > before + 20)
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1 and job["restarts"] == 0
    assert_whole(service, id, job)
    assert worker(service, id, "fast-1")["state"] == "done"
    all = service.get(f"jobs/{id}/assignments").json()["assignments"]
    share = next(a for a in all if a["reason"].startswith("fast-1 came back, 3 nodes go on"))
    assert sum(share["batches"].values()) == 64 and share["batches"]["fast-1"] > 0
    if name == "asgd":  # each update is a point of its own, or told as missing
        points = service.get(f"jobs/{id}/series?names=train_loss&points=20000").json()["series"][0]
        assert points["total_points"] == job["progress"]["step"] - job["rows_dropped"]
    print(f"{name}: back after {seconds:.1f} s, "
          f"no step of the others for {longest_pause(service, id, 'fast-1'):.3f} s")


def test_one_that_dies_again_and_again_stays_out(service):
    id = submit(service, epochs=LONG)
    rank, events = rank_on(service, id, "fast-1"), Events(service, id)
    for _ in range(3):
        kill(id, rank)
        events.next("left")
        assert events.next("returned")["node"] == "fast-1"
        until("it is there", lambda: rank in ranks_of(id))
    kill(id, rank)
    events.next("left")
    until("it stays out", lambda: re.search(
        f"a worker stays out.* job={id} .*died again and again", service.text()))
    service.steps(id, service.job(id)["progress"]["step"] + 100)
    assert worker(service, id, "fast-1")["state"] == "left" and service.job(id)["attempt"] == 1
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")


def test_one_that_is_killed_before_it_has_joined_is_started_once_more(service):
    id = submit(service)
    rank = rank_on(service, id, "fast-1")
    guard, events = waits_for_fast_1(service, id)
    os.kill(guard, signal.SIGCONT)
    os.kill(until("the next one is there", lambda: ranks_of(id).get(rank), every=0.001),
            signal.SIGKILL)
    assert events.next("returned")["node"] == "fast-1"
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1
    assert_whole(service, id, job)


def test_a_job_that_ends_meanwhile_waits_for_nobody(service):
    id = submit(service)
    waits_for_fast_1(service, id)
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1
    assert_whole(service, id, job)


def test_a_job_pauses_and_checkpoints_meanwhile(service):
    id = submit(service)
    guard, _ = waits_for_fast_1(service, id)
    at = service.job(id)["progress"]["step"]
    until("a checkpoint is written", lambda: any(
        int(re.search(r"(\d+)", p.stem).group()) > at
        for p in (service.dir / "jobs" / id / "checkpoints").glob("*.safetensors")))
    service.post(f"jobs/{id}/pause")
    service.wait(id, "paused")
    service.post(f"jobs/{id}/resume")
    job = service.wait(id, "succeeded")
    assert job["progress"]["samples"] == job["spec"]["epochs"] * 2560


def test_a_coordinator_that_is_restarted_meanwhile_goes_on_with_it():
    with Service(nodes=NODES) as service:
        id = submit(service)
        guard, _ = waits_for_fast_1(service, id)
        service.kill()
        service.start()
        until("the job is adopted", lambda: "adopted" in service.text() or service.job(id))
        os.kill(guard, signal.SIGCONT)
        until("it is there", lambda: worker(service, id, "fast-1")["state"] != "left")
        job = service.wait(id, "succeeded")
        assert job["attempt"] == 1
        assert_whole(service, id, job)


def test_other_attempts_go_on_without_it(service):
    """`sync` lets nobody join."""
    id = service.submit(job_spec({"type": "sync"}, workers=3, epochs=LONG))
    service.steps(id, 20)
    events = Events(service, id)
    kill(id, rank_on(service, id, "fast-1"))
    events.next("left")
    service.steps(id, service.job(id)["progress"]["step"] + 60)
    assert "a worker is started again" not in service.text()
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")
