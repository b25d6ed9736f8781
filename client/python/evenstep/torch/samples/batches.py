"""Batch samplers of the program's own: by length, or with so many samples of each class.

A node's share of a step is a part of one batch, so batches are put in one row, of which a global
batch is the next so many places.

    the sampler's batches   │ 7 2 9 4 │ 1 8 0 5 │ 3 6 │
    the order               7 2 9 4 1 8 0 5 3 6          global batch: 4

Batches may differ in size, as those of so many tokens each do. Then the largest is the global
batch, and each of the others has empty places (None), spread evenly, so that each node's share has
its part of the samples.

    the sampler's batches   │ 7 2 9 4 │ 1 8 │ 0 5 3 │
    the order               7 2 9 4 · 1 · 8 · 0 5 3      global batch: 4
"""

from itertools import islice

from ...run import Error
from .order import Seeded


class Row:
    """A sampler that gives the samples of these batches one after the other. It passes other
    requests (set_epoch, generator) to the batch sampler."""

    def __init__(self, batches):
        self.batches = batches
        with Seeded(batches, 0):
            sizes = [len(batch) for batch in islice(batches, len(batches))]
        self.count, self.size = len(sizes), max(sizes, default=0)
        self.has_gaps = any(size != self.size for size in sizes[:-1])
        self.samples = self.count * self.size if self.has_gaps else sum(sizes)
        for number, size in enumerate(sizes):
            self._check(size, number)

    def _check(self, size, number):
        """Checks a batch of any epoch by the first one."""
        is_last = number == self.count - 1
        shorter = 0 < size < self.size and (is_last or self.has_gaps)
        if size != self.size and not shorter:
            raise Error(
                "the loader has a batch sampler of its own (%s), of which batch %d has %d samples, "
                "and those of its first epoch have %s%d: no later epoch has a larger batch, "
                "nor a smaller one before its last unless the first epoch has some"
                % (type(self.batches).__name__, number, size,
                   "up to " if self.has_gaps else "", self.size)
            )

    def _check_count(self, count):
        if count != self.count:
            raise Error(
                "the loader has a batch sampler of its own (%s), with %d batches in this epoch and "
                "%d in the first one: in one run each epoch has as many"
                % (type(self.batches).__name__, count, self.count)
            )

    def _spread(self, batch):
        """Its samples in the places of the largest batch."""
        n, size = len(batch), self.size
        ends = [place * n // size for place in range(size + 1)]
        return [batch[at] if at < end else None for at, end in zip(ends, ends[1:])]

    def __getattr__(self, name):
        return getattr(self.__dict__["batches"], name)

    def __len__(self):
        return self.samples

    def __iter__(self):
        if self.has_gaps:
            self._check_count(len(self.batches))
        for number, batch in enumerate(islice(self.batches, len(self.batches))):
            self._check(len(batch), number)
            yield from self._spread(batch) if self.has_gaps else batch


def row_of(loader):
    """Of a DataLoader with such a batch sampler; made once."""
    batches, kept = loader.batch_sampler, loader.__dict__
    if not hasattr(batches, "__len__"):
        raise Error(
            "the loader has a batch sampler of its own (%s) without a length: an epoch needs one"
            % type(batches).__name__
        )
    if "_evenstep_row" not in kept:
        kept["_evenstep_row"] = Row(batches)
    return kept["_evenstep_row"]
