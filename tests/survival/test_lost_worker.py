"""A worker that dies under a parameter server (docs/decisions/0020), in `sync` (0022), in `sync` of
users' programs (0029), where workers average (0036) or sum rounds (0050): the attempt goes on. One
that dies in the start costs no restart (0056).

Real processes and kill -9, on four nodes of unequal speed. Each epoch's samples count once: the
server's updates, the counters and the points of the charts are compared. That the survivors of
`sync` have the same parameters is compared by the keeper at the end, which else ends the attempt.
A program's gradients are sums of whole numbers, one for each sample, so its parameters at the end
tell that each sample was in exactly one step. Where the attempt needs the rank that died (the
keeper), the job goes on from its checkpoint."""
import json
import os
import random
import re
import secrets
import signal
import time

import numpy as np
import pytest

from agents import Agent, ready
from service import Service, proc_file, program_of, ranks_of, runs, spec, until
from test_program import COUNTING, first_parameters, gradient

NODES = ("fast-1=cpu:1,slowdown=60", "fast-2=cpu:1,slowdown=60", "fast-3=cpu:1,slowdown=75",
         "slow=cpu:1,slowdown=150")
SAMPLES = 2560
# Long enough that a job still runs when a busy machine gets around to killing a rank, by slow steps
# and not by many, which compute; servers that wait for nobody take many more updates a second.
EPOCHS, FREE_EPOCHS = 8, 16
STRATEGIES = {
    "asgd": {"type": "asgd"},
    "softsync": {"type": "softsync", "n": 2},
    "softsync that blocks": {"type": "softsync", "n": 1, "pull": "blocking"},
    "dbs-sgd": {"type": "dbs-sgd", "c": 4, "pull": "blocking"},
    "ssp": {"type": "ssp", "s": 2},
    "sync": {"type": "sync"},
}
AVERAGING = {"local-sgd": {"type": "local-sgd", "k": 4},
             "hier-sgd": {"type": "hier-sgd", "k1": 2, "k2": 8, "group_size": 2},
             "hpsgd": {"type": "hpsgd", "k": 3}}


@pytest.fixture
def service():
    with Service(nodes=NODES) as s:  # of its own: a node whose workers die again and again rests
        yield s


@pytest.fixture
def draw():
    """Random numbers; the output of a failed test has their seed."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    return random.Random(seed)


def job_spec(strategy, **changes):
    policy = "dynamic" if strategy["type"] == "dbs-sgd" else "equal"
    free = strategy["type"] in ("asgd", "softsync", "ssp") and "pull" not in strategy
    epochs = FREE_EPOCHS if free else EPOCHS
    return spec(**{"strategy": strategy, "workers": 4, "epochs": epochs,
                   "batching": {"global_batch": 64, "policy": policy},
                   "optimizer": {"type": "sgd", "learning_rate": 0.05},
                   "evaluate": {"every_epochs": epochs}, "checkpoint": {"every_steps": 40},
                   **changes})


def rank_on(service, id, node):
    return next(w["rank"] for w in service.job(id)["workers"] if w["node"] == node)


def kill(id, rank):
    """Kills a worker whose communication thread sleeps. A worker that dies while it appends to
    another one's queue in shared memory leaves Open MPI spinning there, and the attempt ends
    (docs/decisions/0061)."""
    pid = until("all ranks run", lambda: rank in (r := ranks_of(id)) and r)[rank]
    until("its communication thread sleeps", lambda: not runs(pid, "exchange"), every=0.0002)
    os.kill(pid, signal.SIGKILL)


def lose(service, id, rank, kill):
    """Has that worker killed by kill(); it is not restarted. Returns the event about how the others
    continue."""
    stream, guard = listen(service, id), guard_of(service, id, rank)
    kill()
    event = told(stream, "left")
    if guard:
        stays_out(guard)
    stream.close()
    return event


def kill_one(service, id, rank):
    return lose(service, id, rank, lambda: kill(id, rank))


def lose_behind_gate(service, id, rank, gate):
    """For the programs of run_program(): that rank's program kills its worker."""
    until("all ranks run", lambda: len(ranks_of(id)) == 5)
    return lose(service, id, rank, lambda: open_gate(service, id, gate))


def guard_of(service, id, rank):
    """The guard of a worker that would be restarted (test_returned_worker.py), else None."""
    strategy = service.job(id)["spec"]["strategy"]["type"]
    if strategy in {s["type"] for s in (*STRATEGIES.values(), *AVERAGING.values())}:
        return guard_of_rank(id, rank)


def guard_of_rank(id, rank):
    """Waits for the guard: mpirun starts it under a worker's name, and it starts the worker. Before
    that, the rank's parent is mpirun."""
    def found():
        worker = ranks_of(id).get(rank)
        guard = worker and parent_of(worker)
        return guard and program_of(guard) == "evenstep-guard" and guard
    return until(f"a guard watches rank {rank}", found)


def stays_out(guard):
    """Stops the guard of a worker that has left, and ends the process that it may have started,
    which has not joined."""
    os.kill(guard, signal.SIGSTOP)
    for pid in proc_file(guard, f"task/{guard}/children").split():
        os.kill(int(pid), signal.SIGKILL)


def parent_of(pid):
    return int(proc_file(pid, "stat").rsplit(b")", 1)[1].split()[1])


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
    """Every sample counts once, and every update in the counters and in the figures of
    staleness."""
    samples = job["spec"]["epochs"] * SAMPLES
    assert job["state"] == "succeeded" and job["error"] is None
    assert job["progress"]["samples"] == samples and job["progress"]["fraction"] == 1.0
    assert sum(w["samples"] for w in job["workers"]) == samples
    nodes = service.get(f"jobs/{id}/staleness").json()["nodes"]
    assert sum(sum(n["histogram"]) for n in nodes) == sum(w["updates"] for w in job["workers"])


def longest_pause(service, id, dead):
    """The longest time, in seconds, in which no survivor made a step."""
    series = service.get(f"jobs/{id}/series?names=compute_seconds&x=time&points=20000").json()
    steps = sorted(t for s in series["series"] if s["node"] and s["node"] != dead for t in s["x"])
    return max(b - a for a, b in zip(steps, steps[1:]))


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_worker_that_is_killed_costs_neither_the_attempt_nor_a_sample(service, name):
    id = service.submit(job_spec(STRATEGIES[name]))
    service.steps(id, 40)
    rank = rank_on(service, id, "slow")
    event = kill_one(service, id, rank)
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
    print(f"{name}: no step for {longest_pause(service, id, 'slow'):.3f} s")
    told_by = re.search(rf"a worker is lost, the attempt continues.* job={id} .*rank={rank} .*",
                        service.text())
    assert "signal 9" in told_by.group(), "its guard knows; who misses a heartbeat does not"
    # nobody waits for the dead worker, nor for the verdict: a waiting worker would make one more
    # update
    if name in ("asgd", "softsync"):
        rows = service.get(f"jobs/{id}/series?names=staleness&points=20000").json()["series"]
        last = max(x for s in rows if s["node"] == "slow" for x in s["x"])
        assert event["step"] > last + 1


@pytest.mark.parametrize("strategy", ["asgd", "sync"])
def test_the_last_worker_goes_on_alone_and_then_the_attempt_needs_it(service, strategy):
    id = service.submit(job_spec({"type": strategy}, epochs=2000))
    service.steps(id, 40)
    for node, others in (("fast-1", 3), ("slow", 2), ("fast-3", 1)):
        assert kill_one(service, id, rank_on(service, id, node))["others"] == others
    at = service.job(id)["progress"]["step"]
    service.steps(id, at + 40)
    assert service.job(id)["attempt"] == 1
    kill(id, rank_on(service, id, "fast-2"))
    until("it is started again", lambda: service.job(id)["attempt"] == 2)
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")


@pytest.mark.parametrize("strategy", ["asgd", "sync"])
def test_a_worker_that_is_killed_as_soon_as_it_is_there_costs_no_restart(service, strategy, draw):
    """Before the ranks have met, in their first moments after that, or before the first step. If
    the others cannot continue, the job starts again without a charge."""
    moments = {"at once": 0, "in the start": 0.2 + draw.random() * 0.4, "at the first step": None}
    for rank, (moment, after) in zip(draw.sample(range(4), 3), moments.items()):
        id = service.submit(job_spec({"type": strategy}, max_restarts=0))
        until("it is there", lambda: rank in ranks_of(id), every=0.01)
        if after is None:
            service.steps(id, 1)
        time.sleep(after or 0)
        kill(id, rank)
        job = service.wait(id, "succeeded")
        left = [w["rank"] for w in job["workers"] if w["state"] == "left"]
        print(f"{strategy}, {moment}: attempt {job['attempt']}, left: {left}")
        assert job["restarts"] == 0 and left in ([rank], [])
        assert left == [rank] or job["attempt"] > 1 or strategy in ("asgd", "sync")  # it is back
        assert job["attempt"] == 1 or moment != "at the first step"
        assert_whole(service, id, job)


@pytest.mark.parametrize("strategy", ["asgd", "sync"])
def test_a_worker_on_another_host_is_missed_as_fast(strategy):
    with Service(nodes=[], options=["--no-local-node"]) as service, Agent(
            service, "alpha", "a1=cpu:1,slowdown=60", "a2=cpu:1,slowdown=60"), Agent(
                service, "beta", "b1=cpu:1,slowdown=60"):
        ready(service, "a1", "a2", "b1")
        id = service.submit(job_spec({"type": strategy}, workers=3))
        service.steps(id, 40)
        event = kill_one(service, id, rank_on(service, id, "b1"))
        assert event["message"] == f"b1 left at step {event['step']}, 2 nodes go on"
        job = service.wait(id, "succeeded")
        assert job["attempt"] == 1
        assert_whole(service, id, job)


@pytest.mark.parametrize("strategy,dead", [({"type": "asgd"}, 4), ({"type": "sync"}, 4),
                                           ({"type": "local-sgd", "k": 4}, 4),
                                           ({"type": "hpsgd", "k": 2}, 4)])
def test_what_the_attempt_needs_sends_the_job_back_to_its_checkpoint(service, strategy, dead):
    id = service.submit(job_spec(strategy))
    service.steps(id, 60)
    until("a checkpoint is there", lambda: list(
        (service.dir / "jobs" / id / "checkpoints").glob("*.safetensors")))
    kill(id, dead)
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 2
    assert job["progress"]["samples"] == job["spec"]["epochs"] * SAMPLES


# ---- sync ----------------------------------------------------------------------------------------

MOMENTUM = {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9}


@pytest.fixture(scope="module")
def undisturbed():
    """Metrics of a job without losses; the speed of its nodes does not matter."""
    with Service(nodes=tuple(f"{n}=cpu:1" for n in "abcd")) as s:
        id = s.submit(job_spec({"type": "sync"}, optimizer=MOMENTUM))
        return s.wait(id, "succeeded")["metrics"]


@pytest.mark.parametrize("rank", [0, 2])
def test_a_step_that_lost_a_worker_is_the_step_that_it_would_have_been(service, undisturbed, rank):
    """Minibatches are cut again, so an update differs only in the order of additions: the job ends
    like one without losses. Rank 0 speaks for all; when it dies another rank takes over, and
    evaluations and checkpoints continue."""
    id = service.submit(job_spec({"type": "sync"}, optimizer=MOMENTUM,
                                 evaluate={"every_steps": 10}, checkpoint={"every_steps": 15}))
    service.steps(id, 100)
    event = kill_one(service, id, rank)
    job = service.wait(id, "succeeded")
    last = EPOCHS * SAMPLES // 64
    assert job["attempt"] == 1 and job["progress"]["step"] == last
    assert_whole(service, id, job)
    assert (rank, 3) == (event["rank"], event["others"])
    print({"with all": undisturbed, "with three": job["metrics"]})
    for metric, near in (("test_accuracy", 0.02), ("test_loss", 0.05)):
        assert job["metrics"][metric] == pytest.approx(undisturbed[metric], abs=near)
    artifacts = service.get(f"jobs/{id}/artifacts").json()["artifacts"]
    assert "model.safetensors" in [a["name"] for a in artifacts]
    series = service.get(f"jobs/{id}/series?names=test_accuracy&points=20000").json()["series"][0]
    assert [x for x in series["x"] if x > event["step"]] == list(
        range(event["step"] // 10 * 10 + 10, last + 1, 10))


def test_one_whose_minibatch_has_changed_before_it_dies_is_counted_to_the_sample(service):
    """The others tell what it made: with the minibatches of each step, even of the step in which
    all changed theirs."""
    id = service.submit(job_spec({"type": "sync"},
                                 batching={"global_batch": 64, "policy": "dynamic"}))
    service.steps(id, 1)
    first = service.get(f"jobs/{id}/assignments").json()["assignments"][0]["batches"]
    rank = rank_on(service, id, "slow")
    until("its minibatch has changed",
          lambda: service.job(id)["workers"][rank]["batch"] not in (0, first["slow"]))
    kill_one(service, id, rank)
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1
    assert_whole(service, id, job)


def test_two_workers_that_die_at_once_leave_the_other_two(service):
    id = service.submit(job_spec({"type": "sync"}))
    service.steps(id, 60)
    guards = [guard_of(service, id, rank) for rank in (1, 3)]
    for rank in (1, 3):
        kill(id, rank)
    until("both have left", lambda: [
        w for w in service.job(id)["workers"] if w["state"] == "left"][1:])
    for guard in guards:
        os.kill(guard, signal.SIGSTOP)
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1
    assert sorted(w["rank"] for w in job["workers"] if w["state"] == "left") == [1, 3]
    assert_whole(service, id, job)


def test_a_worker_may_die_at_any_moment(service, draw):
    """Long steps, so that most moments are within one. Evaluations and states for the keeper come
    often."""
    for node in draw.sample(["fast-1", "fast-2", "fast-3", "slow"], 3):  # who dies twice rests
        id = service.submit(job_spec({"type": "sync"}, evaluate={"every_steps": 7},
                                     checkpoint={"every_steps": 11}))
        service.steps(id, 10 + draw.randrange(100))
        time.sleep(draw.random() * 0.1)
        event = kill_one(service, id, rank_on(service, id, node))
        job = service.wait(id, "succeeded")
        print(f"{event['message']}: no step for {longest_pause(service, id, node):.3f} s")
        assert job["attempt"] == 1
        assert_whole(service, id, job)


# ---- averaging strategies ------------------------------------------------------------------------

def interval(strategy):
    """Steps from one average over all workers to the next."""
    return strategy.get("k") or strategy["k2"]


def assert_each_step_once(service, id, job):
    """Including repeated steps; and the counters have all remaining steps."""
    series = service.get(f"jobs/{id}/series?names=compute_seconds&points=20000").json()["series"]
    last = job["spec"]["epochs"] * SAMPLES // 64
    for node in (s for s in series if s["node"]):
        steps = node["x"]
        assert len(set(steps)) == len(steps), f"steps of {node['node']} stand twice"
    assert job["progress"]["step"] == last
    assert [w["updates"] for w in job["workers"] if w["state"] != "left"] == [last] * 3


def averaging(name, **changes):
    """Each replica learns from a quarter of the samples, so the rate is doubled."""
    return job_spec(AVERAGING[name], optimizer={"type": "sgd", "learning_rate": 0.1}, **changes)


@pytest.fixture(scope="module")
def averaged():
    """Metrics of jobs without losses, by the strategy's name."""
    with Service(nodes=tuple(f"{n}=cpu:1" for n in "abcd")) as s:
        ids = {name: s.submit(averaging(name)) for name in AVERAGING}
        return {name: s.wait(id, "succeeded")["metrics"] for name, id in ids.items()}


@pytest.mark.parametrize("name", AVERAGING)
def test_workers_go_back_to_the_last_average_without_one_that_is_killed(service, averaged, draw,
                                                                        name):
    """Killed at any moment: its steps since the last average are in no other replica. Evaluations
    come between averages. At the end the keeper compares all replicas, and the job ends like one
    without losses."""
    rank = draw.randrange(4)
    id = service.submit(averaging(name, evaluate={"every_steps": 7},
                                  checkpoint={"every_steps": 11}))
    service.steps(id, 20 + draw.randrange(80))
    time.sleep(draw.random() * 0.1)
    event = kill_one(service, id, rank)
    assert event["message"] == f"{event['node']} left at step {event['step']}, 3 nodes go on"
    assert event["step"] % interval(AVERAGING[name]) == 0 and event["rank"] == rank
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1
    assert_whole(service, id, job)
    assert_each_step_once(service, id, job)
    dead = job["workers"][rank]
    assert dead["state"] == "left" and dead["updates"] == event["step"]
    print(f"{event['message']}: no step for {longest_pause(service, id, dead['node']):.3f} s",
          {"with all": averaged[name], "with three": job["metrics"]})
    for metric, near in (("test_accuracy", 0.02), ("test_loss", 0.05)):
        assert job["metrics"][metric] == pytest.approx(averaged[name][metric], abs=near)


# ---- sync of users' programs ---------------------------------------------------------------------

STEPS = SAMPLES // 64  # of an epoch
TWO_EPOCHS = (first_parameters() - 2 / 512 * gradient(range(SAMPLES))).astype("f4")


@pytest.fixture(scope="module")
def programs():
    with Service(nodes=NODES, options=["--allow-programs"]) as s:
        yield s


def run_program(service, ahead, after, point, *whom, strategy=None):
    """Two epochs of a program whose slices come `ahead` of their steps. In slice `after`, at
    `point`, the program of the ranks whom ("--on", 1: rank 1; "--but", 1: all others) kills its
    worker, once the gate, a file, exists. The optimizer has no state, the program gives one, and a
    step is a sum. Returns the job's id and the gate."""
    gate = service.dir / f"gate-{secrets.token_hex(8)}"
    args = ["--samples", SAMPLES, "--reduction", "sum", "--rate", 1 / 512, "--ahead", ahead,
            "--fault", "rank", "--after", after, "--point", point, *whom, "--gate", gate,
            "--everyone", "--state"]
    id = service.submit({
        "program": {"command": ["/usr/bin/python3", str(COUNTING)], "args": [str(a) for a in args]},
        "workers": 4, "epochs": 2, "strategy": strategy or {"type": "sync"},
        "batching": {"global_batch": 64, "policy": "equal"}, "checkpoint": {"every_steps": 3}})
    return id, gate


def open_gate(service, id, gate):
    """A loss during the start, which all ranks make together, would end the attempt."""
    until("steps of all ranks are known",
          lambda: [w for w in service.job(id)["workers"] if w["updates"] > 0][3:])
    gate.touch()


def assert_exact(service, id, job, left):
    """Each sample was in one step of each epoch: all remaining ranks have the resulting parameters,
    to the bit."""
    assert job["progress"]["samples"] == sum(w["samples"] for w in job["workers"]) == 2 * SAMPLES
    for rank in left:
        params = json.loads(service.artifact(id, f"rank-{rank}.json"))["params"]
        assert (np.array(params, "f4") == TWO_EPOCHS).all(), f"of rank {rank}"


@pytest.mark.parametrize("rank,ahead,point,after", [
    (0, 1, "begun", None), (1, 2, "half", None), (2, 5, "after", None), (3, 1, "before", None),
    (1, 5, "half", STEPS - 3), (0, 1, "before", STEPS - 1)])
def test_programs_go_on_without_one_that_is_killed_and_compute_its_samples(
        programs, draw, rank, ahead, point, after):
    """The last two kills come in steps of an epoch whose end the programs know: the remaining
    samples come in the next epoch's loops."""
    after = after or draw.randrange(2) * STEPS + draw.randrange(2, STEPS - ahead - 2)
    id, gate = run_program(programs, ahead, after, point, "--on", rank)
    event = lose_behind_gate(programs, id, rank, gate)
    assert (event["rank"], event["others"]) == (rank, 3) and after <= event["step"] <= after + 1
    assert event["message"] == f"{event['node']} left at step {event['step']}, 3 nodes go on"
    job = programs.wait(id, "succeeded")
    assert job["attempt"] == 1
    assert_exact(programs, id, job, {0, 1, 2, 3} - {rank})
    dead = job["workers"][rank]
    assert dead["state"] == "left" and dead["updates"] in (after, after + 1)
    pause = longest_pause(programs, id, dead["node"])
    print(f"in slice {after}, {point}: {event['message']}; no step for {pause:.3f} s")


def test_the_last_program_computes_what_three_that_are_killed_at_once_have_left(programs, draw):
    after = draw.randrange(2, STEPS - 5)
    id, gate = run_program(programs, 2, after, "half", "--but", 3)
    until("all ranks run", lambda: len(ranks_of(id)) == 5)
    guards = [guard_of(programs, id, rank) for rank in range(3)]
    open_gate(programs, id, gate)
    until("all three have left", lambda: [
        w for w in programs.job(id)["workers"] if w["state"] == "left"][2:])
    for guard in guards:
        stays_out(guard)
    job = programs.wait(id, "succeeded")
    assert job["attempt"] == 1
    assert [w["state"] for w in job["workers"]] == ["left", "left", "left", "done"]
    assert_exact(programs, id, job, {3})
