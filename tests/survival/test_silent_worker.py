"""A worker is silent for longer than a rank may be: its guard ends it once the coordinator says so,
the attempt continues without it, and it is restarted and joins (docs/decisions/0117). Real
processes and SIGSTOP."""
import os
import re
import signal

import pytest

from service import Service, proc_file, ranks_of, until
from test_joining_worker import LARGE, stopped_when_let_in
from test_lost_worker import SAMPLES, assert_exact, assert_whole, rank_on, run_program
from test_returned_worker import (FAST, NODES, Events, assert_as_one_that_lost_nobody, submit,
                                  submit_lockstep)


@pytest.fixture
def service():
    with Service(nodes=NODES) as s:
        yield s


@pytest.mark.parametrize("name", ["sync", "asgd", "local-sgd"])
def test_a_worker_that_is_stopped_for_ever_is_ended_and_comes_back(service, name):
    id = submit(service, name)
    rank, events = rank_on(service, id, "fast-1"), Events(service, id)
    stopped = ranks_of(id)[rank]
    os.kill(stopped, signal.SIGSTOP)
    assert events.next("left")["node"] == "fast-1"
    assert not proc_file(stopped, "cmdline"), "the others go on once its guard has ended it"
    assert events.next("returned")["node"] == "fast-1"
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1 and job["restarts"] == 0
    assert_whole(service, id, job)
    assert re.search(f"gives no sign of life.* job={id} .*rank={rank} ", service.text())


@pytest.fixture
def two_slow():
    slow = {"c": FAST, "d": FAST}
    with Service(nodes=[f"{n}=cpu:1,slowdown={slow.get(n, FAST // 10)}" for n in "abcd"]) as s:
        yield s


def test_one_that_came_back_and_is_stopped_comes_back_again(two_slow):
    id = submit_lockstep(two_slow, **LARGE)
    pid, events = stopped_when_let_in(two_slow, id)
    os.kill(pid, signal.SIGCONT)
    assert events.next("returned")["rank"] == 3
    os.kill(pid, signal.SIGSTOP)
    assert events.next("left")["rank"] == 3
    assert events.next("returned")["rank"] == 3
    assert_as_one_that_lost_nobody(two_slow, id, two_slow.wait(id, "succeeded"))


@pytest.fixture
def programs():
    with Service(nodes=tuple(f"{n}=cpu:1" for n in "abcd"), options=["--allow-programs"]) as s:
        yield s


@pytest.mark.parametrize("strategy", ["sync", "asgd"])
def test_a_worker_with_a_program_is_ended_with_it(programs, strategy):
    service, hold = programs, programs.dir / "hold"
    id, _ = run_program(service, 1, 5, "begun", "--on", 9, "--hold", hold, "--hold-for", 0.3,
                        strategy={"type": strategy})
    until("steps of all ranks are known",
          lambda: [w for w in service.job(id)["workers"] if w["updates"] > 0][3:])
    events, stopped = Events(service, id), ranks_of(id)[2]
    os.kill(stopped, signal.SIGSTOP)
    assert events.next("left")["rank"] == 2
    assert events.next("returned")["rank"] == 2
    hold.touch()
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1
    if strategy == "sync":
        assert_exact(service, id, job, range(4))
    assert job["progress"]["samples"] == 2 * SAMPLES
