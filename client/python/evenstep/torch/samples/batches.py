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

Each epoch of a run has as many places. A sampler that mixes anew may make more batches, fewer, or
a larger one in a later epoch; they are cut and put together to as many of at most that size.
"""

from itertools import islice

from ...run import Error
from .fitted import fit
from .order import LISTED_MOST, Seeded

ENDLESS = 8  # times as many samples as the data set has


def _batches_of(sampler, samples):
    """Those of an epoch. samples: of the data set, or 0: unknown."""
    if hasattr(sampler, "__len__"):
        return [list(batch) for batch in islice(sampler, len(sampler))]
    batches, total, most = [], 0, ENDLESS * samples or LISTED_MOST
    for batch in sampler:
        batches.append(list(batch))
        total += len(batches[-1])
        if total > most:
            raise Error(
                "the loader has a batch sampler of its own (%s) without a length, whose batches "
                "do not end after %d samples: give it a __len__, the batches of an epoch"
                % (type(sampler).__name__, total)
            )
    return batches


class Row:
    """A sampler that gives the samples of these batches one after the other. It passes other
    requests (set_epoch, generator) to the batch sampler."""

    def __init__(self, batches, samples):
        """samples: of the data set; 0: unknown."""
        self.batches, self._of_data = batches, samples
        with Seeded(batches, 0):
            sizes = self._sizes(_batches_of(batches, samples))
        self.count, self.size = len(sizes), max(sizes)
        unequal = getattr(batches, "unequal", False)  # some may be smaller in another epoch
        self.has_gaps = unequal or any(size != self.size for size in sizes[:-1])
        last = self.size if self.has_gaps else sizes[-1]
        self._places = [self.size] * (self.count - 1) + [last]
        self.fitted = None  # a sentence, once an epoch's batches were cut or put together

    def _sizes(self, batches):
        sizes = [len(batch) for batch in batches]
        if not all(sizes) or not sizes:
            raise Error(
                "the loader has a batch sampler of its own (%s), which gives %s"
                % (
                    type(self.batches).__name__,
                    "no sample in batch %d" % sizes.index(0) if sizes else "no batch",
                )
            )
        return sizes

    def _fits(self, sizes):
        if not self.has_gaps:
            return sizes == self._places
        enough = all(size <= places for size, places in zip(sizes, self._places))
        return len(sizes) == self.count and enough

    def _fit(self, batches, sizes):
        try:
            fitted = fit(batches, self._places)
        except ValueError:
            raise Error(
                "the loader has a batch sampler of its own (%s), with %d samples in this epoch and "
                "%d batches of up to %d in the first one: each epoch of a run has as many batches"
                % (type(self.batches).__name__, sum(sizes), self.count, self.size)
            ) from None
        self.has_gaps = True
        self.fitted = (
            "the batch sampler %s has made %d batches of up to %d samples, and in its first epoch "
            "%d of up to %d: each epoch of a run has as many, so some are cut or put together, and "
            "each sample still comes once. Batches that are made once, and shuffled for each "
            "epoch, stay as they are"
            % (type(self.batches).__name__, len(sizes), max(sizes), self.count, self.size)
        )
        return fitted

    def _spread(self, batch, places):
        """Its samples in the places of a full batch."""
        n = len(batch)
        ends = [place * n // places for place in range(places + 1)]
        return [batch[at] if at < end else None for at, end in zip(ends, ends[1:])]

    def __getattr__(self, name):
        return getattr(self.__dict__["batches"], name)

    def __len__(self):
        return sum(self._places)

    def __iter__(self):
        batches = _batches_of(self.batches, self._of_data)
        sizes = self._sizes(batches)
        if not self._fits(sizes):
            batches = self._fit(batches, sizes)
        for batch, places in zip(batches, self._places):
            yield from self._spread(batch, places) if self.has_gaps else batch


def row_of(loader):
    """Of a DataLoader with such a batch sampler; made once."""
    kept = loader.__dict__
    if "_evenstep_row" not in kept:
        data = loader.dataset
        samples = len(data) if hasattr(data, "__len__") else 0
        kept["_evenstep_row"] = Row(loader.batch_sampler, samples)
    return kept["_evenstep_row"]
