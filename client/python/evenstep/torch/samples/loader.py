"""The training loader over the stream of slices.

`batch_size` is the global batch: a DataLoader is made anew with the same data set, collate_fn and
workers, and a batch sampler that yields what the rank hands to this node. The loop begins a slice
before it loads the batch, so that loading counts as part of the step where nothing prefetches it.

    rank ─► Stream ─► SliceSampler ─► DataLoader (workers × prefetch_factor ahead) ─► the loop
"""

import contextlib
import copy
import sys
from time import perf_counter

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset
from torch.utils.data import RandomSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from ...run import Error, asked_by_call
from ...stream import GHOST
from .batches import row_of
from .order import numbers_of, order_of

# what a DataLoader is made of, beside its sampler
KEPT = "collate_fn pin_memory timeout worker_init_fn multiprocessing_context generator".split()
KEPT += "persistent_workers pin_memory_device in_order".split()


CHANGED = (
    "the program has changed '%s' of the sampler %s since it drew the last order. Each node draws "
    "the order itself, so the change is to be the same on each: by losses of a node's own samples, "
    "the nodes' orders differ, and samples are left out while others come twice"
)


def _prefetches(loader):
    return loader.num_workers * (loader.prefetch_factor or 2) if loader.num_workers else 0


def _sampler(loader):
    """The global batch, and what samples it comes from."""
    batches = loader.batch_sampler
    if batches is None:
        raise Error(
            "the loader makes no batches (batch_size=None): give it a batch_size, which is the "
            "global batch"
        )
    if type(batches) is not BatchSampler:
        row = row_of(loader)
        return row.size, row
    if isinstance(batches.sampler, DistributedSampler):
        raise Error(
            "the loader has a DistributedSampler, which shares the samples out among ranks: the "
            "service does that, so leave it out and give shuffle=True (a program that is written "
            "for DistributedDataParallel runs by `evenstep run --ddp`)"
        )
    return batches.batch_size, batches.sampler


def _is_permutation(sampler):
    """Each sample of the data set once, in any order: the service draws it."""
    plain = type(sampler) is RandomSampler and not sampler.replacement
    return plain and sampler.num_samples == len(sampler.data_source)


def _drops_last(loader):
    """Another batch sampler has dropped what it drops."""
    batches = loader.batch_sampler
    if batches is None or type(batches) is BatchSampler:
        return bool(getattr(batches, "drop_last", loader.drop_last))
    return False


def _refuse_class(loader):
    raise Error(
        "the loader's class %s loads batches in a way of its own, which the loader that takes its "
        "place would not: give a plain DataLoader, and do the rest in the loop or in collate_fn"
        % type(loader).__name__
    )


def about_loader(loader, shard, samples):
    """What the rank is told of the data; see evenstep.h's struct es_about."""
    about = {"ahead": _prefetches(loader) + 1}
    if type(loader)._get_iterator is not DataLoader._get_iterator:
        _refuse_class(loader)
    if isinstance(loader.dataset, IterableDataset):
        if shard is None:
            raise Error(
                "the data set is iterable: prepare(…, shard=function) says which part of it a rank "
                "reads: function(dataset, rank, world_size) gives an iterable"
            )
        if not loader.batch_size:
            raise Error("the loader needs a batch_size: it is the global batch")
        known = samples or (len(loader.dataset) if hasattr(loader.dataset, "__len__") else 0)
        if not known:
            raise Error(
                "the data set is iterable and has no length: prepare(…, samples=n) says how many "
                "samples an epoch has"
            )
        about.update(samples=known, global_batch=loader.batch_size, in_order=1)
    else:
        batch, sampler = _sampler(loader)
        about.update(samples=len(sampler), global_batch=batch)
        about["in_order"] = int(not _is_permutation(sampler))
    about["drop_last"] = int(_drops_last(loader))
    return about


class SliceSampler:
    """Yields the indices of slices; positions in an order of the user's sampler, if there is
    one."""

    def __init__(self, stream, sampler, length):
        self.stream, self.length = stream, length
        plain = _is_permutation(sampler) or type(sampler) is SequentialSampler
        self.sampler = None if plain else sampler
        self._epoch = self._order = None
        self._told = set()
        self._left = {}  # what the sampler draws by, as an epoch's order has left it
        self._last = [0]

    def __len__(self):
        return self.length

    def __iter__(self):
        while (piece := self.stream.take()) is not None:
            indices = piece.indices
            if self.sampler is not None:
                order = self._order_of(piece.epoch)
                indices = [order[i] for i in indices]
            if indices:
                self._last = indices
            few = not indices or (len(indices) == 1 and self.stream.steps.weight.doubles)
            yield (self._last * GHOST)[:GHOST] if few else indices

    def _order_of(self, epoch):
        if epoch != self._epoch:
            self._look_for_changes()
            self._order, self._epoch = order_of(self.sampler, self.stream.run.seed, epoch), epoch
            self._left = numbers_of(self.sampler)
        return self._order

    def _look_for_changes(self):
        now, run = numbers_of(self.sampler), self.stream.run
        changed = [name for name in self._left if now.get(name) != self._left[name]]
        if changed and run.workers > 1 and CHANGED not in self._told:
            self._told.add(CHANGED)
            run.say(CHANGED % (changed[0], type(self.sampler).__name__))


class _Shard(IterableDataset):
    """The rank's part of an iterable data set, without end."""

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


class Loader:
    """In place of the user's DataLoader; what it does not have itself is that one's."""

    def __init__(self, given, stream, shard, samples):
        self.samples = samples  # in an epoch; 0: nobody knows
        self.whole = False  # its length is that of an epoch, also where the run goes on within one
        self.given, self.stream, self.run = given, stream, stream.run
        self.ahead = stream.steps.ahead
        self._collate = None
        self._left = None  # the last slice of a loop that was left early
        self._told_left = False
        workers, prefetch = self._granted(given)
        # an iterator draws a seed for workers when it is made; taken from the program's own random
        # numbers, a run that goes on within an epoch would have drawn one more than one that did
        # not
        self._generator = None if given.generator else torch.Generator()
        arguments = {name: getattr(given, name) for name in KEPT if hasattr(given, name)}
        arguments.update(num_workers=workers, prefetch_factor=prefetch)
        arguments["generator"] = given.generator or self._generator
        if not workers:
            arguments.update(persistent_workers=False, timeout=0, multiprocessing_context=None)
        if isinstance(given.dataset, IterableDataset):
            self._collate = arguments.pop("collate_fn")
            stream.steps.place.again.leave_out()
            data = _Shard(given.dataset, shard, self.run.rank, self.run.workers)
            self.inner = DataLoader(data, batch_size=None, collate_fn=_same, **arguments)
            self._samples = None
        else:
            sampler = SliceSampler(stream, _sampler(given)[1], self.of_an_epoch())
            self.inner = DataLoader(given.dataset, batch_sampler=sampler, **arguments)

    def _granted(self, given):
        """Workers and batches ahead of each, of the slices that the rank gives ahead."""
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

    def __len__(self):
        if not self.samples:
            return len(self.given)
        whole = self.whole or self.stream.steps.place.in_schedule
        return self.of_an_epoch() - (0 if whole else self.passed())

    def passed(self):
        """Batches of the epoch that a process before this one has done."""
        place = self.stream.steps.place
        if place.again.may:
            return 0
        asks = self.run.resumed and not self.run.on_start and not place.has_entered()
        if asks and self.stream.coming():  # not within a loop, whose next slice may be far
            place.enter_epoch()
        return place.passed()

    def of_an_epoch(self):
        batch = self.run.global_batch
        return self.samples // batch if _drops_last(self.given) else -(-self.samples // batch)

    @property
    def __class__(self):
        """isinstance(loader, DataLoader), which programs ask, stays true."""
        return type(self.given)

    def __getattr__(self, name):
        return getattr(self.__dict__["given"], name)

    def __iter__(self):
        if not torch.is_grad_enabled():
            self.ahead.evaluates()
            return iter(self.given)  # an evaluation of the training data: no step is made of it
        behind = self.run.loops.passing or self.stream.steps.place.again.may
        batches = self._going_on() if behind else self._batches()
        self.stream.steps.place.zipped.opens(sys._getframe(1), self.stream.epoch)
        plain = type(self.given).__iter__ is DataLoader.__iter__
        return batches if plain else self._as_given(batches)

    def _as_given(self, batches):
        """A class of the program's own may do more with batches: it gets these ones where it asks
        DataLoader.__iter__."""
        loader, asked = copy.copy(self.given), []
        loader.num_workers = 0
        loader._get_iterator = lambda: asked.append(True) or batches
        for batch in type(loader).__iter__(loader):
            if not asked:
                _refuse_class(loader)
            yield batch

    def _going_on(self):
        """After a restart. A loop goes through what was made before once more (again.py), or passes
        over it: then it has one batch, without a step, since what follows it may need its loss.
        `next(iter(loader))` is a look at a batch, or a loop over steps, which knows no epochs."""
        by_call = asked_by_call(sys._getframe(1))
        if self.stream.steps.place.again.begins():
            self.ahead.reopen()
            if (yield from self._once_again(by_call)):
                self.ahead.loop_ends()
                return
            self.stream.reopen()
            yield from self._of_this_loop()
        elif not (by_call and self.ahead.usual != 1) and self.run.loops.passes_over():
            self.ahead.reopen()
            try:
                yield from self._passed_over(self.stream.steps.place.rhythm.each)
            except GeneratorExit:
                # a look; a prefetcher asks by next() until the end
                self.run.loops.passes_back(by_call)
                raise
        else:
            yield from self._batches()

    def _once_again(self, by_call):
        """Batches that were made before, up to the end of an epoch. False: the loop goes on with
        the run's."""
        again, length = self.stream.steps.place.again, self.of_an_epoch()
        while again.at < again.to:
            again.give()
            yield from self._spare(again.rows(GHOST))
            if not again.takes_on():
                return self._pass_the_rest(again, by_call)
            if again.at % length == 0 and not (again.at == again.to and self.stream.at_end()):
                again.restore()
                return True
        again.end(complete=True)
        self.run.loops.goes_on_where_it_is()
        if not self.stream.at_end():
            return False
        self.stream.reopen()
        self.stream.begin()  # closes the epoch, which the process before this one did not
        return True

    def _pass_the_rest(self, again, by_call):
        again.end(complete=False)
        if again.at < self.run.epoch * self.of_an_epoch():  # in an epoch that is passed over
            return not by_call
        self.run.loops.goes_on_where_it_is()
        return False

    def _check_samples(self):
        now = len(_sampler(self.given)[1]) if self.samples and not self._collate else self.samples
        if now != self.samples:
            raise Error(
                "the loader had %d samples at prepare() and has %d now: in one run each epoch has "
                "as many. Give prepare() the whole data set, or take a job for each size, which "
                "loads what the one before has saved" % (self.samples, now)
            )

    def _batches(self):
        self._check_samples()
        self.run.ensure_started()
        if self.ahead.reopen() and self.stream.at_end():  # a step is due of the batch in hand
            return self._spare(self.given.batch_size or self.run.global_batch)
        return self._of_this_loop()

    def _of_this_loop(self):
        if self.stream.is_over():
            if not self.stream.steps.place.in_steps:
                self.run.loops.tell_over()
            return self._behind_end()
        return self._streamed() if self._collate else self._sampled()

    def _behind_end(self):
        """No loop has a step any more. `next(iter(loader))` has a batch to look at, and so has the
        last of evenstep.steps(). Under a server a faster node's program may have ended the run, so
        a loop has one, since what follows it may need its loss. One that was started again and
        counts its steps itself gets what its count lacks, so that what follows it is done."""
        if self.run.loops.lacks and not self.stream.steps.place.in_steps:
            yield from self._passed_over()
        elif self.stream.steps.place.in_steps or asked_by_call(sys._getframe(1)):
            yield from self._spare(self.given.batch_size or self.run.global_batch)
        elif not self.stream.in_step:
            yield from self._passed_over()

    def _passed_over(self, batches=1):
        """The batches of an epoch in which this process makes no step: one, or as many as a step
        has, so that a count of these over all epochs is right."""
        kept = contextlib.ExitStack()
        kept.enter_context(self.stream.steps.blocks.kept())
        kept.enter_context(self.stream.steps.place.others_kept())
        try:
            for _ in range(batches):
                yield from self._spare(GHOST)
        finally:
            self.ahead.when_used(kept.close)
            self.ahead.loop_ends()

    def _spare(self, samples):
        """A batch that no step is made of."""
        data = self.given.dataset
        if self._collate:
            batch = next(iter(self.given))
        else:
            batch = self.given.collate_fn([data[i] for i in range(min(samples, len(data)))])
        yield self.ahead.spare(batch)
        self.ahead.spare_ends()

    def _loop_begins(self, piece, by_call):
        """Alone each loop begins an epoch; here one that is left early goes on in it."""
        left, self._left = self._left, None
        goes_on = piece is not None and left is not None and piece.epoch == left.epoch
        goes_on = goes_on and piece is not left and not self.run.loops.passing  # that was a look
        if goes_on and not by_call and not self._told_left and not self.stream.steps.place.in_steps:
            self._told_left = True
            self.run.say(
                "a loop over the loader was left before epoch %d was over, and this one goes on in "
                "it with the samples that are left: an epoch has each sample once, also where a "
                "search for a learning rate has had some of them" % piece.epoch
            )

    def _iterator(self, epoch):
        if self._generator:
            seed = self.run.seed + self.run.rank + (epoch << 20)
            self._generator.manual_seed(seed % 2**63)
        return iter(self.inner)

    def _once_more(self):
        """Batches that a process before this one has done, of a step that it had not made."""
        place = self.stream.steps.place
        place.enter_epoch()
        if place.passed() and not self.stream.steps.batches:
            self.run.say(
                "epoch %d goes on behind the first %d of its %d batches, so enumerate(loader) "
                "counts those that are left, as len(loader) does where it is asked for in this "
                "epoch: a rate that the program computes by such a counter differs from that of "
                "the program alone until the epoch ends, and a loop over range(steps) makes as "
                "many more; a schedule has the right one, and another loader begins anew, but for "
                "that of zip(loader, other)"
                % (self.stream.epoch + 1, place.passed(), self.of_an_epoch())
            )
        while place.replays:
            place.replays -= 1
            yield from self._spare(GHOST)

    def _sampled(self):
        by_call = asked_by_call(sys._getframe(1))
        yield from self._once_more()
        piece, batches = self.ahead.next(), None
        self._loop_begins(piece, by_call)
        if piece is None and not self.run.over:
            if self.run.loops.passing:  # a look, and the process before this one ended the epoch
                self.run.epoch = self.stream.epoch
                piece = self.ahead.next()
            else:
                # a server's other nodes had all of the epoch, or the process before this one; what
                # follows a loop may need its last batch or loss
                yield from self._passed_over()
        if piece is not None:
            self.stream.steps.place.zipped.begins(piece)
        while piece is not None:
            began = perf_counter()
            self.stream.steps.draws.step_begins(piece)
            if batches is None:
                batches = self._iterator(piece.epoch)
            batch = next(batches)
            self._left = piece
            yield self.ahead.given(batch, perf_counter() - began)
            piece = self.ahead.next()
        self._left = None

    def _streamed(self):
        yield from self._once_more()
        if self._samples is None:
            self._samples = self._iterator(0)
        while (piece := self.ahead.next()) is not None:
            began = perf_counter()
            self.stream.steps.draws.step_begins(piece)
            samples = [next(self._samples) for _ in range(piece.count or GHOST)]
            doubled = len(samples) == 1 and self.stream.steps.weight.doubles
            batch = self._collate(samples * GHOST if doubled else samples)
            yield self.ahead.given(batch, perf_counter() - began)
