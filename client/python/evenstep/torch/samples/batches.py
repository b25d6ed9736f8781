"""Batch samplers of the program's own: by length, or with so many samples of each class.

A node's share of a step is a part of one batch, so batches are put in one row, of which a global
batch is the next so many samples; for that all have one size, but for an epoch's last.

    the sampler's batches   │ 7 2 9 4 │ 1 8 0 5 │ 3 6 │
    the order               7 2 9 4 1 8 0 5 3 6          global batch: 4
"""

from itertools import islice

from ...run import Error
from .order import Seeded


class Row:
    """A sampler that gives the samples of these batches one after the other. Whatever else it is
    asked for is the batch sampler's: set_epoch, generator."""

    def __init__(self, batches):
        self.batches = batches
        with Seeded(batches, 0):
            sizes = [len(batch) for batch in islice(batches, len(batches))]
        self.size, self.samples = (sizes[0], sum(sizes)) if sizes else (0, 0)
        for number, size in enumerate(sizes):
            self._check(size, number)

    def _check(self, size, number):
        is_last = number == len(self.batches) - 1
        if size != self.size and not (is_last and 0 < size < self.size):
            raise Error(
                "the loader has a batch sampler of its own (%s), of which batch %d has %d samples "
                "and the first %d: nodes share batches of one size out. Give batch_size, and a "
                "sampler if the order matters"
                % (type(self.batches).__name__, number, size, self.size)
            )

    def __getattr__(self, name):
        return getattr(self.__dict__["batches"], name)

    def __len__(self):
        return self.samples

    def __iter__(self):
        for number, batch in enumerate(islice(self.batches, len(self.batches))):
            self._check(len(batch), number)
            yield from batch


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
