"""A worker that dies under a parameter server (docs/decisions/0049), in `sync` (0062) or where
workers average or sum rounds (0063), or with a user's program under a server (0073), is started
again and joins its attempt: kill -9 of real processes, once, again and again, while it joins, and
beside everything else that may happen to a job meanwhile. A stopped guard holds the join up for as
long as a test needs that; a long step of another worker holds it up later, when all are asked for
their steps.

That all ranks of a job without a server end with the same parameters is compared by the keeper,
which else ends the attempt."""
import json
import os
import re
import signal
import time

import numpy as np
import pytest
import redis

from agents import Agent, ready
from service import DEADLINE, PATIENCE, Service, proc_file, ranks_of, until
from test_lost_worker import (AVERAGING, MOMENTUM, SAMPLES, STRATEGIES, TWO_EPOCHS, assert_whole,
                              guard_of_rank, interval, job_spec, kill, longest_pause, open_gate,
                              rank_on, run_program)

# In lockstep some 30 steps a second: on a busy machine a join takes some seconds, and the job must
# not end before it.
FAST, SLOW = 320, 640
NODES = tuple(f"{n}=cpu:1,slowdown={SLOW if n == 'slow' else FAST}"
              for n in ("fast-1", "fast-2", "slow"))
EPOCHS, LONG = 8, 2000
LOCKSTEP_EPOCHS = 5  # each step waits for the slow node
FOUR_DEATHS_EPOCHS = 20  # the second death of a worker costs 4 s, even on the fastest machine
LOCKSTEP = {"sync": {"type": "sync"}, **AVERAGING}
RETURNING = {**STRATEGIES, **AVERAGING, "dc-asgd": {"type": "dc-asgd"},
             "dc-asgdk": {"type": "dc-asgdk"}, "ddc-asgd": {"type": "ddc-asgd"}}
both = pytest.mark.parametrize("strategy", ["asgd", "sync"])
all_three = pytest.mark.parametrize("strategy", ["asgd", "sync", "local-sgd"])


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
        """Fails once the stream has sent nothing else for long, only that it is alive."""
        end = time.monotonic() + DEADLINE * PATIENCE
        for line in self.lines:
            data = (json.loads(line[5:]).get("data") or {}) if line.startswith("data:") else {}
            if data.get("type") == type:
                return data
            assert time.monotonic() < end, f"nothing is told of type {type}"
        raise AssertionError(f"the stream ended without type {type}")


def submit(service, strategy="asgd", **changes):
    of = RETURNING[strategy]
    barrier = strategy in LOCKSTEP or of.get("pull") == "blocking"
    epochs = LOCKSTEP_EPOCHS if barrier else EPOCHS
    changes = {"workers": 3, "epochs": epochs, "evaluate": {"every_epochs": 10}, **changes}
    of = {**of, **{k: 3 for k in ("c", "group_size") if k in of}}  # of three instead of four
    id = service.submit(job_spec(of, **changes))
    service.steps(id, 40)
    return id


def worker(service, id, node):
    return next(w for w in service.job(id)["workers"] if w["node"] == node)


def waits_for_fast_1(service, id):
    """Kills fast-1's worker and stops its guard: it is to be restarted, and does not come. A test
    that is late finds the next process there, which waits longer if it is killed."""
    def starts():
        return len(re.findall(f"a worker is started again.* job={id} ", service.text()))

    rank, events = rank_on(service, id, "fast-1"), Events(service, id)
    guard, times = guard_of_rank(id, rank), starts()
    while True:
        kill(id, rank)
        assert events.next("left")["node"] == "fast-1"
        os.kill(guard, signal.SIGSTOP)
        times += 1
        if not proc_file(guard, f"task/{guard}/children").split():
            break
        os.kill(guard, signal.SIGCONT)
        events.next("returned")
    until("it is to be started again", lambda: starts() == times)
    return guard, events


def has_joined(service, id):
    """Has fast-1's worker been let in within the last moments, as far as the coordinator knows?"""
    end = time.monotonic() + 1
    while time.monotonic() < end:
        if worker(service, id, "fast-1")["state"] != "left":
            return True
        time.sleep(0.05)
    return False


def hangs(service, id):
    """Kills fast-1's worker; its next process is stopped before it has joined. Returns that
    process. A test that is late kills it and stops the following one."""
    rank = rank_on(service, id, "fast-1")
    while True:
        guard, events = waits_for_fast_1(service, id)
        os.kill(guard, signal.SIGCONT)
        pid = until("the next one is there", lambda: ranks_of(id).get(rank), every=0.001)
        os.kill(pid, signal.SIGSTOP)
        if not has_joined(service, id):
            return pid, rank, events
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("strategy", ["asgd", "sync"])
def test_workers_of_this_host_and_of_an_agents_reach_each_other(strategy):
    """By ports: the coordinator's host has the attempt's key, the other host has its own. Both
    workers die."""
    with Service(nodes=NODES[:1] + NODES[2:]) as s, Agent(s, "far", "far=cpu:1,slowdown=320"):
        ready(s, "far")
        id = submit(s, strategy)
        for node in ("far", "fast-1"):
            events, before = Events(s, id), worker(s, id, node)["updates"]
            kill(id, rank_on(s, id, node))
            assert events.next("left")["node"] == node
            assert events.next("returned")["node"] == node
            until("it makes steps", lambda: worker(s, id, node)["updates"] > before + 10)
        job = s.wait(id, "succeeded")
        assert job["attempt"] == 1 and job["restarts"] == 0
        assert_whole(s, id, job)


@pytest.mark.parametrize("name", RETURNING)
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


@all_three
def test_one_that_dies_again_and_again_stays_out(service, strategy):
    id = submit(service, strategy, epochs=LONG)
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
    service.steps(id, service.job(id)["progress"]["step"] + 40)
    assert worker(service, id, "fast-1")["state"] == "left" and service.job(id)["attempt"] == 1
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")


@all_three
def test_one_that_is_killed_before_it_has_joined_is_started_once_more(service, strategy):
    id = submit(service, strategy)
    rank = rank_on(service, id, "fast-1")
    guard, events = waits_for_fast_1(service, id)
    os.kill(guard, signal.SIGCONT)
    os.kill(until("the next one is there", lambda: ranks_of(id).get(rank), every=0.001),
            signal.SIGKILL)
    assert events.next("returned")["node"] == "fast-1"
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1
    assert_whole(service, id, job)


@pytest.mark.parametrize("named", ["lost", "silent"])
@both
def test_one_that_hangs_before_it_has_joined_is_killed_once_it_is_given_up(
        service, strategy, named):
    """The test gives it up on behalf of the coordinator: as lost, for which that waits for 90 s, or
    as silent, like one that hangs as it is let in."""
    id = submit(service, strategy, epochs=LONG)
    pid, rank, events = hangs(service, id)
    key = f"es:job:{id}:control"
    with redis.Redis(unix_socket_path=str(service.dir / "redis.sock")) as store:
        control = json.loads(store.get(key))
        assert rank not in control.get(named, []) and control["seats"][rank] >= 1

        def killed():  # the coordinator may have overwritten it with new minibatches
            control = json.loads(store.get(key))
            if rank not in control.get(named, []):
                store.set(key, json.dumps({**control, named: [*control.get(named, []), rank]}))
            return not proc_file(pid, "cmdline")
        until("it is killed", killed)
    assert events.next("returned")["node"] == "fast-1"  # its guard is there for the next one
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")


@both
def test_a_job_is_cancelled_while_one_joins(service, strategy):
    id = submit(service, strategy, epochs=LONG)
    pid, _, _ = hangs(service, id)
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")
    until("it is gone, too", lambda: not proc_file(pid, "cmdline"))


@all_three
def test_a_job_that_ends_meanwhile_waits_for_nobody(service, strategy):
    id = submit(service, strategy)
    waits_for_fast_1(service, id)
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1
    assert_whole(service, id, job)


@all_three
def test_a_job_pauses_and_checkpoints_meanwhile(service, strategy):
    id = submit(service, strategy)
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


@both
def test_a_coordinator_that_is_restarted_meanwhile_goes_on_with_it(strategy):
    with Service(nodes=NODES) as service:
        id = submit(service, strategy)
        guard, _ = waits_for_fast_1(service, id)
        service.kill()
        service.start()
        until("the job is adopted", lambda: "adopted" in service.text() or service.job(id))
        os.kill(guard, signal.SIGCONT)
        until("it is there", lambda: worker(service, id, "fast-1")["state"] != "left")
        job = service.wait(id, "succeeded")
        assert job["attempt"] == 1
        assert_whole(service, id, job)


# ---- without a server ----------------------------------------------------------------------------

FOUR = (*NODES[:2], f"fast-3=cpu:1,slowdown={FAST}", NODES[2])


@pytest.fixture
def four():
    with Service(nodes=FOUR) as s:
        yield s


def submit_lockstep(service, name="sync", steps=20, **changes):
    """A job of 200 steps; a worker that is away misses some 40."""
    optimizer = {} if name == "hpsgd" else {"optimizer": MOMENTUM}
    changes = {"epochs": LOCKSTEP_EPOCHS, **changes}
    id = service.submit(job_spec(LOCKSTEP[name], **optimizer, **changes))
    service.steps(id, steps)
    return id


def ranks_log(service, id):
    return (service.dir / "jobs" / id / "logs" / "attempt-1.out").read_text()


def assert_as_one_that_lost_nobody(service, id, job, curve=None):
    """Each step counts once on each rank that was there, and all replicas are equal at the end. In
    `sync` the loss falls as in a job without losses: minibatches are cut again, so an update
    differs only in the order of additions."""
    last = job["spec"]["epochs"] * SAMPLES // job["spec"]["batching"]["global_batch"]
    assert job["state"] == "succeeded" and job["attempt"] == 1 and job["restarts"] == 0
    assert_whole(service, id, job)
    assert job["progress"]["step"] == last
    assert [w["state"] for w in job["workers"]] == ["done"] * 4
    assert re.search("end with the same parameters.* workers=4 digest=", ranks_log(service, id))
    made = service.get(f"jobs/{id}/series?names=compute_seconds&points=20000").json()["series"]
    for node in (s for s in made if s["node"]):
        assert len(set(node["x"])) == len(node["x"]), f"steps of {node['node']} stand twice"
    here = losses(service, id)
    assert sorted(here) == list(range(1, last + 1))
    assert curve is None or max(abs(here[step] - curve[step]) for step in here) < 0.05


def losses(service, id):
    """Training loss by step."""
    s = service.get(f"jobs/{id}/series?names=train_loss&points=20000").json()["series"][0]
    return dict(zip(s["x"], s["mean"]))


@pytest.fixture(scope="module")
def curve():
    """Losses of a job that loses no worker; with equal nodes they are the same."""
    with Service(nodes=tuple(f"{n}=cpu:1" for n in "abcd")) as s:
        id = s.submit(job_spec({"type": "sync"}, optimizer=MOMENTUM, epochs=FOUR_DEATHS_EPOCHS))
        s.wait(id, "succeeded")
        return losses(s, id)


@pytest.mark.parametrize("name,node", [("sync", "fast-1"), ("sync", "slow"),
                                       ("local-sgd", "fast-1"), ("hier-sgd", "slow"),
                                       ("hpsgd", "fast-1")])
def test_one_that_comes_back_goes_on_as_if_it_had_never_been_away(four, curve, name, node):
    """Rank 0 (fast-1) speaks for all. Evaluations and checkpoints continue meanwhile."""
    id = submit_lockstep(four, name, evaluate={"every_steps": 10}, checkpoint={"every_steps": 15})
    rank, events = rank_on(four, id, node), Events(four, id)
    kill(id, rank)
    left = events.next("left")
    assert left["message"] == f"{node} left at step {left['step']}, 3 nodes go on"
    back = events.next("returned")
    assert back["message"] == f"{node} came back at step {back['step']}"
    assert (back["rank"], back["nodes"]) == (rank, 4) and back["step"] > left["step"]
    job = four.wait(id, "succeeded")
    assert_as_one_that_lost_nobody(four, id, job, curve if name == "sync" else None)
    away = back["step"] - left["step"]
    assert name == "sync" or away % interval(LOCKSTEP[name]) == 0
    assert job["workers"][rank]["updates"] <= job["progress"]["step"] - away
    shares = four.get(f"jobs/{id}/assignments").json()["assignments"]
    share = next(a for a in shares if a["reason"].startswith(f"{node} came back, 4 nodes go on"))
    assert sum(share["batches"].values()) == 64 and share["batches"][node] > 0
    tested = four.get(f"jobs/{id}/series?names=test_accuracy&points=20000").json()["series"][0]
    if name != "hpsgd":  # which evaluates between rounds
        assert tested["x"] == list(range(10, job["progress"]["step"] + 1, 10))
    print(f"{left['message']}, {back['message']}: "
          f"no step for {longest_pause(four, id, node):.3f} s")


@pytest.mark.parametrize("name", ["sync", "hier-sgd"])
def test_two_that_die_one_after_the_other_or_at_once_are_both_there_again(four, curve, name):
    id = submit_lockstep(four, name, epochs=FOUR_DEATHS_EPOCHS)
    events = Events(four, id)
    for node in ("slow", "fast-2"):
        kill(id, rank_on(four, id, node))
        assert events.next("returned")["node"] == node
    for rank in (0, 3):
        kill(id, rank)
    assert {events.next("returned")["rank"] for _ in range(2)} == {0, 3}
    assert_as_one_that_lost_nobody(four, id, four.wait(id, "succeeded"),
                                   curve if name == "sync" else None)


# ---- servers of users' programs ------------------------------------------------------------------

@pytest.fixture
def service_of_programs():
    with Service(nodes=tuple(f"{n}=cpu:1" for n in "abcd"), options=["--allow-programs"]) as s:
        yield s


@pytest.mark.parametrize("rank,point,strategy", [
    (0, "half", {"type": "asgd"}), (2, "begun", {"type": "softsync", "n": 1, "pull": "blocking"}),
    (3, "after", {"type": "dbs-sgd"})], ids=lambda v: v["type"] if isinstance(v, dict) else v)
def test_a_program_whose_worker_is_killed_comes_back_to_its_server(
        service_of_programs, rank, point, strategy):
    """Its slices go to the others, and its next process gets some (docs/decisions/0073). The order
    of updates does not matter for gradients that do not depend on the parameters. So the result is
    that of each sample once per epoch, within rounding; one sample too many is 0.01."""
    service, hold = service_of_programs, service_of_programs.dir / "hold"
    id, gate = run_program(service, 1, 5, point, "--on", rank, "--times", 1, "--hold", hold,
                           strategy=strategy)
    events = Events(service, id)
    open_gate(service, id, gate)
    event = events.next("left")
    assert (event["rank"], event["others"]) == (rank, 3)
    before = service.job(id)["workers"][rank]["updates"]
    assert events.next("returned")["nodes"] == 4
    hold.touch()
    job = service.wait(id, "succeeded")
    back = job["workers"][rank]
    assert job["attempt"] == 1 and back["state"] == "done" and back["updates"] > before
    assert job["progress"]["samples"] == sum(w["samples"] for w in job["workers"]) == 2 * SAMPLES
    for r in range(4):
        ended = json.loads(service.artifact(id, f"rank-{r}.json"))
        assert np.array(ended["params"], "f4") == pytest.approx(TWO_EPOCHS, abs=1e-3)
        assert ended["incarnation"] == (r == rank)


def test_a_run_that_ends_before_rank_0_is_there_again_does_not_wait_for_what_it_wrote(
        service_of_programs):
    service, hold = service_of_programs, service_of_programs.dir / "hold"
    id, gate = run_program(service, 1, 5, "half", "--on", 0, "--hold", hold,
                           strategy={"type": "asgd"})
    until("all ranks run", lambda: len(ranks_of(id)) == 5)
    guard, events = guard_of_rank(id, 0), Events(service, id)
    open_gate(service, id, gate)
    assert events.next("left")["rank"] == 0
    os.kill(guard, signal.SIGSTOP)
    until("it is to be started again",
          lambda: re.search(f"a worker is started again.* job={id} ", service.text()))
    hold.touch()
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1 and job["progress"]["samples"] == 2 * SAMPLES
    assert "rank 0 has died, and what it wrote with it" in ranks_log(service, id)
