"""A loader beside the training loader: `for batch, more in zip(loader, other)`.

    batch          0   1   2   3 ✗ 4   5        of the training loader; a process ends in batch 3
    the next one               ▸ 3   4   5        goes on behind those that were made
    other          a   b   c   d   e   f        loads a to c once more, drops them, and gives d

Two loaders stand in one zip() if their iterators are asked for by one instruction of one frame. An
order that is drawn from PyTorch's random numbers is drawn from what they were as the loop began,
which a state holds. Where nodes make numbers of batches of their own (a server) the other loader
begins anew.
"""

import sys

from torch.utils.data import DataLoader

from ...run import asked_by_call
from ..randomness import random_numbers, restore_random_numbers


class Zipped:
    def __init__(self, run, place):
        self.run, self.place = run, place
        self._loop = None  # the training loader's: {epoch, at: first batch, random: as it began}
        self._goes_on = False  # the loop is from a state, and no loop has continued it yet
        self._opened = None  # which instruction of which frame, until it has its first batch
        if run.resumed:
            self._watch()

    # ---- what the training loader tells

    def _has_begun(self):
        """This process makes steps of its own; a look at its first batch does not count."""
        return not self.run.resumed or self.place.passes.batches > 1

    def opens(self, frame, epoch):
        """Its iterator was requested at this place. A `for` has no other loader."""
        self._opened = None
        if not asked_by_call(frame):
            return
        self._opened = id(frame), frame.f_lasti
        self._goes_on = self._goes_on and not self._has_begun() and self._loop["epoch"] == epoch
        if not self._goes_on:
            self._loop = {"epoch": epoch, "at": 0, "random": random_numbers()}

    def begins(self, piece):
        """The loop begins with this slice."""
        if self._opened and self._has_begun():  # else it continues a loop of its epoch
            self._loop.update(epoch=piece.epoch, at=piece.start // self.run.global_batch)
        self._opened = None

    # ---- states

    def save(self, epoch):
        return self._loop if self._loop and self._loop["epoch"] == epoch else None

    def load(self, loop):
        self._loop, self._goes_on = loop, bool(loop)

    # ---- the other loader

    def _watch(self):
        plain = DataLoader.__iter__

        def iterate(loader):
            frame = sys._getframe(1)
            if self._opened == (id(frame), frame.f_lasti):
                return self._following(loader, plain)
            return plain(loader)

        DataLoader.__iter__ = iterate

    def _following(self, loader, plain):
        """The other loader is asked for its first batch after the training loader has given its
        own."""
        made = 0 if self.run.loops.passing else self.place.passed() - self._loop["at"]
        if made <= 0:
            yield from plain(loader)
            return
        now = random_numbers()
        restore_random_numbers(self._loop["random"])
        batches = plain(loader)
        for _ in range(made):
            next(batches, None)
        restore_random_numbers(now)
        yield from batches
