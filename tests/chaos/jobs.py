"""Drawn jobs: every strategy, two or three workers, a few seconds each. When a job is submitted, it
is known what it must have counted at the end."""
import re

from service import proc_file, processes_of, spec
from test_program import COUNTING

SAMPLES, BATCH, COUNTING_SAMPLES = 1280, 64, 256
STRATEGIES = [{"type": "sync"}, {"type": "asgd"}, {"type": "softsync", "n": 1},
              {"type": "local-sgd", "k": 4}, {"type": "ssp", "s": 2}, {"type": "hpsgd", "k": 2},
              {"type": "dbs-sgd", "c": 2}, {"type": "hier-sgd", "k1": 1, "k2": 4},
              {"type": "dc-asgd"}, {"type": "softsync", "n": 1, "pull": "blocking"},
              {"type": "ddc-asgd"}, {"type": "asgd", "servers": 2}, {"type": "dc-asgdk"}]
ENDLESS = 1000  # restarts: no drawn fault may make a job fail


class Job:
    """A request, and its required result."""

    def __init__(self, draw, number):
        """The strategies take turns; every seventh job is a user's own program."""
        self.strategy = STRATEGIES[number % len(STRATEGIES)]
        self.is_program = number % 7 == 6
        self.epochs = draw.randint(6, 14)
        self.workers = draw.choice((2, 2, 3))
        self.expected, self.id, self.hits = "succeeded", None, []
        self.samples = self.epochs * (COUNTING_SAMPLES if self.is_program else SAMPLES)
        self.policy = draw.choice(("equal", "dynamic"))
        self.spec = self.of_program() if self.is_program else self.of_network()

    def common(self):
        return {"workers": self.workers, "min_workers": 1, "epochs": self.epochs,
                "strategy": self.strategy, "max_restarts": ENDLESS,
                "checkpoint": {"every_steps": 20},
                "batching": {"global_batch": BATCH, "policy": self.policy}}

    def of_network(self):
        return spec(**{**self.common(), "name": "-".join(map(str, self.strategy.values())),
                       "optimizer": {"type": "sgd", "learning_rate": 0.02},
                       "evaluate": {"every_epochs": self.epochs},
                       "data": {"format": "glyphs", "samples": SAMPLES, "test_samples": 200}})

    def of_program(self):
        return {**self.common(), "name": "program", "program": {"name": "counting"},
                "batching": {"global_batch": BATCH, "policy": "equal"}}


# ---- programs ---------------------------------------------------------------------------------

PROGRAM_SAMPLES, COUNTING_STEP = 1280, 1 / 512
SYNC = {"type": "sync"}
SERVERS = [{"type": "asgd"}, {"type": "softsync", "n": 1, "pull": "blocking"},
           {"type": "ssp", "s": 2}, {"type": "dbs-sgd", "c": 2}]
AVERAGING = [{"type": "local-sgd", "k": 4}, {"type": "hpsgd", "k": 2},
             {"type": "hier-sgd", "k1": 2, "k2": 8}, {"type": "local-sgd", "k": 16}]
TURNS = [SYNC, SERVERS[0], AVERAGING[0], SYNC, SERVERS[1], AVERAGING[1], SYNC,
         SERVERS[2], AVERAGING[2], SYNC, SERVERS[3], AVERAGING[3]]


class ProgramJob:
    """Has three or four workers. Its gradients are sums of whole numbers. If they are summed, the
    parameters show that each sample was in one step of each epoch."""

    def __init__(self, draw, number):
        self.strategy = TURNS[number % len(TURNS)]
        self.epochs = draw.randint(3, 6)
        self.workers = draw.choice((3, 4))
        self.expected, self.id, self.hits = "succeeded", None, []
        self.samples = self.epochs * PROGRAM_SAMPLES
        averages = self.strategy in AVERAGING
        rate, reduction = (1 / 32, "mean") if averages else (COUNTING_STEP, "sum")
        args = ["--samples", PROGRAM_SAMPLES, "--rate", rate, "--reduction", reduction,
                "--everyone", "--state", "--ahead", draw.choice((1, 2, 5)), "--pause",
                0.15 if self.strategy in SERVERS else 0.04]
        self.spec = {"name": "-".join(map(str, self.strategy.values())),
                     "program": {"command": ["/usr/bin/python3", str(COUNTING)],
                                 "args": [str(a) for a in args]},
                     "workers": self.workers, "min_workers": 1, "epochs": self.epochs,
                     "strategy": self.strategy, "max_restarts": ENDLESS,
                     "checkpoint": {"every_steps": 10},
                     "batching": {"global_batch": BATCH, "policy": "equal"}}


def programs_of(id):
    """{rank: pid} of the job's running programs."""
    found = {}
    for pid in sorted(processes_of(str(COUNTING))):
        env = proc_file(pid, "environ")
        rank = re.search(rb"(?:^|\0)EVENSTEP_RANK=(\d+)\0", env)
        if rank and f"/{id}/".encode() in env:
            found[int(rank.group(1))] = pid
    return found
