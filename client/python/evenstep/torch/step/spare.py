"""The batch at hand, where it is one of which no step is made (samples/spare.py gives them)."""

import sys

PASSES_MOST = 100  # in a row


class SpareBatch:
    def __init__(self, run):
        self.run = run
        self.at_hand = False
        self.passes = 0  # over such batches in a row
        self._then = []  # calls, for when it is left

    def take(self):
        self.at_hand = True

    def slice_begins(self):
        self.at_hand, self.passes = False, 0

    def when_left(self, call):
        """When it is left for another one."""
        self._then.append(call)

    def leave(self):
        self.at_hand = False
        then, self._then = self._then, []
        for call in then:
            call()

    def pass_begins(self):
        """A loop over steps of the program's own may not know that the job is over."""
        self.passes += 1
        if self.passes > PASSES_MOST + 4 * self.run.loops.lacks and self.run.over:
            self.run.say("the job is over, and the program's loop over steps is not: it ends here")
            sys.exit(0)
