"""A worker with a user's program that is killed under `local-sgd` comes back into its attempt
(docs/decisions/0084): it goes on from the last average and from another program's state, and counts
in the next average by the steps that it has made.

Real processes and kill -9; what the run must end at is computed from the programs' lists of
samples, as in test_lost_averaged_program.py."""

import re

import numpy as np
import pytest

from service import Service, ranks_of, until
from test_lost_averaged_program import EPOCHS, SAMPLES, Run, assert_each_once, averaged
from test_lost_worker import open_gate
from test_returned_program import RATE_AT_END, ends_of_pytorch
from test_returned_worker import Events, ranks_log


@pytest.fixture
def service():
    with Service(nodes=tuple(f"{n}=cpu:1" for n in "abcd"), options=["--allow-programs"]) as s:
        yield s


def begin(service, strategy, *whom, holds=0.5, **how):
    run = Run(service, strategy, *whom, holds=holds, **how)
    until("all ranks run", lambda: len(ranks_of(run.id)) == 5)
    return run, Events(service, run.id)


def assert_as_made(run, job, rank, left):
    assert job["attempt"] == 1
    back = run.entered(rank)
    made = run.made({})
    made[rank] = {n: line for n, line in made[rank].items() if n < left or n >= back}
    assert [w["state"] for w in job["workers"]] == ["done"] * 4
    assert job["progress"]["samples"] == EPOCHS * SAMPLES
    assert [w["samples"] for w in job["workers"]] == [
        sum(len(indices) for _, indices in m.values()) for m in made]
    assert_each_once(made, True)
    expected = averaged(made, run.strategy, {rank: left}, {rank: back})
    ends = [run.params(r) for r in range(4)]
    for params in ends:
        assert (params == ends[0]).all(), "the programs end with other parameters"
        assert params == pytest.approx(expected, abs=2e-4)
    assert any(indices for n, (_, indices) in made[rank].items() if n >= back)


@pytest.mark.parametrize("rank,k,ahead,after,point", [
    (0, 4, 1, 5, "begun"), (1, 5, 2, 17, "half"), (2, 10, 5, 12, "after"), (3, 20, 1, 22, "before"),
    (1, 40, 1, 3, "half")])
def test_a_program_comes_back_between_two_averages(service, rank, k, ahead, after, point):
    run, events = begin(service, {"type": "local-sgd", "k": k}, "--on", rank, "--times", 1,
                        ahead=ahead, after=after, point=point)
    open_gate(service, run.id, run.gate)
    left, event = after // k * k, events.next("left")
    assert (event["rank"], event["step"]) == (rank, left)
    back = events.next("returned")
    assert (back["rank"], back["nodes"]) == (rank, 4)
    run.hold.touch()
    assert_as_made(run, service.wait(run.id, "succeeded"), rank, left)


def test_it_may_die_again_and_gives_its_state_to_a_pause(service):
    """In one interval: the second process hears what the first one had since the average. It must
    be there before the slice in which it dies."""
    run, events = begin(service, {"type": "local-sgd", "k": 12}, "--on", 0, "--every", 14,
                        "--times", 2, ahead=2, after=14, point="half", holds=1)
    open_gate(service, run.id, run.gate)
    for _ in range(2):
        assert events.next("left")["rank"] == 0
        assert events.next("returned")["rank"] == 0
    service.post(f"jobs/{run.id}/pause")
    service.wait(run.id, "paused")
    run.hold.touch()
    service.post(f"jobs/{run.id}/resume")
    job = service.wait(run.id, "succeeded")
    assert job["attempt"] == 2 and job["progress"]["samples"] == EPOCHS * SAMPLES
    assert sum(w["samples"] for w in job["workers"]) == EPOCHS * SAMPLES
    ends = [run.params(r) for r in range(4)]
    assert all((params == ends[0]).all() for params in ends)


# an epoch ends: the others stand before what follows it, where schedules step, or after that
@pytest.mark.parametrize("optimizer,rank,where", [
    ("adam", 0, ""), ("adam", 0, "step"), ("momentum", 2, "evaluation")])
def test_an_optimizer_of_pytorch_goes_on_from_another_ranks(service, optimizer, rank, where):
    id, ended = ends_of_pytorch(service, {"type": "local-sgd", "k": 4}, optimizer, rank, where)
    assert not where or re.search(r"goes on.*slice=2[01] ", ranks_log(service, id))
    shared = [n for n in ended[0].files if n[0].isdigit() and n.split(".")[1] in (
        "weight", "bias", "running_mean", "running_var")]
    assert len(shared) == 8
    for name in (*shared, "rate"):
        assert all((e[name] == ended[0][name]).all() for e in ended), f"{name} differs"
    assert ended[0]["rate"] == pytest.approx(RATE_AT_END[optimizer])
    states = [n for n in ended[rank].files if n.endswith(("momentum_buffer", "exp_avg"))]
    assert states and all(np.abs(ended[rank][n]).sum() > 0 for n in states)
