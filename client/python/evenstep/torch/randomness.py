"""Random numbers of a process: PyTorch's, Python's, NumPy's.

A program seeds itself, and so each node draws the same numbers. What is drawn once a step (a
branch, the weight of a mixup) is to be the same on all of them. What is drawn for each sample
(noise, a partner, an augmentation) repeats there: of `torch.randn(len(x), 100)` a batch on four
equal nodes has a quarter, four times. The program is told, since it alone knows which it wants.

    step     ├─ batch ─ noise ─┼─ pass ─ optimizer ─┤
    words    617               524                     93 were drawn, for 20 samples

What is drawn after the pass is of parameters (noise of gradients), and is to be the same.
"""

import random
import sys

import torch

from ..run import knows_who_it_is

LOOKS = 8  # steps of a run that are checked
_WORDS = 624  # of a Mersenne twister; all three generators are one
_LEFT = slice(8, 12)  # words left, in the state of PyTorch's generator
_LEAST, _MOST = 8, 64  # words drawn for each sample, whatever the samples are


def random_numbers():
    state = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if "numpy" in sys.modules:
        state["numpy"] = sys.modules["numpy"].random.get_state()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def restore_random_numbers(state):
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    if "numpy" in state and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(state["numpy"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


def _words_used():
    """Words that each generator has drawn, modulo all its words."""
    left = int.from_bytes(bytes(torch.get_rng_state()[_LEFT].tolist()), sys.byteorder)
    used = [-left, random.getstate()[1][-1]]
    if "numpy" in sys.modules:
        used.append(sys.modules["numpy"].random.get_state()[2])
    return used


class Draws:
    """Checks the first steps of a run."""

    def __init__(self, run):
        self.run = run
        self._before = None
        self._done = run.workers == 1

    def step_begins(self, piece):
        if not self._done and piece.count and piece.number < LOOKS:
            self._before = _words_used()

    def pass_begins(self, piece):
        """The first pass of the step begins."""
        before, self._before = self._before, None
        if before is None or self._done:
            return
        drawn = max((b - a) % _WORDS for a, b in zip(before, _words_used()))
        if drawn >= max(_LEAST, min(piece.count, _MOST)):
            self._done = True
            self._tell()

    def _tell(self):
        if not knows_who_it_is():  # else it may have seeded itself by its rank
            self.run.say(
                "this program draws random numbers for the samples of a batch (noise, an "
                "augmentation), and each node draws the same for its own samples, since all have "
                "the program's seed: torch.manual_seed(seed + evenstep.rank()) after prepare(), "
                "or the like of random and numpy.random, gives each node others"
            )
