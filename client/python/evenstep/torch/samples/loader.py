"""The training loader over the stream of slices.

`batch_size` is the global batch. A loop gets what the rank hands to this node (load.py), behind
batches of which no step is made (spare.py). It begins a slice before it loads the batch, so that
loading counts as part of the step where nothing prefetches it.
"""

import copy
import sys
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from ...run import Error, asked_by_call
from .about import drops_last, is_stateful, refuse_class, sampler_of
from .load import Load
from .spare import Spare


class Loader:
    """Replaces the user's DataLoader, and passes on to it what it does not have itself."""

    def __init__(self, given, stream, shard, samples):
        self.samples = samples  # in an epoch; 0: unknown
        self.whole = False  # its length is that of an epoch, also where the run goes on within one
        self.given, self.stream, self.run = given, stream, stream.run
        self.ahead, self._place = stream.steps.ahead, stream.steps.place
        self._left = None  # the last slice of a loop that was left early
        self._told_left = False
        self._load = Load(given, stream, shard, self.of_an_epoch())
        self._spare = Spare(given, stream, self.of_an_epoch(), self._load.streams)

    def __len__(self):
        if not self.samples:
            return len(self.given)
        whole = self.whole or self._place.in_schedule
        return self.of_an_epoch() - (0 if whole else self.passed())

    def passed(self):
        """Batches of the epoch that an earlier process has made."""
        if self._place.again.may:
            return 0
        asks = self.run.resumed and not self.run.on_start and not self._place.has_entered()
        if asks and self.stream.coming():  # not within a loop, whose next slice may be far away
            self._place.enter_epoch()
        return self._place.passed()

    def of_an_epoch(self):
        batch = self.run.global_batch
        return self.samples // batch if drops_last(self.given) else -(-self.samples // batch)

    @property
    def __class__(self):
        """Keeps isinstance(loader, DataLoader) true, which programs ask."""
        return type(self.given)

    def __getattr__(self, name):
        given = self.__dict__["given"]
        given = getattr(given, "_evenstep_given", given)  # whole.py
        if is_stateful(given) and name in ("state_dict", "load_state_dict"):
            return lambda *_: {}  # the run keeps the place
        return getattr(given, name)

    # ---- a loop; frames tell who asks for it, so the depth of generators matters

    def __iter__(self):
        if not torch.is_grad_enabled():
            self.ahead.evaluates()
            return iter(self.given)  # an evaluation of the training data, without a step
        behind = self.run.loops.passing or self._place.again.may
        batches = self._going_on() if behind else self._batches()
        self._place.zipped.opens(sys._getframe(1), self.stream.epoch)
        plain = type(self.given).__iter__ is DataLoader.__iter__
        return batches if plain or is_stateful(self.given) else self._as_given(batches)

    def _as_given(self, batches):
        """Passes these batches to a class of the program's own, which asks DataLoader.__iter__ and
        may do more with them."""
        loader, asked = copy.copy(self.given), []
        loader.num_workers = 0
        loader._get_iterator = lambda: asked.append(True) or batches
        for batch in type(loader).__iter__(loader):
            if not asked:
                refuse_class(loader)
            yield batch

    def _going_on(self):
        """After a restart. A loop repeats what was made before (again.py), or passes over it: then
        it gets one batch without a step, because code after it may need its loss.
        `next(iter(loader))` only looks at a batch, or belongs to a loop over steps, which knows no
        epochs."""
        by_call = asked_by_call(sys._getframe(1))
        if self._place.again.begins():
            self.ahead.reopen()
            if (yield from self._spare.once_again(by_call)):
                self.ahead.loop_ends()
                return
            self.stream.reopen()
            yield from self._of_this_loop()
        elif not (by_call and self.ahead.manner.lag != 1) and self.run.loops.passes_over():
            yield from self._spare.of_passed_epoch(by_call)
        else:
            yield from self._batches()

    def _batches(self):
        self._check_samples()
        self.run.ensure_started()
        if self.ahead.reopen() and self.stream.at_end():  # a step of the current batch is due
            return self._spare.whole_batch()
        return self._of_this_loop()

    def _check_samples(self):
        known = self.samples and not self._load.streams
        now = len(sampler_of(self.given)[1]) if known else self.samples
        if now != self.samples:
            raise Error(
                "the loader had %d samples at prepare() and has %d now: in one run each epoch has "
                "as many. Give prepare() the whole data set, or take a job for each size, which "
                "loads what the one before has saved" % (self.samples, now)
            )

    def _of_this_loop(self):
        if self.stream.is_over():
            if not self._place.in_steps:
                self.run.loops.tell_over()
            return self._spare.behind_end()
        return self._streamed() if self._load.streams else self._sampled()

    def _tell_if_left(self, piece, by_call):
        """Alone, each loop begins an epoch; here, a loop after one that was left early continues
        its epoch."""
        left, self._left = self._left, None
        goes_on = piece is not None and left is not None and piece.epoch == left.epoch
        looked = piece is left or self.run.loops.passing
        if not goes_on or looked or by_call or self._told_left or self._place.in_steps:
            return
        self._told_left = True
        self.run.say(
            "a loop over the loader was left before epoch %d was over, and this one goes on in "
            "it with the samples that are left: an epoch has each sample once, also where a "
            "search for a learning rate has had some of them" % piece.epoch
        )

    def _sampled(self):
        by_call = asked_by_call(sys._getframe(1))
        yield from self._spare.of_unmade_step()
        piece, batches = self.ahead.next(), None
        self._tell_if_left(piece, by_call)
        if piece is None and not self.run.over:
            if self.run.loops.passing:  # only a look, and the previous process ended the epoch
                self.run.epoch = self.stream.epoch
                piece = self.ahead.next()
            else:
                # other nodes of a server, or the previous process, had the whole epoch; code after
                # a loop may need its last batch or loss
                yield from self._spare.passed_over()
        if piece is not None:
            self._place.zipped.begins(piece)
        while piece is not None:
            began = perf_counter()
            self.stream.steps.draws.step_begins(piece)
            if batches is None:
                batches = self._load.batches(piece.epoch)
            batch = next(batches)
            self._left = piece
            yield self.ahead.given(batch, perf_counter() - began)
            piece = self.ahead.next()
        self._left = None

    def _streamed(self):
        yield from self._spare.of_unmade_step()
        self._load.open()
        while (piece := self.ahead.next()) is not None:
            began = perf_counter()
            self.stream.steps.draws.step_begins(piece)
            batch = self._load.streamed(piece)
            yield self.ahead.given(batch, perf_counter() - began)
