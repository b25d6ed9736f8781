"""Batches of which no step is made: the loop gets them so that what the program counts is right, or
so that what follows the loop has a batch and a loss.

    of an epoch that is passed over    one, or as many as a step has
    made before, once more (again.py)  all of them, of few samples
    of a step that was not made        those that a process before this one has done of it
    behind the run's end               one, or what the program's count lacks
"""

import contextlib
import sys

from ...run import asked_by_call
from ...stream import GHOST


class Spare:
    def __init__(self, given, stream, length, streams):
        """length: batches of an epoch; streams: the data set is iterable."""
        self.given, self.stream, self.run = given, stream, stream.run
        self.ahead, self.place = stream.steps.ahead, stream.steps.place
        self.length, self.streams = length, streams

    def batch(self, samples):
        data = self.given.dataset
        if self.streams:
            batch = next(iter(self.given))
        else:
            batch = self.given.collate_fn([data[i] for i in range(min(samples, len(data)))])
        yield self.ahead.spare(batch)
        self.ahead.spare_ends()

    def whole_batch(self):
        """A batch of as many samples as the program's own."""
        return self.batch(self.given.batch_size or self.run.global_batch)

    def passed_over(self, batches=1):
        """The batches of an epoch in which this process makes no step: one, or as many as a step
        has, so that a count over all epochs is right."""
        kept = contextlib.ExitStack()
        kept.enter_context(self.stream.steps.blocks.kept())
        kept.enter_context(self.place.others_kept())
        try:
            for _ in range(batches):
                yield from self.batch(GHOST)
        finally:
            self.ahead.when_used(kept.close)
            self.ahead.loop_ends()

    def of_passed_epoch(self, by_call):
        """A loop that ignores the restart begins, and its epoch was made before."""
        self.ahead.reopen()
        try:
            yield from self.passed_over(self.place.rhythm.each)
        except GeneratorExit:
            self.run.loops.passes_back(by_call)  # a look; a prefetcher asks by next() until the end
            raise

    def of_unmade_step(self):
        """Batches that an earlier process has done, of a step that it had not made."""
        self.place.enter_epoch()
        if self.place.passed() and not self.stream.steps.batches:
            self.run.say(
                "epoch %d goes on after the first %d of its %d batches, so enumerate(loader) "
                "counts those that are left, as len(loader) does where it is asked for in this "
                "epoch: a rate that the program computes by such a counter differs from that of "
                "the program alone until the epoch ends, and a loop over range(steps) makes as "
                "many more; a schedule has the right one, and another loader begins anew, but for "
                "that of zip(loader, other)"
                % (self.stream.epoch + 1, self.place.passed(), self.length)
            )
        while self.place.replays:
            self.place.replays -= 1
            yield from self.batch(GHOST)

    def once_again(self, by_call):
        """Repeats batches that were made before, up to the end of an epoch. False: the loop
        continues with the run's batches."""
        again = self.place.again
        while again.at < again.to:
            again.give()
            yield from self.batch(again.rows(GHOST))
            if not again.takes_on():
                return self._pass_the_rest(again, by_call)
            if again.at % self.length == 0 and not (again.at == again.to and self.stream.at_end()):
                again.restore()
                return True
        again.end(complete=True)
        self.run.loops.goes_on_where_it_is()
        if not self.stream.at_end():
            return False
        self.stream.reopen()
        self.stream.begin()  # closes the epoch, which the previous process did not
        return True

    def _pass_the_rest(self, again, by_call):
        again.end(complete=False)
        if again.at < self.run.epoch * self.length:  # in an epoch that is passed over
            return not by_call
        self.run.loops.goes_on_where_it_is()
        return False

    def behind_end(self):
        """No loop has a step any more. `next(iter(loader))` still gets a batch to look at, and so
        does the last of evenstep.steps(). Under a server a faster node's program may have ended the
        run, so a loop gets one batch, because code after it may need its loss. A restarted program
        that counts its steps itself gets the batches that its count lacks, so that code after them
        runs."""
        if self.run.loops.lacks and not self.place.in_steps:
            yield from self.passed_over()
        elif self.place.in_steps or asked_by_call(sys._getframe(1)):
            yield from self.whole_batch()
        elif not self.stream.in_step:
            yield from self.passed_over()
