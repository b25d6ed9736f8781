"""A process that was started again repeats the batches that the run has made, without their steps,
so that whatever its program counts is right.

    batch        0   1   2 │ 3   4   5 │ 6 ✗            three an epoch; a process ends in batch 6
    the next     s   s   s │ s   s   s │ 6   7   8      s: two samples, of which no step is made

A program may count by itself: `step += 1`, `for i, x in enumerate(loader)`, a loop over
`range(steps)`, a schedule of another library. Such a count decides learning rates, weights of
losses and where a loop ends, and nobody else knows it. After the repeated batches, parameters,
running statistics and everything else that prepare() was given are what they were before.

The other nodes wait meanwhile. So the time of the first few batches decides whether all of them are
repeated. Where all programs begin anew (after a pause, from a checkpoint) the times of other nodes
are not known, and the number of batches decides. If it would take too long, nothing is repeated:
loops skip the epochs that were made, and go on within the current epoch. Under a server nothing is
repeated either, because each node has made another number of batches.
"""

import contextlib
from time import perf_counter

SECONDS_MOST = 20.0  # without the first batch, which is not measured
TRIED = 3  # batches
BATCHES_MOST = 1000  # if all programs start again


class Again:
    def __init__(self, run, place):
        self.run, self.place = run, place
        self.may = bool(run.resumed)
        self.all_anew = not run.restarted
        self.at = self.to = 0  # batches of the run: repeated so far; made
        self._epoch = -1  # the current epoch, once its loop has repeated all batches made of it
        self._kept = contextlib.ExitStack()
        self._passes = None  # passes over spare batches when the last one was given
        self._tried = self._began = 0  # batches repeated, and when the second one began

    def leave_out(self):
        """Repeats nothing: the program, or the library that makes its loop, handles restarts."""
        self.may = False

    def covers(self, epoch):
        return epoch == self._epoch

    # ---- a loop

    def begins(self):
        """A loop over batches begins. Returns whether it first repeats some."""
        if not self.may or not (self.to or self._find()):
            return False
        self.run.loops.check_passing()
        passed = self._passes is not None and self._passes != self.place.passes.spare.passes
        if passed and self.place.passes.ahead.lag != 1:
            self.at += 1  # the previous loop was left after a pass
        self._passes = None
        if not self.run.loops.passing:  # the program's loops begin in the run's epoch
            self.at = max(self.at, self.run.epoch * self.place.length)
        self._kept.close()
        self._kept.enter_context(self.place.passes.blocks.kept())
        self._kept.enter_context(self.place.others_kept())
        return True

    def _find(self):
        """Finds where the run stands. Returns whether there is something to repeat."""
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
        """Puts back what was kept, for what the program does between loops."""
        self.place.passes.ahead.when_used(self._kept.close)

    def rows(self, least):
        """Samples of the next repeated batch. In the current epoch it has as many as the next real
        one, since a program may keep something of that size from batch to batch; not if sizes have
        varied before."""
        piece, passes = self.place.stream.coming(), self.place.passes
        is_earlier = self.at // self.place.length < piece.epoch
        return least if passes.varies or is_earlier else max(least, piece.count)

    def give(self):
        """The loop receives a repeated batch."""
        self._passes = self.place.passes.spare.passes

    def takes_on(self):
        """The loop asks for the next batch. False: the rest is not repeated, because it would take
        too long."""
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
        """complete: all were repeated; else the rest is left out."""
        self.restore()
        self.may = self.run.loops.repeats = False
        length = self.place.length
        if complete:
            self._epoch, self.run.loops.lacks = self.to // length, 0
            self.place.rhythm.counts_right()
        self.run.loops.has_repeated(-(-self.at // length))
