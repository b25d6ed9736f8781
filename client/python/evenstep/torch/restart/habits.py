"""When schedules step, for a process whose state is older than the run.

    epoch          0       1       2       3
    checkpoint         ▲                            the schedule has stepped once
    a process dies                   ✗              its next one is in epoch 2, and so is the rate

Under `sync` another rank gives the schedule of the very step. Where parameters are averaged or a
server has them, nobody else stands at that step: the state is that of the last checkpoint, or there
is none. What the run has made since is known, and a state says how often the schedule stepped by
then: so many times an epoch (a step behind the loop over batches), or a batch (one within it). The
new process makes the steps that are between. Without a state the first step shows which of the two
it is, and the schedule moves there.

A schedule that is told where it is (`step(epoch + i / len(loader))`) needs none of this.
"""

import weakref

EPOCHS, BATCHES = "epochs", "batches"


def _whole(steps):
    return int(steps + 1e-6)


class _Habit:
    """One schedule's: `share` steps for each of `unit`; None: it has not stepped yet."""

    def __init__(self, unit=None, share=None, fixed=False):
        self.unit, self.share, self.fixed, self.made = unit, share, fixed, 0

    def between(self, then, now):
        """Steps between two places, dicts by unit."""
        if self.unit is None:
            return 0
        return max(0, _whole(self.share * now[self.unit]) - _whole(self.share * then[self.unit]))


class Habits:
    def __init__(self, passes, stream, length):
        self.passes, self.stream, self.length = passes, stream, length
        self.begun = {EPOCHS: 0, BATCHES: 0}  # what the run had made when this process began
        self.behind = False  # by a state that is older, or by none
        self._of = weakref.WeakKeyDictionary()

    # ---- what the program does

    def _made(self):
        """(unit, of these the run has made): a step of a schedule belongs to them."""
        piece = self.passes.slice
        if piece is None:  # the loop over batches has ended
            return EPOCHS, self.stream.epoch
        part = (piece.start + piece.count) / self.passes.run.global_batch
        if piece.step_count:  # this node's slice is a part of one global batch
            part = piece.start // self.passes.run.global_batch + 1
        return BATCHES, piece.epoch * self.length + min(self.length, part)

    def note(self, scheduler, count):
        """The program steps it, which is `count` steps. Returns those that it lacks in addition."""
        if self.passes.run.loops.passing or not self.length:
            return 0
        habit = self._of.setdefault(scheduler, _Habit())
        unit, at = self._made()
        if habit.fixed or habit.unit not in (None, unit) or at <= self.begun[unit]:
            return 0
        first, habit.unit = habit.unit is None, unit
        habit.made += count
        habit.share = habit.made / (at - self.begun[unit])
        if not first or not self.behind:
            return 0
        return max(0, _whole(habit.share * at) - count - scheduler.last_epoch)

    # ---- states

    def save(self, schedulers):
        known = [self._of.get(s, _Habit()) for s in schedulers]
        return [(h.unit, h.share) for h in known]

    def load(self, schedulers, saved):
        for scheduler, (unit, share) in zip(schedulers, saved):
            if unit is not None:
                self._of[scheduler] = _Habit(unit, share, fixed=True)

    def lacks(self, scheduler, then):
        """Steps since `then`, in which a state has this schedule, up to where the process began."""
        return self._of.get(scheduler, _Habit()).between(then, self.begun)
