"""An episode: a world, the jobs that run in it, and the faults of a seed."""
import collections
import random
import time

import after
from faults import PACE, Faults
from service import until

AT_ONCE = 3  # jobs at a time
ENDED = ("succeeded", "failed", "cancelled")
LIVING = "queued,launching,running,pausing,paused,cancelling"


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
        """The documents of jobs that have not ended; submits others until there are enough."""
        some = self.world.get(f"jobs?state={LIVING}&fields=state,progress,attempt").json()["jobs"]
        told = {j["id"]: j for j in some}
        living = [(job, told[job.id]) for job in self.jobs if job.id in told]
        if len(living) >= AT_ONCE:
            return living
        job = self.world.JOB(self.draw, len(self.jobs))
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
        return faults.strike(self.target(moment), moment)

    def ended(self, job):
        def over():
            self.world.wake_resting()
            state = self.world.job(job.id)["state"]
            return state if state in ENDED else None
        return until(f"job {job.id} has ended", over, 300, every=0.2)

    def judge(self):
        wrong = [w for job in self.jobs for w in after.job_ended_right(self.world, job)]
        if wrong:
            self.world.keep()  # the next requests delete the jobs
        return wrong + after.nothing_is_left(self.world, self.jobs)
