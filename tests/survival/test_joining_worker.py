"""What may happen as a worker that was started again joins a job without a server
(docs/decisions/0062, 0115): it, or another one, dies or stands still at each of its stations, which
steps of half a second make long.

That all ranks end with the same parameters is compared by the keeper, which else ends the
attempt."""
import os
import signal
import time

import pytest

from service import Service, proc_file, ranks_of, until
from test_lost_worker import assert_whole, kill
from test_returned_worker import (FAST, Events, assert_as_one_that_lost_nobody, ranks_log,
                                  submit_lockstep)

# Of 64 steps: the next worker of one that died comes a second later, after its second death 4 s.
LARGE = {"steps": 4, "epochs": 32, "batching": {"global_batch": 1280, "policy": "equal"}}


@pytest.fixture
def two_slow():
    """Four nodes. Those of ranks 2 and 3 take half a second or more for a step of LARGE."""
    slow = {"c": FAST, "d": FAST}
    with Service(nodes=[f"{n}=cpu:1,slowdown={slow.get(n, FAST // 10)}" for n in "abcd"]) as s:
        yield s


def let_in(service, id):
    """Kills rank 3. Its next process is let in, and all ranks are asked for their positions.
    Returns the process, which waits because rank 2 only answers at the end of its step."""
    def count():
        return ranks_log(service, id).count("lets a worker in")
    events, before, first = Events(service, id), count(), ranks_of(id)[3]
    kill(id, 3)
    events.next("left")
    pid = until("the next one is there", lambda: next(
        (p for rank, p in ranks_of(id).items() if rank == 3 and p != first), None))
    until("it is let in", lambda: count() > before, every=0.001)
    return pid, events


@pytest.mark.parametrize("name", ["sync", "local-sgd"])
def test_one_that_is_killed_as_it_joins_is_there_the_next_time(two_slow, name):
    id = submit_lockstep(two_slow, name, **LARGE)
    pid, events = let_in(two_slow, id)
    os.kill(pid, signal.SIGKILL)
    assert events.next("returned")["rank"] == 3
    assert_as_one_that_lost_nobody(two_slow, id, two_slow.wait(id, "succeeded"))


@pytest.mark.parametrize("name,rank", [("sync", 0), ("sync", 2), ("local-sgd", 0)])
def test_another_one_may_die_as_one_joins(two_slow, name, rank):
    """Rank 0 would give the newcomer its state; another rank does so instead. Rank 2 has not
    answered the keeper; nobody waits for that, although it comes back."""
    id = submit_lockstep(two_slow, name, **LARGE)
    _, events = let_in(two_slow, id)
    kill(id, rank)
    assert {events.next("returned")["rank"] for _ in range(2)} == {rank, 3}
    assert_as_one_that_lost_nobody(two_slow, id, two_slow.wait(id, "succeeded"))


def alternate(service, id, pid, keeper, said):
    """Lets either the newcomer or the keeper run until the keeper has said this once more; the
    newcomer is then stopped."""
    def count():
        return ranks_log(service, id).count(said)
    before = count()

    def turn():
        os.kill(keeper, signal.SIGSTOP)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.3)
        os.kill(pid, signal.SIGSTOP)
        os.kill(keeper, signal.SIGCONT)
        time.sleep(0.3)
        return count() > before
    until(f"the keeper says that it {said}", turn)


def stopped_when_let_in(service, id):
    """Kills rank 3. Returns the next process, which is stopped when the keeper lets it in, before
    it is ready."""
    events, first = Events(service, id), ranks_of(id)
    kill(id, 3)
    events.next("left")
    os.kill(first[4], signal.SIGSTOP)
    pid = until("the next one is there", lambda: next(
        (p for rank, p in ranks_of(id).items() if rank == 3 and p != first[3]), None))
    alternate(service, id, pid, first[4], "lets a worker in")
    return pid, events


@pytest.mark.parametrize("name,rank", [("sync", 0), ("local-sgd", 2)])
def test_one_that_was_let_in_is_not_forgotten_when_another_one_dies(two_slow, name, rank):
    id = submit_lockstep(two_slow, name, **LARGE)
    pid, events = stopped_when_let_in(two_slow, id)
    kill(id, rank)
    assert events.next("left")["rank"] == rank
    os.kill(pid, signal.SIGCONT)
    assert {events.next("returned")["rank"] for _ in range(2)} == {rank, 3}
    assert_as_one_that_lost_nobody(two_slow, id, two_slow.wait(id, "succeeded"))


@pytest.mark.parametrize("name", ["sync", "local-sgd"])
def test_one_that_stands_still_as_all_are_asked_is_there_the_next_time(two_slow, name):
    """The keeper asks a stopped process and waits for 3 s. The job would end before the coordinator
    gives that process up."""
    id = submit_lockstep(two_slow, name, **LARGE)
    pid, events = stopped_when_let_in(two_slow, id)
    alternate(two_slow, id, pid, ranks_of(id)[4], "asks all for the worker that is ready")
    until("it is left out", lambda: "leaves a worker out" in ranks_log(two_slow, id))
    os.kill(pid, signal.SIGCONT)
    assert events.next("returned")["rank"] == 3
    assert_as_one_that_lost_nobody(two_slow, id, two_slow.wait(id, "succeeded"))


@pytest.mark.parametrize("name,before", [
    ("local-sgd", None), ("local-sgd", 1), ("hpsgd", 2)])
def test_one_that_was_let_in_as_the_others_finish_holds_nobody_up(two_slow, name, before):
    """The process is ready this many steps before the last one; None: never. Whether or not it
    makes a step, each sample counts once."""
    id = submit_lockstep(two_slow, name, **{**LARGE, "epochs": 10})
    pid, _ = stopped_when_let_in(two_slow, id)
    if before is not None:
        two_slow.steps(id, 20 - before)
        os.kill(pid, signal.SIGCONT)
    job = two_slow.wait(id, "succeeded")
    assert job["attempt"] == 1 and job["progress"]["step"] == 20
    assert_whole(two_slow, id, job)
    until("its process has ended", lambda: not proc_file(pid, "cmdline"))
