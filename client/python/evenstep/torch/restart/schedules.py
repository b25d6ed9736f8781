"""Schedules that step after every batch, where nodes make numbers of steps of their own.

Under a parameter server a fast node makes more steps in an epoch than `len(loader)` says and a slow
one fewer, since each takes what samples there are. OneCycleLR(total_steps=epochs * len(loader))
would end the fast node's program, a cosine would rise again there, and a slow node's would never
reach its end. So `scheduler.step()` between two batches moves the schedule to where the run is: to
as many steps as a run on one machine would have made by then, none, one or several. A program that
steps it every second batch gets half of these.

`scheduler.step(epoch + i / len(loader))` says itself where it is, by the batches that this
process's loop has had. After a restart within an epoch these are fewer than the run has made, and
under a server they are this node's own: the schedule moves to where the run is here, too.

A step after the loop, for each epoch, is what it always was, and so is every other one where all
nodes make their steps together, unless a state is older than the run (habits.py).
"""

import functools
import weakref

from torch.optim import lr_scheduler

from .plateau import only_one


class _Pace:
    """One schedule's pace: its calls, and this node's batches, since the first call."""

    def __init__(self, piece, batches, batch, length):
        self.calls = self.made = 0
        self.first, self.batches = piece.epoch * length + piece.start / batch, batches - 1

    def due(self, piece, batches, batch, length):
        """Steps to make now."""
        self.calls += 1
        at = piece.epoch * length + min(length, (piece.start + piece.count) / batch)
        share = self.calls / (batches - self.batches)
        due = int(share * (at - self.first) + 1e-6) - self.made
        self.made += max(due, 0)
        return max(due, 0)


class _Watch:
    def __init__(self, passes, habits, plateau, length):
        self.passes, self.habits, self.length = passes, habits, length
        self.paces = weakref.WeakKeyDictionary()
        self.inside = self.told = False
        self.plateau = plateau
        self.on_step = lambda scheduler: None
        self.first = -1, 0  # an epoch, and this process's batch in which its loop began

    def steps(self, scheduler):
        """How often the schedule steps for this call."""
        piece, run = self.passes.slice, self.passes.run
        if self.passes.spare.at_hand:
            return 0
        paced = piece is not None and not piece.step_count and run.workers > 1 and self.length
        if not paced or self.inside or not self._is_mine(scheduler):
            return 1
        now = piece, self.passes.batches, run.global_batch, self.length
        if scheduler not in self.paces:
            self.paces[scheduler] = _Pace(*now)
        return self.paces[scheduler].due(*now)

    def place(self, scheduler, told):
        """Converts `told`, the argument of a step, to the run's epochs. It stays the same unless it
        is the position of the loop's i-th batch, or of what follows that batch."""
        piece, n = self.passes.slice, self.length
        if piece is None or self.passes.spare.at_hand or not n or not isinstance(told, float):
            return told
        if piece.epoch != self.first[0]:
            self.first = piece.epoch, self.passes.batches
        together = piece.step_count or self.passes.run.workers == 1
        passed = self.passes.place.passed() if together else 0
        if self.inside or (together and not passed) or not self._is_mine(scheduler):
            return told
        batch = self.passes.run.global_batch
        now, then = piece.start / batch, (piece.start + piece.count) / batch
        i = self.passes.batches - self.first[1]
        if together:  # each node's slice is part of one global batch
            now, then = int(now), int(now) + 1
            i = now - passed
        for ith, at in (i, now), (i + 1, then):
            for length in n, n - passed:
                epoch = told - ith / length
                if abs(epoch - round(epoch)) < 1e-6:
                    return round(epoch) + min(at, n) / n
        return told

    def moves(self, scheduler):
        """The same, plus the steps that a state older than the run lacks."""
        count = self.steps(scheduler)
        if self.inside or self.passes.spare.at_hand or not self._is_mine(scheduler):
            return count
        lacks = self.habits.note(scheduler, count)
        self._tell_moved(scheduler, lacks)
        return count + lacks

    def catch_up(self, scheduler, then):
        """Its state is from position `then`: it makes the steps that the run has made since."""
        lacks = self.habits.lacks(scheduler, then)
        self._tell_moved(scheduler, lacks)
        was, self.inside = self.inside, True
        try:
            for _ in range(lacks):
                scheduler.step()
        finally:
            self.inside = was

    def follow_figures(self, schedulers):
        """For plateau schedules whose state is older than the run, or missing: gives them the
        figures that came since, or tells the program."""
        one = only_one(schedulers)
        if one is not None and self.plateau.take(one):
            return
        if not self.told and any(isinstance(s, lr_scheduler.ReduceLROnPlateau) for s in schedulers):
            self.told = True
            self.passes.run.say(
                "a schedule of this program (ReduceLROnPlateau) lacks the figures of the epochs "
                "since its state, as the program was started again: its rate may be above that of "
                "the other nodes until it has seen as many; checkpoints that are taken more often "
                "keep more"
            )

    def _tell_moved(self, scheduler, steps):
        if steps > 0:
            self.passes.run.say(
                "a schedule of this program (%s) is moved by %d step%s to where the run is: the "
                "program was started again, and its state is older"
                % (type(scheduler).__name__, steps, "" if steps == 1 else "s")
            )

    def _is_mine(self, scheduler):
        """Does its optimizer step the model?"""
        groups = getattr(scheduler.optimizer, "param_groups", ())
        return any(id(p) in self.passes.blocks.by_id for g in groups for p in g["params"][:1])

    def stepper(self, step):
        @functools.wraps(step)
        def step_at_pace(scheduler, *args, **kwargs):
            if not self.inside and self._is_mine(scheduler):
                self.on_step(scheduler)
            count = 1 if args or kwargs else self.moves(scheduler)
            args = [self.place(scheduler, told) for told in args]
            was, self.inside = self.inside, True
            self.passes.place.in_schedule = True
            try:
                for _ in range(count):
                    step(scheduler, *args, **kwargs)
            finally:
                self.inside = self.passes.place.in_schedule = was

        return step_at_pace

    def figure_taker(self, step):
        @functools.wraps(step)
        def step_and_keep(scheduler, *args, **kwargs):
            if not self.inside and self._is_mine(scheduler):
                self.on_step(scheduler)
            if not self.plateau.has_stepped(scheduler):
                step(scheduler, *args, **kwargs)
                self.plateau.keep(scheduler)

        return step_and_keep


def watch(passes, habits, plateau, length):
    """length: global batches of an epoch; 0: unknown."""
    watching = _Watch(passes, habits, plateau, length)
    by_figures = lr_scheduler.ReduceLROnPlateau
    by_figures.step = watching.figure_taker(by_figures.step)
    for kind in [k for k in vars(lr_scheduler).values() if isinstance(k, type)]:
        is_one = issubclass(kind, lr_scheduler.LRScheduler)
        if is_one and kind is not lr_scheduler.ReduceLROnPlateau and "step" in vars(kind):
            kind.step = watching.stepper(kind.step)
    return watching
