"""Schedules in a state: those that prepare() was given, and those that it was not, which are known
from their first step on. Where a state is older than the run, they make the steps that came since.

    of prepare()      come back with the state, and catch up at once
    found             come back as they step for the first time: the nth living one of a class is
                      the nth of the state
"""

import pickle
import weakref

from torch.optim.lr_scheduler import ReduceLROnPlateau

from .habits import EPOCHS


class ScheduleStates:
    def __init__(self, state):
        """state: of state.py, which has what the rank kept."""
        self.state = state
        self.watch = None  # schedules.py's
        self.given = []  # given to prepare() in this phase
        self._found = []  # weak references to the others
        self._older = None  # the position of a state that is older than the run
        self._lacks_figures = False  # an epoch or more lies between both

    def begin_phase(self, schedulers):
        self.given, self._found = schedulers, []

    def _living(self):
        return [s for ref in self._found if (s := ref()) is not None]

    # ---- a state

    def save(self):
        own = {"habits": self.watch.habits.save(self.given)}
        found = [told for s in self._living() if (told := self._told_of(s))]
        return {**own, "found": found} if found else own

    def _told_of(self, scheduler):
        """None: its state cannot be saved to a file."""
        state = scheduler.state_dict()
        try:
            pickle.dumps(state)
        except Exception:  # an author may put anything there
            return None
        return type(scheduler).__name__, state, self.watch.habits.save([scheduler])

    def load(self, own, states):
        """states: of the schedules given to prepare()."""
        for scheduler, state in zip(self.given, states):
            scheduler.load_state_dict(state)
        self.watch.habits.load(self.given, own.get("habits", ()))
        self._catch_up()
        for scheduler in self._living():
            self._load_found(scheduler, own)

    def _load_found(self, scheduler, own):
        kind = type(scheduler)
        nth = [s for s in self._living() if type(s) is kind].index(scheduler)
        told = [t for t in own.get("found", ()) if t[0] == kind.__name__]
        if nth >= len(told):
            return
        _, state, habit = told[nth]
        scheduler.load_state_dict(state)
        self.watch.habits.load([scheduler], habit)
        if isinstance(scheduler, ReduceLROnPlateau):
            if self._lacks_figures:
                self.watch.follow_figures([scheduler])
        elif self._older:
            self.watch.catch_up(scheduler, self._older)

    # ---- what happens

    def find(self, scheduler):
        """A schedule steps; it may be one that is not known yet."""
        known = [*self.given, *self._living()]
        if any(s is scheduler for s in known):
            return
        self._found.append(weakref.ref(scheduler))
        own = self.state.kept_of_this_phase()
        if own is not None:
            self._load_found(scheduler, own)

    def pass_on(self, then, now):
        """The run has advanced since the state, from one of these positions to the other."""
        habits = self.watch.habits
        habits.begun, habits.behind = now, self.state.phase == 0
        self._older = then
        self._lacks_figures = then[EPOCHS] < now[EPOCHS]
        if self.state.kept_of_this_phase() is not None:
            self._catch_up()
        elif self._lacks_figures:
            self.watch.follow_figures(self.given)

    def _catch_up(self):
        for scheduler in self.given if self._older else ():
            self.watch.catch_up(scheduler, self._older)
        if self._lacks_figures:
            self.watch.follow_figures(self.given)
