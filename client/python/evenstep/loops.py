"""The program's loops over epochs, beside the epochs that the run has made.

    the run          epoch 0   1   2 │ 3   4        a process is started in epoch 3
    its loops              –   –   – │ 3   4        –: passed over, without a batch

A program that knows nothing of restarts begins with its first epoch. So its loops pass over those
that were made before, or go through their batches once more (torch/restart/again.py). One that
asks where the run is, by evenstep.epochs() or steps(), begins there.
"""

import math
import sys

from .library import Error

EMPTY_LOOPS_MOST = 10_000


class Loops:
    def __init__(self, run, library):
        self.run, self._library = run, library
        self.passing = run.epoch > 0  # loops pass over epochs that were made before
        self.passes_none = None  # a sentence: why no epoch may be passed over; or None
        self.reload = None  # called after loops have passed over epochs, if the run started before
        self.repeats = False  # the program repeats what an earlier process did
        self.lacks = run.step if run.restarted else 0  # steps its own count lacks
        self._passed = 0  # epochs that loops have passed over
        self._ended = 0  # epochs that this process has made
        self._open = True  # the program's loop says how many epochs there are
        self._empty = 0  # loops that began after the run's last epoch

    def epochs(self, n):
        """A loop makes n more epochs. Returns how many of them the run had made before this process
        began. If it had made all, the loop is passed over, and the run starts in a later loop."""
        behind = self._passed + self._ended
        if behind + n > 0:
            self._library.epochs_at_least(behind + n)
        self._open = False
        unmade = self.run.on_start or self.passing
        made = min(max(self.run.epoch - behind, 0), n) if unmade else 0
        self._passed += made
        if made < n:
            self.goes_on_where_it_is()
        elif made:
            self._start_behind()
        return made

    def tell_open(self):
        """Says, as the run starts, that the program has not told its number of epochs."""
        if self._open:
            self._library.epochs(math.inf)

    # ---- epochs that were made before

    def check_passing(self):
        """Checks that loops may pass over epochs: they begin before the run's epoch."""
        if self.passing and self.passes_none:
            raise Error(self.passes_none)

    def passes_over(self):
        """A loop begins over an epoch that was made before the restart, and gets no batch. So a
        loop that ignores the restart ends where it would have ended."""
        if not self.passing:
            return False
        self.check_passing()
        if self._passed == self.run.epoch:
            self._pass_no_more()
            return False
        if self._passed == 0:
            self._start_behind()
            self.run.say(
                "the run goes on in epoch %d, so the loop passes over %d without a batch: "
                "`for epoch in evenstep.epochs(n)` begins there"
                % (self.run.epoch + 1, self.run.epoch)
            )
        self._passed += 1
        return True

    def passes_back(self, looked):
        """The program left the loop that was passed over last. looked: it only looked at a
        batch."""
        self._passed -= looked

    def _start_behind(self):
        """Starts the run, so that code between or after skipped loops evaluates and saves the run's
        parameters, and not the program's first ones."""
        if self.reload:
            self.run.ensure_started()

    def _pass_no_more(self):
        if self.passing and not self.run.on_start and self.reload:
            self.reload()  # the program looked at a batch before the loops
        self.passing = False

    def goes_on_where_it_is(self):
        """The program handles restarts: its loops pass over nothing."""
        self._pass_no_more()
        self.run.ensure_started()

    def repeats_from(self):
        """Loops repeat the epochs that were made before. Returns the epoch in which they begin."""
        self.run.ensure_started()
        return self._passed if self.passing else self.run.epoch

    def has_repeated(self, epochs):
        """Loops have repeated this many epochs, the last one perhaps in part."""
        self._passed = max(self._passed, min(epochs, self.run.epoch))

    def is_behind(self):
        """Does the program now work on an epoch that was made before?"""
        return self.repeats or bool(self.passing and self._passed)

    # ---- epochs that are made

    def step_is_made(self):
        """The program has a step's gradients, wherever its loops are."""
        if self.passing and self._passed < self.run.epoch and not self.lacks:
            self.run.say(
                "the run goes on in epoch %d, and the program takes batches by next(), so a loop "
                "of its own over steps or epochs begins at 0 and makes as many more as the run "
                "had: `for step in evenstep.steps(n)` and `for epoch in evenstep.epochs(n)` go on "
                "where it is" % (self.run.epoch + 1)
            )
        self.passing = False

    def epoch_is_made(self):
        self._ended += 1

    # ---- after the last one

    def tell_over(self):
        """A loop begins after the run's last epoch, so it has no batch. A program that asks for
        batches until it gets some (`while True: for x in loader`) ends there."""
        self._empty += 1
        if self._empty > EMPTY_LOOPS_MOST + self.lacks:
            self.run.say(
                "the job is over, and the program asks for batches without end: it ends here"
            )
            sys.exit(0)
        if self.lacks and self._empty == 1:
            self.run.say(
                "the run is over, and the program asks for more: it was started again in step %d, "
                "so a loop that counts steps itself began at 0 there. It gets batches that no step "
                "is made of until it ends; `for step in evenstep.steps(n)` goes on with the run's "
                "count" % self.lacks
            )
        elif self._open and self.run.rank == 0:
            self._open = False
            self.run.say(
                "the job's epochs are over, and the program asks for more: `--set /epochs=N` says "
                "how many there are, unless the job was stopped or has reached its target"
            )

    def leave(self):
        """The program ends. If all epochs were made before, the run only starts now."""
        if self._passed:
            self.run.ensure_started()
