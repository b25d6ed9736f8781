"""Batches that the run has made, once more: a process that was started again goes through them
without a step, so that whatever its program counts is right.

    batch        0   1   2 │ 3   4   5 │ 6 ✗            three an epoch; a process ends in batch 6
    the next     s   s   s │ s   s   s │ 6   7   8      s: two samples, of which no step is made

A counter of the program's own (`step += 1`, `for i, x in enumerate(loader)`, a loop over
`range(steps)`, a schedule of another library) decides rates, weights of losses, and where a loop
ends, and nobody else knows it. Parameters, running statistics and what else prepare() was given are
afterwards what they were.

The others wait meanwhile, so the first batches tell how long all of them would take. Where all
programs begin anew (after a pause, from a checkpoint), no one knows how long the others would take,
so a number of batches decides. Where it is too long or they are too many, loops pass over the
epochs that were made, and go on within the run's epoch behind what was made of it; so they do under
a server, where each node has a number of batches of its own.
"""

import contextlib
from time import perf_counter

SECONDS_MOST = 20.0  # of which the first batch is not measured
TRIED = 3  # batches
BATCHES_MOST = 1000  # where all programs begin anew


class Again:
    def __init__(self, run, place):
        self.run, self.place = run, place
        self.may = bool(run.resumed)
        self.all_anew = not run.restarted
        self.at = self.to = 0  # batches of the run: gone through, made
        self._epoch = -1  # the run's, whose loop has gone through all that was made of it
        self._kept = contextlib.ExitStack()
        self._passes = None  # over spare batches, as the last one was given
        self._tried = self._began = 0

    def leave_out(self):
        """The program knows of restarts, or a library does that makes its loop."""
        self.may = False

    def covers(self, epoch):
        return epoch == self._epoch

    # ---- a loop

    def begins(self):
        """A loop over batches begins. True: it goes through some once more, first of all."""
        if not self.may or not (self.to or self._find()):
            return False
        self.run.loops.check_passing()
        passed = self._passes is not None and self._passes != self.place.passes.spare.passes
        if passed and self.place.passes.ahead.lag != 1:
            self.at += 1  # the loop before was left behind a pass
        self._passes = None
        if not self.run.loops.passing:  # the program's loops begin in the run's epoch
            self.at = max(self.at, self.run.epoch * self.place.length)
        self._kept.close()
        self._kept.enter_context(self.place.passes.blocks.kept())
        self._kept.enter_context(self.place.others_kept())
        return True

    def _find(self):
        """Where the run is."""
        length, epoch = self.place.length, self.run.loops.repeats_from()
        piece = self.place.stream.coming()
        self.may = bool(length and piece is not None and piece.step_count)
        if self.may:
            self.at, self.to = epoch * length, self.place.index(piece)
            self.may = self.at < self.to
        if self.may and self.all_anew and self.to - self.at > BATCHES_MOST:
            self._tell(
                "its loops do not go through the %d batches that it has made, so what the program "
                "counts itself (steps, batches over several epochs) begins at 0: prepare() takes a "
                "dict of such counts, too, and `for step in evenstep.steps(n)` goes on" % self.to
            )
            self.may = False
        self.run.loops.repeats = self.may
        return self.may

    def restore(self):
        """What stands between loops sees what was there before them."""
        self.place.passes.ahead.when_used(self._kept.close)

    def rows(self, least):
        """Samples of the next batch. What a program keeps from batch to batch of an epoch may be of
        as many rows as the batch, unless it has met others before."""
        piece, passes = self.place.stream.coming(), self.place.passes
        is_earlier = self.at // self.place.length < piece.epoch
        return least if passes.varies or is_earlier else max(least, piece.count)

    def give(self):
        """The loop gets a batch."""
        self._passes = self.place.passes.spare.passes

    def takes_on(self):
        """The loop asks for the next one. False: all of them would take too long."""
        self._passes = None
        self.at += 1
        self._tried += 1
        if self._tried == 1:
            self._began = perf_counter()
        if self._tried < TRIED or (self.all_anew and self._tried > TRIED):
            return True
        took = perf_counter() - self._began
        takes = took + took / (self._tried - 1) * (self.to - self.at)
        if not self.all_anew and takes > SECONDS_MOST * (1 if self._tried == TRIED else 2):
            self._tell(
                "its loops do not go through the %d batches that the run has made, which would "
                "take %.0f s, so what it counts itself is behind: prepare() takes a dict of such "
                "counts, too" % (self.to, takes)
            )
            return False
        if self._tried == TRIED:
            self._tell(
                "its loops go through the %d batches that the run has made once more, of few "
                "samples and without a step, so that what it counts itself is right (about %.0f s)"
                % (self.to, takes)
            )
        return True

    def _tell(self, what):
        if not self.all_anew:
            self.run.say("this program was started again: " + what)
        elif self.run.rank == 0:
            self.run.say("the run goes on: " + what)

    # ---- its end

    def end(self, complete):
        """All were gone through, or the rest of them is left out."""
        self.restore()
        self.may = self.run.loops.repeats = False
        length = self.place.length
        if complete:
            self._epoch, self.run.loops.lacks = self.to // length, 0
            self.place.rhythm.counts_right()
        self.run.loops.has_repeated(-(-self.at // length))
