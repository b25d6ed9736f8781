"""Faults that are drawn, one after the other, on real processes, while jobs of all strategies run;
then whether everything is as it should be (docs/decisions/0027).

    make check-chaos SEED=7 FAULTS=500        # a night's run"""
import collections
import os
import pathlib
import random
import shutil
import tempfile
import time

import pytest

import after
from faults import PACE, Faults, schedule
from jobs import Job
from service import until
from pair import Pair
from world import CAN_MOUNT, House, Pinger

SEED, FAULTS = int(os.environ.get("SEED") or 1), int(os.environ.get("FAULTS") or 25)
AT_ONCE, EPISODE = 3, 25  # jobs side by side; faults until everything is looked at
ENDED = ("succeeded", "failed", "cancelled")
LIVING = "queued,launching,running,pausing,paused,cancelling"
HOUSE = {"kill_worker": 3, "kill_keeper": 2, "kill_mpirun": 2, "kill_redis": 2,
         "kill_coordinator": 3, "stop_worker": 2, "stop_redis": 1, "stop_coordinator": 1,
         "stop_mpirun": 1, "freeze_worker": 1, "freeze_keeper": 1, "fill_disk": 1, "pause_job": 1,
         "cancel_job": 1, "turn_clock": 1, "lose_power": 1}
if not CAN_MOUNT:
    del HOUSE["fill_disk"]  # its disk would be the machine's
    del HOUSE["lose_power"]  # by its mounts its processes are known
PAIR = {"kill_agent": 2, "stop_agent": 1, "kill_daemon": 2, "cut_link": 3, "slow_link": 1,
        "kill_coordinator": 3, "freeze_coordinator": 2, "kill_redis": 2, "stop_redis": 1,
        "kill_worker": 2, "kill_keeper": 1, "kill_mpirun": 1, "freeze_worker": 1, "pause_job": 1,
        "cancel_job": 1, "turn_clock": 2, "lose_power": 2}


class Episode:
    """A world, the jobs that run in it, and the faults of a seed."""

    def __init__(self, world, seed, moments):
        self.world, self.seed, self.moments = world, seed, moments
        self.draw = random.Random(f"{seed} jobs")
        self.jobs, self.log, self.count = [], [], collections.Counter()
        self.begin = time.monotonic()

    def say(self, words):
        self.log.append(f"{time.monotonic() - self.begin:7.2f} s  {words}")

    def living(self):
        """Jobs that have not ended, as they are told; others are submitted until there are
        enough."""
        some = self.world.get(f"jobs?state={LIVING}&fields=state,progress,attempt").json()["jobs"]
        told = {j["id"]: j for j in some}
        living = [(job, told[job.id]) for job in self.jobs if job.id in told]
        if len(living) >= AT_ONCE:
            return living
        job = Job(self.draw, len(self.jobs))
        answer = self.world.post("jobs", job.spec, headers={"Idempotency-Key": f"{len(self.jobs)}"})
        assert answer.ok, answer.text
        job.id = answer.json()["id"]
        self.jobs.append(job)
        self.say(f"job {job.id}: {job.spec['name']}, {job.workers} workers, {job.epochs} epochs")
        return self.living()

    def target(self, moment):
        """The job that a fault hits, once its moment has come."""
        steps = {}

        def come():
            for job, told in self.living():
                if moment.launching and told["state"] == "launching":
                    return job
                step = (told["progress"] or {}).get("step", 0) + told["attempt"]
                first = steps.setdefault(job.id, step)
                if told["state"] == "running" and step - first >= moment.steps:
                    ripe.append(job)
            return ripe[moment.pick % len(ripe)] if ripe else None
        ripe = []
        return until(f"the moment of {moment}", come, PACE, every=0.03)

    def play(self):
        faults = Faults(self.world)
        for moment in self.moments:
            hit = until(f"{moment} hits something", lambda: self.strike(faults, moment), PACE)
            self.count[moment.kind] += 1
            self.say(f"{moment.kind} {hit}")
            self.world.wake_resting()
        for job in self.jobs:
            self.say(f"job {job.id} is {self.ended(job)}")

    def strike(self, faults, moment):
        """What was hit; None: it had ended just before, or, in a launch, was not there yet."""
        return getattr(faults, moment.kind)(self.target(moment), moment)

    def ended(self, job):
        def over():
            self.world.wake_resting()
            state = self.world.job(job.id)["state"]
            return state if state in ENDED else None
        return until(f"job {job.id} has ended", over, 300, every=0.2)

    def judge(self):
        wrong = [w for job in self.jobs for w in after.job_ended_right(self.world, job)]
        return wrong + after.nothing_is_left(self.world, self.jobs)


def episodes():
    """One in a house and one in a pair by turns, as many as the faults need; at least one of each
    where there are faults enough."""
    each = min(EPISODE, -(-FAULTS // 2))
    return [(SEED + n, min(each, FAULTS - n * each), (House, Pair)[n % 2])
            for n in range(-(-FAULTS // each))]


def name_of(value):
    return value.__name__ if isinstance(value, type) else None


@pytest.mark.skipif(not CAN_MOUNT, reason="no disk can be mounted here: none is filled")
def test_a_full_disk_is_among_the_faults_of_a_house():
    """Where it cannot be, that is seen."""
    assert "fill_disk" in {moment.kind for moment in schedule(SEED, len(HOUSE), HOUSE)}


@pytest.mark.parametrize("seed,faults,kind", episodes(), ids=name_of)
def test_drawn_faults_lose_no_job_and_no_sample_and_leave_nothing(seed, faults, kind):
    if kind is Pair and Pair.reason_against():
        pytest.skip(f"hosts and links are not tested: {Pair.reason_against()}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="evenstep-chaos-"))
    moments = schedule(seed, faults, PAIR if kind is Pair else HOUSE)
    world = kind(folder)
    episode, wrong, pinger = Episode(world, seed, moments), ["it did not get so far"], None
    try:
        world.start()
        pinger = Pinger(world)
        pinger.start()
        episode.play()
        wrong = episode.judge()
    finally:
        if pinger:
            pinger.over.set()
            pinger.join()
        print(f"seed {seed}: {dict(episode.count)}, {len(episode.jobs)} jobs")
        print("\n".join(episode.log))
        left = world.close(failed=bool(wrong))
    print(f"seed {seed}: longest without an answer of /healthz {pinger.longest:.2f} s, while the "
          f"coordinator itself was hit {pinger.longest_in_fault:.2f} s")
    assert not wrong, "\n".join(wrong)
    assert not left, f"processes that outlive the service: {left}"
    shutil.rmtree(folder)
