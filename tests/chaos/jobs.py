"""Drawn jobs: every strategy, two or three workers, a few seconds each. What each must have counted
in the end is known when it is submitted."""
from service import spec

SAMPLES, BATCH, COUNTING_SAMPLES = 1280, 64, 256
STRATEGIES = [{"type": "sync"}, {"type": "asgd"}, {"type": "softsync", "n": 1},
              {"type": "local-sgd", "k": 4}, {"type": "ssp", "s": 2}, {"type": "hpsgd", "k": 2},
              {"type": "dbs-sgd", "c": 2}, {"type": "hier-sgd", "k1": 1, "k2": 4},
              {"type": "dc-asgd"}, {"type": "softsync", "n": 1, "pull": "blocking"},
              {"type": "ddc-asgd"}, {"type": "asgd", "servers": 2}, {"type": "dc-asgdk"}]
ENDLESS = 1000  # restarts: no fault that was drawn may fail a job


class Job:
    """What was asked, and what must come of it."""

    def __init__(self, draw, number):
        """The strategies come in turn; every seventh job is a program of a user's own."""
        self.strategy = STRATEGIES[number % len(STRATEGIES)]
        self.is_program = number % 7 == 6
        self.epochs = draw.randint(6, 14)
        self.workers = draw.choice((2, 2, 3))
        self.expected, self.id = "succeeded", None
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
