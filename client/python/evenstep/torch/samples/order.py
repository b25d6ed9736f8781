"""The order in which a sampler of the program's own gives the samples of an epoch.

It is drawn from the same seed on every rank and in each of a loader's workers, so that a position
in it is the same sample everywhere. One of more samples than fit a list is drawn as far as it is
asked: a language model's loader may draw 10 billion rows at random and call it an epoch.

    window of what was drawn last   ├──────────────┤
    order  ─────────────────────────┴──────────────┴─► drawn next
"""

import random
import sys
from itertools import islice
from zlib import crc32

import torch

from ...run import Error

LISTED_MOST = 1 << 20
WINDOW = 1 << 18  # positions that are kept, for slices that come again
PIECE = 1 << 12  # positions that are drawn at once


class Seeded:
    """Uses random numbers from this seed inside, and restores the previous ones afterwards. A
    generator of the sampler's own continues."""

    def __init__(self, sampler, seed):
        self.generator, self.seed = getattr(sampler, "generator", None), seed % 2**63

    def __enter__(self):
        self.was = torch.get_rng_state(), random.getstate()
        self.numpy = sys.modules["numpy"].random if "numpy" in sys.modules else None
        if self.numpy:
            self.numpy_was = self.numpy.get_state()
            self.numpy.seed(self.seed % 2**32)
        torch.default_generator.manual_seed(self.seed)
        if isinstance(self.generator, torch.Generator):
            self.generator.manual_seed(self.seed)
        random.seed(self.seed)

    def __exit__(self, *failure):
        torch.set_rng_state(self.was[0])
        random.setstate(self.was[1])
        if self.numpy:
            self.numpy.set_state(self.numpy_was)


def numbers_of(sampler):
    """{name: a number that stands for the values} of everything that a sampler may draw by: its
    tensors, arrays and lists of numbers, and those of a sampler within it."""
    found = {}
    for name, value in vars(sampler).items():
        if isinstance(value, torch.utils.data.Sampler):
            found.update({"%s.%s" % (name, n): v for n, v in numbers_of(value).items()})
        elif isinstance(value, torch.Tensor):
            flat = value.detach().cpu().contiguous().flatten()
            found[name] = crc32(flat.view(torch.uint8).numpy())
        elif type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
            found[name] = crc32(value.tobytes())
        elif type(value) is list and len(value) <= LISTED_MOST and value:
            numbers = all(isinstance(v, (int, float)) for v in value)
            found.update({name: hash(tuple(value))} if numbers else {})
    return found


class _Drawn:
    """Positions are needed in about the order in which they are drawn. Each piece has its own seed,
    whatever the program draws in between."""

    def __init__(self, sampler, seed):
        self.sampler, self.seed = sampler, seed
        self._begin()

    def _begin(self):
        self.first, self.window, self.drawn = 0, [], None

    def __getitem__(self, position):
        if position < self.first:
            self._begin()
        while position >= self.first + len(self.window):
            self._draw()
        return self.window[position - self.first]

    def _draw(self):
        if len(self.window) >= 2 * WINDOW:
            del self.window[:WINDOW]
            self.first += WINDOW
        before = self.first + len(self.window)
        with Seeded(self.sampler, self.seed + before):
            self.drawn = self.drawn or iter(self.sampler)
            self.window += islice(self.drawn, PIECE)
        if self.first + len(self.window) == before:
            raise _gives_fewer(self.sampler, before)


def _gives_fewer(sampler, given):
    return Error(
        "the sampler %s says that it has %d samples and gives %d"
        % (type(sampler).__name__, len(sampler), given)
    )


def order_of(sampler, run_seed, epoch):
    """Returns what gives the sample at a position, from 0 to len(sampler)."""
    seed = run_seed + epoch
    if hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)
    if len(sampler) > LISTED_MOST:
        return _Drawn(sampler, seed)
    with Seeded(sampler, seed):
        order = list(sampler)
    if len(order) < len(sampler):
        raise _gives_fewer(sampler, len(order))
    return order
