"""A worker with a user's program that is killed in `sync` comes back into its attempt
(docs/decisions/0074): it goes on from another rank's parameters and state. test_returned_worker.py
has our networks, and programs under a server."""
import io
import json
import re
import secrets

import numpy as np
import pytest

from programs import ROOT, python_with
from service import Service, until
from test_lost_worker import SAMPLES, assert_exact, open_gate, run_program
from test_returned_worker import Events, ranks_log

RETURNS = ROOT / "tests/program/torch_returns.py"


@pytest.fixture
def service():
    with Service(nodes=tuple(f"{n}=cpu:1" for n in "abcd"), options=["--allow-programs"]) as s:
        yield s


def comes_back(service, id, gate, hold, rank, waited_for=False):
    """After that worker was killed, has come back and made steps; returns the job when it has
    ended. waited_for: another rank's program waits for `hold` until all are asked to take the
    worker in."""
    events = Events(service, id)
    open_gate(service, id, gate)
    assert events.next("left")["rank"] == rank
    before = service.job(id)["workers"][rank]["updates"]
    if waited_for:
        until("all are asked", lambda: "asks all for the worker" in ranks_log(service, id))
        hold.touch()
    back = events.next("returned")
    assert (back["rank"], back["nodes"]) == (rank, 4)
    hold.touch()
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1 and [w["state"] for w in job["workers"]] == ["done"] * 4
    assert job["workers"][rank]["updates"] > before
    assert job["progress"]["samples"] == sum(w["samples"] for w in job["workers"])
    return job


@pytest.mark.parametrize("rank,ahead,after,point", [
    (0, 1, 3, "begun"), (1, 2, 30, "half"), (2, 5, 5, "after"), (3, 1, 2, "before")])
def test_a_program_comes_back_to_the_others(service, rank, ahead, after, point):
    """Each sample counts once per epoch: all four end at the resulting parameters, to the bit."""
    hold = service.dir / "hold"
    id, gate = run_program(service, ahead, after, point, "--on", rank, "--times", 1, "--hold",
                           hold, "--hold-for", 0.3)
    job = comes_back(service, id, gate, hold, rank)
    assert_exact(service, id, job, range(4))
    ended = json.loads(service.artifact(id, f"rank-{rank}.json"))
    assert ended["incarnation"] == 1


@pytest.mark.parametrize("strategy", [{"type": "asgd"}, {"type": "ssp", "s": 2000}])
def test_the_last_slices_of_one_that_is_killed_are_made_when_it_is_back(service, strategy):
    """All others then know that no slice follows, and wait for their end."""
    id, gate = run_program(service, 1, 2, "begun", "--on", 1, "--times", 1, strategy=strategy)
    until("all but its two slices are made", lambda: (
        service.job(id)["progress"] or {}).get("step", 0) == 2 * SAMPLES // 16 - 2)
    events = Events(service, id)
    gate.touch()
    assert events.next("left")["rank"] == 1
    assert events.next("returned")["rank"] == 1
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1 and [w["state"] for w in job["workers"]] == ["done"] * 4
    assert job["progress"]["samples"] == sum(w["samples"] for w in job["workers"]) == 2 * SAMPLES
    assert job["workers"][1]["samples"] == 4 * 16  # two before, and those two


def test_it_gives_its_state_to_checkpoints_and_may_die_again(service):
    """The second process of rank 0 is killed too, and then a pause takes the state of all ranks."""
    hold = service.dir / "hold"
    id, gate = run_program(service, 2, 21, "half", "--on", 0, "--every", 21, "--times", 2, "--hold",
                           hold, "--hold-for", 0.3)
    events = Events(service, id)
    open_gate(service, id, gate)
    for _ in range(2):
        assert events.next("left")["rank"] == 0
        assert events.next("returned")["rank"] == 0
    service.post(f"jobs/{id}/pause")
    service.wait(id, "paused")
    hold.touch()
    service.post(f"jobs/{id}/resume")
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 2
    assert_exact(service, id, job, range(4))


@pytest.mark.parametrize("strategy", ["sync", "local-sgd", "asgd"])
@pytest.mark.parametrize("fault", ["killed", "exit"])
def test_one_that_ends_in_its_first_step_there_comes_back_once_more(service, strategy, fault):
    """Its worker leaves with it like a dead one, and the others continue."""
    hold = service.dir / "hold"
    id, gate = run_program(service, 1, 5, "begun", "--on", 1, "--times", 1, "--then", fault,
                           "--hold", hold, "--hold-for", 0.3,
                           strategy={"type": strategy, **({"k": 4} if "local" in strategy else {})})
    events = Events(service, id)
    open_gate(service, id, gate)
    for _ in range(2):
        assert events.next("left")["rank"] == 1
        assert events.next("returned")["rank"] == 1
    hold.touch()
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1
    assert job["progress"]["samples"] == sum(w["samples"] for w in job["workers"]) == 2 * SAMPLES
    if strategy == "sync":
        assert_exact(service, id, job, range(4))


def test_one_of_several_passes_stays_out_and_nobody_waits_for_it(service):
    """Others may be in a further pass over a step, which they cannot abandon."""
    hold = service.dir / "hold"
    id, gate = run_program(service, 1, 5, "half", "--on", 1, "--times", 1, "--passes", 2, "--hold",
                           hold, "--hold-for", 0.3)
    events = Events(service, id)
    open_gate(service, id, gate)
    assert events.next("left")["rank"] == 1
    until("another one is ready", lambda: "lets a worker in" in ranks_log(service, id))
    hold.touch()
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1
    assert job["progress"]["samples"] == 2 * SAMPLES


def ends_of_pytorch(service, strategy, optimizer, rank, where=""):
    """The job of a PyTorch program on four ranks, in which this rank was killed and came back; and
    the state that each rank ends with. where: it comes back while the others wait there for one of
    them (torch_returns.py)."""
    python, hold = python_with("torch"), service.dir / "hold"
    gate = service.dir / f"gate-{secrets.token_hex(8)}"
    args = [optimizer, rank, 5, gate, hold, *([where] if where else [])]
    id = service.submit({
        "program": {"command": [python, str(RETURNS)], "args": [str(a) for a in args],
                    "patience_seconds": 200},
        "workers": 4, "strategy": strategy,
        "batching": {"global_batch": 64, "policy": "equal"}, "checkpoint": {"every_steps": 3}})
    comes_back(service, id, gate, hold, rank, bool(where))
    return id, [np.load(io.BytesIO(service.artifact(id, f"rank-{r}.npz"))) for r in range(4)]


RATE_AT_END = {"momentum": 0.05 * 0.8**4, "adam": 0.005 * 0.8**4}


@pytest.mark.parametrize("optimizer,rank,where", [
    ("momentum", 2, ""), ("adam", 0, ""), ("adam", 1, "evaluation"), ("momentum", 3, "step")])
def test_an_optimizer_of_pytorch_goes_on_as_on_the_other_ranks(service, optimizer, rank, where):
    """Parameters, statistics, the optimizer's state and rate are equal to the bit on all ranks. In
    an epoch's last "step" it only makes that step, and the schedule's step after it."""
    id, ended = ends_of_pytorch(service, {"type": "sync"}, optimizer, rank, where)
    at = {"": ".*", "evaluation": "2[01]", "step": "19"}[where]
    assert re.search(f"goes on.*slice={at} ", ranks_log(service, id))
    assert "another rank's" in ranks_log(service, id)
    for name in ended[0].files:
        for r in range(1, 4):
            own = name.endswith("num_batches_tracked")  # a node's own
            assert own or (ended[r][name] == ended[0][name]).all(), f"{name} of rank {r}"
    assert ended[0]["rate"] == pytest.approx(RATE_AT_END[optimizer])
