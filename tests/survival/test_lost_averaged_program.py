"""A worker with a user's program that is killed under a strategy that averages parameters
(docs/decisions/0080), or sums rounds (0085): the others keep the steps that their programs have
made, average without it, and compute its samples since the last average.

Real processes and kill -9. Each program lists the samples of each of its steps; what the run must
end at is computed here from these lists alone, step by step and average by average."""
import json
import secrets

import numpy as np
import pytest

from service import Service, ranks_of, until
from test_lost_worker import guard_of_rank, open_gate, stays_out
from test_returned_worker import Events
from test_program import COUNTING, first_parameters, gradient

SAMPLES, BATCH, EPOCHS, RATE = 2560, 64, 2, 1 / 32
STEPS = SAMPLES // BATCH  # of an epoch


@pytest.fixture(scope="module")
def service():
    nodes = ("a=cpu:1", "b=cpu:1", "c=cpu:1,slowdown=30", "d=cpu:1,slowdown=45")
    with Service(nodes=nodes, options=["--allow-programs"]) as s:
        yield s


class Run:
    """A job of such programs; `whom`: as in test_lost_worker.run_program()."""

    def __init__(self, service, strategy, *whom, ahead=1, after=3, point="begun", holds=0,
                 **spec):
        """holds: later steps of all ranks take this many seconds until the file `hold` exists."""
        self.service, self.strategy = service, strategy
        self.hold = service.dir / f"hold-{secrets.token_hex(8)}"
        self.gate = service.dir / f"gate-{secrets.token_hex(8)}"
        self.seen = service.dir / f"seen-{secrets.token_hex(8)}"
        self.seen.mkdir()
        args = ["--samples", SAMPLES, "--batch", BATCH, "--rate", RATE, "--ahead", ahead, "--fault",
                "rank", "--after", after, "--point", point, *whom, "--gate", self.gate,
                "--everyone", "--state", "--pause", 0.004, "--seen", self.seen,
                *(("--hold", self.hold, "--hold-for", holds) if holds else ())]
        self.id = service.submit({
            "program": {"command": ["/usr/bin/python3", str(COUNTING)],
                        "args": [str(a) for a in args]},
            "workers": 4, "epochs": EPOCHS, "strategy": strategy,
            "batching": {"global_batch": BATCH, "policy": "equal"},
            "checkpoint": {"every_steps": 5}, **spec})

    def lines(self, rank):
        """(epoch, samples) of each of its steps; of a repeated step the last time."""
        path = self.seen / f".seen-{rank}"
        lines = map(json.loads, path.read_text().splitlines()) if path.exists() else []
        return {number: (epoch, indices) for number, epoch, indices in lines}

    def entered(self, rank):
        """The first slice of that rank's second process, which skips some."""
        numbers = sorted(self.lines(rank))
        return next(n for n in numbers if n and n - 1 not in numbers)

    def made(self, left):
        """The steps of each rank that count: those of lost ranks up to left[rank]."""
        return [{n: line for n, line in self.lines(r).items() if n < left.get(r, 10**9)}
                for r in range(4)]

    def params(self, rank):
        return np.array(json.loads(self.service.artifact(self.id, f"rank-{rank}.json"))["params"])


def kill(run, ranks):
    """Lets these programs kill their workers, none of which is restarted
    (test_returned_averaged_program.py has that). Returns the events about it."""
    until("all ranks run", lambda: len(ranks_of(run.id)) == 5)
    returns = run.strategy["type"] == "local-sgd"
    guards = {rank: guard_of_rank(run.id, rank) for rank in ranks if returns}
    events = Events(run.service, run.id)
    open_gate(run.service, run.id, run.gate)
    told = []
    for _ in ranks:
        told.append(events.next("left"))
        if guards:
            stays_out(guards[told[-1]["rank"]])
    run.hold.touch()
    assert sorted(e["rank"] for e in told) == ranks
    return told


def mean_of(replicas, weights):
    return np.average(replicas, axis=0, weights=weights)


class Ranks:
    """What an averaging strategy does with replicas, weighted by samples. In a group, the remaining
    ranks keep what all of its ranks have averaged."""

    def __init__(self, groups):
        self.groups = groups
        self.shared = first_parameters().astype("f8")

    def begin(self, there):
        self.own = {r: self.shared.copy() for r in there}
        self.since = {r: 0 for r in there}  # the group's average
        self.before = {r: 0 for r in there}

    def step(self, rank, samples):
        if samples:
            self.own[rank] -= RATE / len(samples) * gradient(samples)
            self.since[rank] += len(samples)

    def enter(self, rank):
        self.own[rank] = self.shared.copy()
        self.since[rank] = self.before[rank] = 0

    def drop(self, rank):
        """Its samples since the average of its group no longer count."""
        group = next(g for g in self.groups if rank in g)
        mates = [r for r in group if r in self.own and r != rank]
        total = sum(self.before[r] for r in (*mates, rank))
        for r in mates:
            self.before[r] = total / len(mates)
        for of in (self.own, self.since, self.before):
            del of[rank]

    def average_groups(self):
        for group in self.groups:
            there = [r for r in group if r in self.own]
            if len(there) > 1:
                mean = mean_of([self.own[r] for r in there], [self.since[r] for r in there])
                for r in there:
                    self.own[r] = mean.copy()
                    self.before[r] += self.since[r]
                    self.since[r] = 0

    def average(self):
        there = sorted(self.own)
        self.shared = mean_of([self.own[r] for r in there],
                              [self.before[r] + self.since[r] for r in there])


def averaged(made, strategy, left, back=None):
    """The parameters that these steps give. left[rank]: its last step that counts; back[rank]: its
    first step that counts again, from the last average."""
    back = back or {}
    k1, k2 = strategy.get("k1", 10**9), strategy.get("k2") or strategy["k"]
    size = strategy.get("group_size", 4)
    ranks = Ranks([range(i, min(i + size, 4)) for i in range(0, 4, size)])
    last = max(map(max, filter(None, made)))
    for first in range(0, last + 1, k2):
        ranks.begin([r for r in range(4) if left.get(r, 10**9) > first
                     or back.get(r, 10**9) <= first])
        for step in range(first, min(first + k2, last + 1)):
            for rank in (r for r in range(4) if back.get(r) == step > first):
                ranks.enter(rank)
            for rank in list(ranks.own):
                if left.get(rank) == step:
                    ranks.drop(rank)
                else:
                    ranks.step(rank, made[rank].get(step, (0, []))[1])
            if (step + 1) % k1 == 0 and (step + 1) % k2 and step < last:
                ranks.average_groups()
        ranks.average()
    return ranks.shared


def summed(made):
    """The same if each step's mean gradient is summed, whatever the rounds."""
    params = first_parameters().astype("f8")
    for step in range(1 + max(map(max, filter(None, made)))):
        samples = [i for m in made for i in m.get(step, (0, []))[1]]
        params -= RATE / max(len(samples), 1) * gradient(samples)
    return params


def assert_each_once(made, crosses):
    """crosses: samples of an epoch that a lost rank had may come in the next epoch's loops."""
    if crosses:
        seen = sorted(i for m in made for _, indices in m.values() for i in indices)
        assert seen == sorted(EPOCHS * list(range(SAMPLES)))
        return
    for epoch in range(EPOCHS):
        seen = sorted(i for m in made for e, indices in m.values() if e == epoch for i in indices)
        assert seen == list(range(SAMPLES)), f"of epoch {epoch}"


def left_at(run, job, rank):
    """The number of its last step that counts, because the others have it: after this many
    samples."""
    samples, at = 0, 0
    for number, (_, indices) in sorted(run.lines(rank).items()):
        if samples == job["workers"][rank]["samples"]:
            break
        samples, at = samples + len(indices), number + 1
    return at


def assert_counted(job, made):
    assert job["attempt"] == 1 and job["restarts"] == 0
    assert job["progress"]["samples"] == EPOCHS * SAMPLES
    assert [w["samples"] for w in job["workers"]] == [
        sum(len(indices) for _, indices in m.values()) for m in made]


def assert_as_made(run, job, events, crosses):
    left = {event["rank"]: left_at(run, job, event["rank"]) for event in events}
    for event in events:
        rank = event["rank"]
        dead = job["workers"][rank]
        assert dead["state"] == "left" and dead["updates"] == left[rank]
        assert left[rank] >= event["step"] or crosses  # all may have shown an average since then
    made = run.made(left)
    assert_counted(job, made)
    assert_each_once(made, crosses)
    rounds = run.strategy["type"] == "hpsgd"
    expected = summed(made) if rounds else averaged(made, run.strategy, left)
    ends = [run.params(r) for r in range(4) if r not in left]
    for params in ends:
        assert (params == ends[0]).all(), "the programs end with other parameters"
        assert params == pytest.approx(expected, abs=2e-4)


def lose(service, strategy, rank, crosses=False, **how):
    run = Run(service, strategy, "--on", rank, **how)
    event, = kill(run, [rank])
    assert event["others"] == 3
    assert event["message"] == f"{event['node']} left at step {event['step']}, 3 nodes go on"
    job = service.wait(run.id, "succeeded")
    assert_as_made(run, job, [event], crosses)
    return job, event


@pytest.mark.parametrize("rank,k,ahead,after,point", [
    (0, 4, 1, 5, "begun"), (1, 6, 2, 19, "half"), (2, 6, 5, 14, "after"), (3, 4, 1, 62, "before")])
def test_the_others_keep_their_steps_and_compute_what_it_had(service, rank, k, ahead, after, point):
    """If k is 6, evaluations come between two averages."""
    job, event = lose(service, {"type": "local-sgd", "k": k}, rank, ahead=ahead, after=after,
                      point=point)
    assert job["workers"][rank]["updates"] == event["step"] == after // k * k


@pytest.mark.parametrize("rank,size,after,kept", [
    (1, 2, 21, 20), (0, 2, 17, 16), (3, 4, 23, 22), (2, 1, 21, 16)])
def test_what_its_group_has_averaged_with_it_counts(service, rank, size, after, kept):
    """In the last case its group has no other rank."""
    job, event = lose(service, {"type": "hier-sgd", "k1": 2, "k2": 8, "group_size": size}, rank,
                      after=after)
    assert (job["workers"][rank]["updates"], event["step"]) == (kept, 16)


@pytest.mark.parametrize("rank,strategy,ahead,after", [
    (1, {"type": "local-sgd", "k": 60}, 1, 47), (2, {"type": "local-sgd", "k": 1000}, 2, 30),
    (0, {"type": "local-sgd", "k": 70}, 1, 39), (3, {"type": "local-sgd", "k": 30}, 5, 36),
    (1, {"type": "hier-sgd", "k1": 10, "k2": 60, "group_size": 2}, 1, 47)])
def test_an_interval_may_hold_the_end_of_an_epoch(service, rank, strategy, ahead, after):
    """The lost rank's samples of that epoch come in the next epoch's loops. The second case has no
    average except the last one; the fourth has cut steps of the next epoch in advance."""
    lose(service, strategy, rank, ahead=ahead, after=after, point="half", holds=0.5, crosses=True)


@pytest.mark.parametrize("rank,k,ahead,after,point", [
    (0, 1, 1, 5, "begun"), (1, 3, 2, 19, "half"), (2, 4, 5, 14, "after"),
    (3, "auto", 1, 30, "half"), (1, 5, 1, 57, "before")])
def test_rounds_are_summed_without_it(service, rank, k, ahead, after, point):
    """Its part of the round whose sum was under way counts if another rank has the sum. The
    machine's speed decides how many steps "auto" takes per round, so a round may contain the end of
    an epoch."""
    lose(service, {"type": "hpsgd", "k": k}, rank, ahead=ahead, after=after, point=point,
         crosses=k == "auto")


@pytest.mark.parametrize("rank,k,ahead,after", [(1, 25, 2, 33), (0, 30, 5, 36), (2, 2, 1, 38)])
def test_rounds_may_hold_the_end_of_an_epoch(service, rank, k, ahead, after):
    lose(service, {"type": "hpsgd", "k": k}, rank, ahead=ahead, after=after, point="half",
         holds=0.5, crosses=True)


@pytest.mark.parametrize("k,after,before", [(4, 14, False), (1, 9, False), (4, 14, True),
                                            (1, 9, True)])
def test_a_pause_between_rounds_waits_until_its_samples_have_come(service, k, after, before):
    """The next attempt continues from the sum that is then under way. before: the pause is
    requested first, and the round whose end all ranks agree on is made without the lost rank."""
    run = Run(service, {"type": "hpsgd", "k": k}, "--on", 2, "--times", 1, after=after,
              point="half", holds=0.5)
    until("all ranks run", lambda: len(ranks_of(run.id)) == 5)
    events = Events(service, run.id)
    if before:
        until("it is about to be killed", lambda: after in run.lines(2))
        service.post(f"jobs/{run.id}/pause")
    open_gate(service, run.id, run.gate)
    assert events.next("left")["rank"] == 2
    if not before:
        service.post(f"jobs/{run.id}/pause")
    run.hold.touch()
    paused = service.wait(run.id, "paused")
    for seen in run.seen.iterdir():
        seen.unlink()
    service.post(f"jobs/{run.id}/resume")
    job = service.wait(run.id, "succeeded")
    assert paused["attempt"] == 1 and job["attempt"] == 2
    first = paused["progress"]["samples"]
    assert sum(w["samples"] for w in job["workers"]) == job["progress"]["samples"]
    assert 0 < first < SAMPLES and job["progress"]["samples"] == EPOCHS * SAMPLES
    later = [[i for m in run.made({}) for e, indices in m.values() if e == epoch for i in indices]
             for epoch in range(EPOCHS)]
    assert len(set(later[0])) == len(later[0])
    assert len(later[0]) == SAMPLES - first
    assert sorted(later[1]) == list(range(SAMPLES))
    there = len(job["workers"])  # a node that has failed often rests
    assert all((run.params(r) == run.params(0)).all() for r in range(there))


@pytest.mark.parametrize("ranks,strategy,after", [
    ([1, 2], {"type": "hpsgd", "k": 4}, 22),
    ([0, 1, 2], {"type": "hpsgd", "k": 2}, 21),
    ([0, 1, 2], {"type": "local-sgd", "k": 6}, 14),
    ([1, 2], {"type": "local-sgd", "k": 1000}, 33),
    ([2, 3], {"type": "hier-sgd", "k1": 2, "k2": 8, "group_size": 2}, 21),
    ([0, 1, 2], {"type": "hier-sgd", "k1": 2, "k2": 8, "group_size": 2}, 21)])
def test_those_that_are_left_go_on_without_some_that_are_killed_at_once(service, ranks, strategy,
                                                                        after):
    run = Run(service, strategy, "--on", *ranks, after=after, point="half", holds=0.5)
    events = kill(run, ranks)
    assert_as_made(run, service.wait(run.id, "succeeded"), events, True)
