"""As test_drawn.py, for Keras programs (keras_drawn.py), on TensorFlow and on PyTorch.

    tests/run own-program/test_keras_drawn.py       # SEED=100 DRAWN=50 draws others
"""

import os
import random

import pytest

from compare import bit_identical, difference
from keras_drawn import Drawn
from stranger_runs import EACH_STEP, attempt_ends, on_ranks

SEED, DRAWN = int(os.environ.get("SEED") or 1), int(os.environ.get("DRAWN") or 3)
OFF = 5e-5  # how far rounding may carry parameters


class Case:
    """A seed's program, the ranks that it runs on, and what is done to it."""

    def __init__(self, programs, run_programs, folder, seed):
        self.programs, self.folder, self.name = programs, folder, f"keras_drawn_{seed}"
        self.program, draw = Drawn(seed), random.Random(f"{seed} ranks")
        few = draw.choice([1, 2, self.program.batch // 4])
        self.sizes = [self.program.batch - few, few]
        self.at = str(draw.randint(2, 8))
        print(self.program.text, self.sizes, self.at)
        self.alone = run_programs(programs, "strangers.run", self.name).results[0]

    def ends_as_alone(self, **more):
        done, ends = on_ranks(self.programs, self.name, self.folder, self.sizes,
                              {"type": "sync"}, **more)
        print(done.stderr)
        assert bit_identical(ends) and difference(ends[0], self.alone) < OFF

    def fails(self):
        """Its attempt ends, behind a checkpoint of each step."""
        attempt_ends(self.programs, self.name, self.folder, self.sizes, self.at, TEST_REFUSE="1",
                     TEST_KILL_IN="exchange")


@pytest.mark.parametrize("seed", range(SEED, SEED + DRAWN))
class TestADrawnProgram:
    @pytest.fixture
    def case(self, keras_programs, run_programs, tmp_path, seed):
        return Case(keras_programs, run_programs, tmp_path, seed)

    def test_ends_where_it_ends_alone(self, case):
        case.ends_as_alone()

    def test_that_is_killed_ends_there_too(self, case):
        case.ends_as_alone(variables={"TEST_KILL": case.at, "TEST_KILL_IN": "exchange"})

    def test_that_goes_on_from_a_checkpoint_ends_there_too(self, case):
        case.fails()
        case.ends_as_alone(**EACH_STEP)
