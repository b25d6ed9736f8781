"""The user's DataLoader made anew: with its data set, collate_fn and workers, and by slices.

    rank ─► Stream ─► SliceSampler ─► DataLoader (workers × prefetch_factor ahead) ─► batches
                                       of an iterable data set: _Shard ─► samples, collated here
"""

import sys

import torch
from torch.utils.data import DataLoader, IterableDataset, SequentialSampler

from ...run import Error
from ...stream import GHOST
from .about import is_permutation, sampler_of
from .order import numbers_of, order_of

# what a DataLoader is made of, beside its sampler
KEPT = "collate_fn pin_memory timeout worker_init_fn multiprocessing_context generator".split()
KEPT += "persistent_workers pin_memory_device in_order".split()

CHANGED = (
    "the program has changed '%s' of the sampler %s since it drew the last order. Each node draws "
    "the order itself, so the change is to be the same on each: by losses of a node's own samples, "
    "the nodes' orders differ, and samples are left out while others come twice"
)


class SliceSampler:
    """Yields the indices of slices; positions in an order of the user's sampler, if there is
    one."""

    def __init__(self, stream, sampler, length):
        self.stream, self.length = stream, length
        plain = is_permutation(sampler) or type(sampler) is SequentialSampler
        self.sampler = None if plain else sampler
        self._epoch = self._order = None
        self._told = set()
        self._left = {}  # the sampler's generators, as the order of an epoch has left them
        self._last = [0]

    def __len__(self):
        return self.length

    def __iter__(self):
        while (piece := self.stream.take()) is not None:
            indices = piece.indices
            if self.sampler is not None:
                order = self._order_of(piece.epoch)
                indices = [at for i in indices if (at := order[i]) is not None]
            if indices:
                self._last = indices
            few = not indices or (len(indices) == 1 and self.stream.steps.weight.doubles)
            yield (self._last * GHOST)[:GHOST] if few else indices

    def rows_of(self, piece):
        """How many samples a slice has whose order has empty places (batches.py); None: as many as
        it has places."""
        if not getattr(self.sampler, "has_gaps", False):
            return None
        order = self._order_of(piece.epoch)
        return sum(order[i] is not None for i in piece.indices)

    def _order_of(self, epoch):
        if epoch != self._epoch:
            self._look_for_changes()
            self._order, self._epoch = order_of(self.sampler, self.stream.run.seed, epoch), epoch
            self._left = numbers_of(self.sampler)
            self._tell_if_fitted()
        return self._order

    def _tell_if_fitted(self):
        fitted = getattr(self.sampler, "fitted", None)
        if fitted and "fitted" not in self._told:
            self._told.add("fitted")
            self.stream.run.say(fitted)

    def _look_for_changes(self):
        now, run = numbers_of(self.sampler), self.stream.run
        changed = [name for name in self._left if now.get(name) != self._left[name]]
        if changed and run.workers > 1 and CHANGED not in self._told:
            self._told.add(CHANGED)
            run.say(CHANGED % (changed[0], type(self.sampler).__name__))


class _Shard(IterableDataset):
    """The rank's part of an iterable data set, without an end."""

    def __init__(self, dataset, shard, rank, workers):
        self.dataset, self.shard, self.rank, self.workers = dataset, shard, rank, workers

    def __iter__(self):
        while True:
            samples = 0
            for sample in self.shard(self.dataset, self.rank, self.workers):
                samples += 1
                yield sample
            if samples == 0:
                raise Error("the shard of rank %d of %d is empty" % (self.rank, self.workers))


def _same(sample):
    return sample


class Load:
    def __init__(self, given, stream, shard, length):
        """length: batches of an epoch."""
        self.stream, self.run = stream, stream.run
        workers, prefetch = self._granted(given)
        # an iterator draws a seed for workers when it is made; if it drew from the program's own
        # random numbers, a run that continues within an epoch would draw once more than one that
        # does not
        self._generator = None if given.generator else torch.Generator()
        arguments = {name: getattr(given, name) for name in KEPT if hasattr(given, name)}
        arguments.update(num_workers=workers, prefetch_factor=prefetch)
        arguments["generator"] = given.generator or self._generator
        if not workers:
            arguments.update(persistent_workers=False, timeout=0, multiprocessing_context=None)
        self.streams = isinstance(given.dataset, IterableDataset)
        if self.streams:
            self._collate = arguments.pop("collate_fn")
            self._samples = None
            stream.steps.place.again.leave_out()
            data = _Shard(given.dataset, shard, self.run.rank, self.run.workers)
            self._inner = DataLoader(data, batch_size=None, collate_fn=_same, **arguments)
        else:
            sampler = SliceSampler(stream, sampler_of(given)[1], length)
            stream.steps.weight.rows_of = sampler.rows_of
            self._inner = DataLoader(given.dataset, batch_sampler=sampler, **arguments)

    def _granted(self, given):
        """Workers, and batches ahead per worker, that the rank's slices ahead allow."""
        ahead, workers = self.run.ahead - 1, given.num_workers
        if not workers or isinstance(given.dataset, IterableDataset):
            return workers, given.prefetch_factor if workers else None
        if ahead < 1:
            print(
                "evenstep: the loader's workers are not used: no slice comes ahead of its step",
                file=sys.stderr,
            )
            return 0, None
        workers = min(workers, ahead)
        return workers, min(given.prefetch_factor or 2, ahead // workers)

    def batches(self, epoch):
        """Batches of the slices in a loop that begins in this epoch; of an iterable data set, its
        samples one by one."""
        if self._generator:
            seed = self.run.seed + self.run.rank + (epoch << 20)
            self._generator.manual_seed(seed % 2**63)
        return iter(self._inner)

    # ---- of an iterable data set

    def open(self):
        """All loops continue with the same samples."""
        if self._samples is None:
            self._samples = self.batches(0)

    def streamed(self, piece):
        """Returns the slice's batch."""
        samples = [next(self._samples) for _ in range(piece.count or GHOST)]
        doubled = len(samples) == 1 and self.stream.steps.weight.doubles
        return self._collate(samples * GHOST if doubled else samples)
