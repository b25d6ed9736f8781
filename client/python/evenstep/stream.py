"""Which samples come next: slices from the rank, taken ahead as far as a loader prefetches.

    es_next ─┬─► to sample ──► the loader's batch sampler
             └─► to begin  ──► the loop, one at a time

A slice is sampled when the loader loads its batch, and begins when the loop takes that batch. A
loop that is left early leaves slices that were sampled and have not begun. The next loop samples
them again, so no sample is lost. A slice keeps its size when the balancer changes the minibatch.

`steps` is the framework's part of a step, with these functions:
    finish_step()       ends the current slice
    begin_slice(piece)  begins the next one
    hand_over()         copies what the program has changed to the block
    take_over()         copies what the rank has changed from the block
    untouched()         the current slice, if no backward pass was made over it (for reopen())
"""

import sys
from collections import deque

from .run import asked_by_call

GHOST = 2  # samples of a batch without weight, or of a single sample: batch norm needs more


class Stream:
    def __init__(self, run, steps):
        self.run, self.steps = run, steps
        self.epoch = run.epoch
        self._to_sample, self._to_begin = deque(), deque()
        self._taken = 0  # how many slices of _to_begin the loop has taken ahead (take_ahead)
        self._gave_last = False  # the loop has taken the epoch's last slice
        self._last_sampled = False  # the epoch's last slice was sampled
        self._over = None  # the epoch whose last slice has begun; None: none is ending
        self.on_begin = None  # called once, when the first slice has begun
        self._looked_at = None  # a slice that began in a loop without a pass over it
        self.in_step = True  # all nodes make the same steps; False: under a server

    def _fetch(self):
        piece = self.run.next()
        if piece:
            self._to_sample.append(piece)
            self._to_begin.append(piece)
        return piece is not None

    def _first(self, queue):
        return queue[0] if queue or self._fetch() else None

    def reopen(self):
        """A new loop over the loader begins. A batch over which the previous loop made no pass
        comes again."""
        piece = self.steps.untouched()
        if piece is not None:
            if piece is not self._looked_at:
                self._to_begin.appendleft(piece)
            self._looked_at, self._over = piece, None
        else:
            self.steps.finish_step()
            self.close_epoch_if_over()
        self.begin_loop()

    def begin_loop(self):
        """Makes the stream sample slices that have not begun again, and take those taken ahead
        again."""
        self._sample_again()
        self._gave_last = False
        self._taken = 0

    def _sample_again(self):
        self._to_sample = deque(self._to_begin)
        self._last_sampled = False

    def take(self):
        """Returns the next slice to load; None: the epoch has no more."""
        piece = None if self._last_sampled else self._first(self._to_sample)
        if piece is None or piece.number < 0:
            return None
        self._last_sampled = piece.epoch_last
        return self._to_sample.popleft()

    def begin(self):
        """Begins the next slice and returns it; None: the epoch is over, or the job."""
        if self._looked_at is None:
            self.steps.finish_step()  # the next slice may only come after it
        if self._over is None:
            piece = self._first(self._to_begin)
            if piece is None:
                return None
            begun = piece is self._looked_at
            if piece.number >= 0 and not begun and not self.steps.begin_slice(piece):
                return None
            self._looked_at = None
            self._has_begun(piece)
            self._gave_last = piece.epoch_last
            if piece.number >= 0:
                return piece
        self._close_epoch()
        return None

    def _has_begun(self, piece):
        if self.on_begin and piece.number >= 0:
            self.on_begin()
            self.on_begin = None
        self._to_begin.popleft()
        self.epoch = piece.epoch
        if piece.epoch_last:
            self._over = piece.epoch
        if piece.number >= 0:
            self.in_step = bool(piece.step_count)

    def take_ahead(self):
        """Returns the next slice of the epoch before it begins, which begin_taken() does later;
        None: there is none. The steps of all slices but the current one must be made, because the
        rank only sends so many slices ahead."""
        if self._gave_last or self.run.over:
            return None
        while len(self._to_begin) <= self._taken:
            if not self._fetch():
                return None
        piece = self._to_begin[self._taken]
        if piece.number < 0:
            return None
        self._taken += 1
        self._gave_last = piece.epoch_last
        return piece

    def begin_taken(self):
        """Begins the first slice that was taken ahead. False: the job was stopped."""
        self.steps.finish_step()
        self.close_epoch_if_over()  # the loop may be that of the next epoch already
        piece = self._to_begin[0]
        if not self.steps.begin_slice(piece):
            self._taken = 0
            return False
        self._taken -= 1
        self._has_begun(piece)
        return True

    def loop(self):
        """Yields the slices of an epoch, for the program's own loop."""
        by_call = asked_by_call(sys._getframe(2))
        if self.run.loops.passing and not by_call and self.run.loops.passes_over():
            return
        self.run.ensure_started()
        self.reopen()
        if self.is_over():
            self.run.loops.tell_over()
        while (piece := self.begin()) is not None:
            yield piece

    def first(self):
        """The slice that begins next, if it has arrived; None: it has not."""
        return self._to_begin[0] if self._to_begin else None

    def coming(self):
        """The slice that begins next; waits for it. None: there is none."""
        return self._first(self._to_begin)

    def at_end(self):
        """Has the epoch, or the job, no more slices? Then begin() closes it."""
        piece = self.coming()
        return piece is None or piece.number < 0

    def is_over(self):
        """Is the run's last epoch closed? Further slices would only say so."""
        piece = self.coming()
        return self.run.over or piece is None or (piece.number < 0 and piece.epoch < self.epoch)

    def is_ending(self):
        """Has the epoch's last slice begun, and is the epoch not closed yet?"""
        return self._over is not None

    def close_epoch_if_over(self):
        """If the epoch's last slice has begun, ends it and closes the epoch, so that an evaluation
        that follows sees averaged parameters. Returns whether it did."""
        if self._over is None:
            return False
        self._close_epoch()
        return True

    def close_loop(self):
        """A loop over steps has ended, within an epoch or with it. An evaluation that follows sees
        averaged parameters, too."""
        if not self.close_epoch_if_over() and not self.run.over:
            self._end(self.run.loop_end)

    def _end(self, told, *epoch):
        self.steps.finish_step()
        self.steps.hand_over()
        told(*epoch)
        self.steps.take_over()

    def _close_epoch(self):
        self._end(self.run.epoch_end, self._over)
        self.epoch, self._over = self._over + 1, None
        if not self._taken:  # else the next epoch's loop has begun
            self._sample_again()

    def close(self):
        """The program ends: closes its last slice and its epoch."""
        if self.run.on_start:
            return  # the program never asked for a batch
        self.close_epoch_if_over()
        self.steps.finish_step()
        self.steps.hand_over()
