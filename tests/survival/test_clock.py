"""The wall clock is set while jobs run: no job restarts, no node is lost, no step is made twice."""
import time

import pytest

from agents import Agent, ready, states
from clock import WallClock
from service import Service, spec

HOUR, SILENT = 3600, 5  # s; a host counts as lost after 4 s of silence


@pytest.fixture
def clock(tmp_path):
    return WallClock(tmp_path)


def slow(**changes):
    return spec(workers=3, **{"epochs": 8, "batching": {"global_batch": 60, "policy": "equal"},
                              **changes})


def trains_on_meanwhile(service, clock, **changes):
    """The clock is set ahead, back and right again, while an endless job trains."""
    id = service.submit(slow(epochs=10_000, **changes))
    service.steps(id, 20)
    for seconds in (HOUR, -HOUR, 0):
        clock.turn(seconds)
        time.sleep(SILENT)  # the fault itself
        service.steps(id, service.job(id)["progress"]["step"] + 10)
        assert service.job(id)["attempt"] == 1
        assert set(states(service).values()) == {"busy"}
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")
    steps = service.get(f"jobs/{id}/series?names=train_loss&points=20000").json()["series"][0]["x"]
    assert steps == list(range(1, len(steps) + 1))


@pytest.mark.parametrize("strategy", ["sync", "asgd"])
def test_a_whole_machine_may_set_its_clock(clock, strategy):
    nodes = [f"n{i}=cpu:1,slowdown=60" for i in range(3)]
    with Service(nodes=nodes, env=clock.env) as service:
        trains_on_meanwhile(service, clock, strategy={"type": strategy}, max_wall_seconds=600)


def test_a_host_may_set_its_clock(clock):
    with Service(nodes=["n1=cpu:1,slowdown=60"]) as service, Agent(
            service, "alpha", "a1=cpu:1,slowdown=60", "a2=cpu:1,slowdown=60",
            env=clock.env) as agent:
        ready(service, "a1", "a2")
        trains_on_meanwhile(service, clock)
        assert "heartbeats" not in agent.text()


def test_a_host_whose_clock_is_off_costs_a_job_nothing(clock):
    """The host refuses to start ranks, and rests; the job runs elsewhere, still in its first
    attempt."""
    with Service(nodes=["n1=cpu:1"]) as service, Agent(
            service, "alpha", "a1=cpu:1", "a2=cpu:1", env=clock.env):
        ready(service, "a1", "a2")
        clock.turn(HOUR)
        job = service.wait(service.submit(slow(max_restarts=0)), "succeeded")
        assert [w["node"] for w in job["workers"]] == ["n1"]
        assert job["progress"]["samples"] == 8 * 2560
        for node in ("a1", "a2"):
            reason = service.get(f"nodes/{node}").json()["rest"]["reason"]
            assert "refused to start a daemon: a message was made 3600 s ago" in reason
