"""The wall clock is set while jobs run: no job begins again, no node is lost, no sample is counted
twice."""
import pytest

from agents import Agent, ready, states
from clock import WallClock
from service import Service, spec

HOUR = 3600


@pytest.fixture
def clock(tmp_path):
    return WallClock(tmp_path)


def set_meanwhile(service, clock, id):
    """Ahead, back and right again, with steps between, and longer than a host may be silent."""
    for seconds in (HOUR, -HOUR, 0):
        step = service.job(id)["progress"]["step"]
        clock.turn(seconds)
        service.steps(id, step + 60)


def slow(**changes):
    return spec(workers=3, epochs=8, batching={"global_batch": 60, "policy": "equal"}, **changes)


@pytest.mark.parametrize("strategy", ["sync", "asgd"])
def test_a_whole_machine_may_set_its_clock(clock, strategy):
    nodes = [f"n{i}=cpu:1,slowdown=60" for i in range(3)]
    with Service(nodes=nodes, env=clock.env) as service:
        id = service.submit(slow(strategy={"type": strategy}, max_wall_seconds=600))
        service.steps(id, 20)
        set_meanwhile(service, clock, id)
        job = service.wait(id, "succeeded")
        assert job["attempt"] == 1 and job["progress"]["samples"] == 8 * 2560
        assert set(states(service).values()) == {"ready"}


def test_a_host_may_set_its_clock(clock):
    with Service(nodes=["n1=cpu:1,slowdown=60"]) as service, Agent(
            service, "alpha", "a1=cpu:1,slowdown=60", "a2=cpu:1,slowdown=60",
            env=clock.env) as agent:
        ready(service, "a1", "a2")
        id = service.submit(slow())
        service.steps(id, 20)
        set_meanwhile(service, clock, id)
        job = service.wait(id, "succeeded")
        assert job["attempt"] == 1 and job["progress"]["samples"] == 8 * 2560
        assert set(states(service).values()) == {"ready"}
        assert "heartbeats" not in agent.text()


def test_a_host_whose_clock_is_off_costs_a_job_nothing(clock):
    """It refuses to start ranks, and rests; the job runs elsewhere, its one attempt still whole."""
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
