"""Drawn programs (drawn.py) end at the parameters that they have alone, on unequal nodes: in one
piece, where one is killed, and where all go on from a checkpoint.

    make check-own-program SEED=100 DRAWN=200      # other ones, and more
"""

import os
import random

import pytest

from compare import bit_identical, difference
from drawn import Drawn
from stranger_runs import EACH_STEP, attempt_ends, on_ranks

SEED, DRAWN = int(os.environ.get("SEED") or 1), int(os.environ.get("DRAWN") or 10)
OFF, COARSE = 5e-5, 3e-2  # how far rounding may carry parameters, in 32 bits and in 16


class Case:
    """A seed's program, the ranks that it runs on, and what is done to it."""

    def __init__(self, programs, run_programs, folder, seed):
        self.programs, self.folder, self.name = programs, folder, f"drawn_{seed}"
        self.program, draw = Drawn(seed), random.Random(f"{seed} ranks")
        few, quarter = draw.choice([1, 2, self.program.batch // 8]), self.program.batch // 4
        few = max(few, 2) if self.program.how == "parts" else few
        self.sizes = [self.program.batch - quarter - few, quarter, few]
        passes = 3 * (self.program.samples // self.program.batch)
        begun = 3 if self.program.how else 2  # a program that is killed in its first step ends all
        self.at = str(draw.randint(begun, min(8, passes)))
        self.within = draw.choice(["", "backward"])
        print(self.program.text, self.sizes, self.at, self.within)
        self.alone = run_programs(programs, "strangers.run", self.name).results[0]

    def ends_as_alone(self, **more):
        done, ends = on_ranks(self.programs, self.name, self.folder, self.sizes,
                              {"type": "sync"}, **more)
        print(done.stderr)
        found = difference(ends[0], self.alone)
        assert bit_identical(ends) and found < (COARSE if self.program.coarse else OFF)

    def fails(self):
        """Its attempt ends, behind a checkpoint of each step."""
        attempt_ends(self.programs, self.name, self.folder, self.sizes, self.at)


@pytest.mark.parametrize("seed", range(SEED, SEED + DRAWN))
class TestADrawnProgram:
    @pytest.fixture
    def case(self, torch_programs, run_programs, tmp_path, seed):
        return Case(torch_programs, run_programs, tmp_path, seed)

    def test_ends_where_it_ends_alone(self, case):
        case.ends_as_alone()

    def test_that_is_killed_ends_there_too(self, case):
        within = {"TEST_KILL_IN": case.within} if case.within else {}
        case.ends_as_alone(variables={"TEST_KILL": case.at, **within})

    def test_that_goes_on_from_a_checkpoint_ends_there_too(self, case):
        case.fails()
        case.ends_as_alone(**EACH_STEP)
