"""How often schedules step, for a process whose state is older than the run.

    epoch          0       1       2       3
    checkpoint         ▲                            the schedule has stepped once
    a process dies                   ✗              its next one is in epoch 2, and so is the rate

Under `sync` another rank sends the schedule's state of the very step that is due. Where parameters
are averaged, or a server has them, the state is that of the last checkpoint, or there is none. It
says how often the schedule steps: so many times an epoch (after the loop over batches) or a batch
(within the loop). What the run has made since is known, so the new process makes the missing steps.
Without a state the first step of the schedule shows which of the two kinds it is, and the missing
steps follow.

A schedule that is given its position (`step(epoch + i / len(loader))`) needs none of this.
"""

import weakref

EPOCHS, BATCHES = "epochs", "batches"


def _whole(steps):
    return int(steps + 1e-6)


class _Habit:
    """A schedule makes `share` steps per `unit`; None: it has not stepped yet. `made`: its steps in
    this process. fixed: a state says so."""

    def __init__(self, unit=None, share=None, fixed=False):
        self.unit, self.share, self.fixed, self.made = unit, share, fixed, 0

    def between(self, then, now):
        """Its steps between two positions, which are dicts by unit."""
        if self.unit is None:
            return 0
        return max(0, _whole(self.share * now[self.unit]) - _whole(self.share * then[self.unit]))


class Habits:
    def __init__(self, passes, stream, length):
        self.passes, self.stream, self.length = passes, stream, length
        self.begun = {EPOCHS: 0, BATCHES: 0}  # what the run had made when this process began
        self.behind = False  # the state is older than that, or missing
        self._of = weakref.WeakKeyDictionary()

    # ---- what the program does

    def _made(self):
        """(unit, number of units that the run has made), for a step that a schedule makes now."""
        piece = self.passes.slice
        if piece is None:  # the loop over batches has ended
            return EPOCHS, self.stream.epoch
        part = (piece.start + piece.count) / self.passes.run.global_batch
        if piece.step_count:  # this node's slice is part of one global batch
            part = piece.start // self.passes.run.global_batch + 1
        return BATCHES, piece.epoch * self.length + min(self.length, part)

    def note(self, scheduler, count):
        """Notes that the program steps a schedule by `count` steps. Returns how many more it must
        make."""
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
        """Steps that this schedule lacks: from `then`, when its state was taken, to this process's
        start."""
        return self._of.get(scheduler, _Habit()).between(then, self.begun)
