"""Worlds in which all jobs are users' own programs, and the checks when the faults are over: each
sample counts once, parameters are the same on all ranks and, on one machine, there are no more
attempts than the documents promise."""
import json
import re

import numpy as np

from jobs import AVERAGING, COUNTING_STEP, PROGRAM_SAMPLES, SERVERS, ProgramJob
from pair import Pair
from test_program import first_parameters, gradient
from world import House

SILENT = 2.9  # seconds: a rank may be silent for 3


class OfPrograms:
    OPTIONS = ["--allow-programs"]
    JOB = ProgramJob

    def wrong_with(self, job, told):
        """In addition to the checks of every job."""
        return self.ends_alike(job, told) if told["state"] == "succeeded" else []

    def ends_alike(self, job, told):
        ranks = [w["rank"] for w in told["workers"] if w["state"] == "done"]
        params = {r: np.array(json.loads(self.artifact(job.id, f"rank-{r}.json"))["params"], "f4")
                  for r in ranks}
        if job.strategy in AVERAGING:
            expected, near = params[ranks[0]], 0
        else:
            of_an_epoch = COUNTING_STEP * gradient(range(PROGRAM_SAMPLES))
            expected = first_parameters() - job.epochs * of_an_epoch
            near = 1e-3 * job.epochs if job.strategy in SERVERS else 0
        return [f"ends with other parameters on rank {r}: {abs(params[r] - expected).max()}"
                for r in ranks if not abs(params[r] - expected.astype("f4")).max() <= near]


class PairOfPrograms(OfPrograms, Pair):
    pass


class Hall(OfPrograms, House):
    NAMES = [f"n{i}" for i in range(1, 11)]
    HOSTS = ["hall"]

    def wrong_with(self, job, told):
        more = self.lost_attempts(job, told) if told["state"] == "succeeded" else []
        return super().wrong_with(job, told) + more

    def lost_attempts(self, job, told):
        """Lost attempts that no fault explains, according to the documents."""
        why = [m.group(1) for line in self.text().splitlines() if f"job={job.id} " in line
               and (m := re.search(r'msg="attempt ended".* state=queued why=(.*)', line))]
        wrong = [f"has lost an attempt: {w}; it was hit by {job.hits}" for w in why
                 if not explained(job, w)]
        if told["attempt"] != len(why) + 1:
            wrong.append(f"has made {told['attempt']} attempts, and lost {len(why)}: {why}")
        return wrong


def explained(job, why):
    """According to docs/own-program-training.md, docs/semantics.md and the decisions that they
    name."""
    def hits(kind):
        return sum(hit.startswith(kind) for hit in job.hits)
    killed = hits("kill_worker") + silenced(job)
    with_program = killed and hits("kill_program")
    of_others = (hits("kill_guard") or killed >= job.workers or with_program
                 or any("launch" in hit for hit in job.hits))
    return any(cause and re.search(words, why) for words, cause in (
        ("'keeper' is lost: no ", longest(job, "still_keeper") > SILENT),
        ("'keeper' is lost: it exited", hits("kill_keeper")),
        ("mpirun ended with", hits("kill_mpirun")),
        ("the coordinator ended while it was being launched", True),  # whichever job that hit
        ("three times in a row", hits("kill_program") >= 3),
        ("was ended by signal 9", hits("kill_program")),
        ("ended in step .* its parameters with it", hits("kill_program")),
        ("while the program of another one came back", with_program),
        ("in the last steps of", killed),
        ("by now that no slice follows", killed > 3),
        ("is lost: it exited on signal 9", of_others)))


def lengths(job, kind):
    return [float(hit.rpartition(" for ")[2].split()[0]) for hit in job.hits
            if hit.startswith(kind)]


def longest(job, kind):
    return max(lengths(job, kind), default=0)


def silenced(job):
    """Workers that stood still for so long that their guards ended them."""
    return sum(seconds > SILENT for seconds in lengths(job, "still_worker"))
