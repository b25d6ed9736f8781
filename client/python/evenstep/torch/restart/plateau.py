"""ReduceLROnPlateau in a process that is started again where no state is as new as the run.

The rate follows from the figures of all epochs, and a schedule keeps what counts of them: the best
one, how many were no better since, how long it still waits. The process writes them into the block
after each epoch's figure, where the next process of this rank finds them (es_kept).

    epoch        0      1      2      3
    checkpoint       ▲                          its figures are those of epoch 0
    figures      ▪      ▪      ▪                of epoch 2
    a process dies                 ✗            its next one has the best figure of epochs 0 to 2
"""

from torch.optim.lr_scheduler import ReduceLROnPlateau

_FIELDS = "best", "num_bad_epochs", "cooldown_counter"


def only_one(schedulers):
    """The only schedule of this kind, or None: the block has room for one."""
    found = [s for s in schedulers if isinstance(s, ReduceLROnPlateau)]
    return found[0] if len(found) == 1 else None


class Plateau:
    """state: the program's own (state.py), which knows the objects given to prepare()."""

    def __init__(self, run, stream, state):
        self.run, self.stream, self.state = run, stream, state
        self._taken = False

    def _keeps(self, scheduler):
        """Is it in the first phase, and is this after a loop over batches?"""
        mine = self.state.phase == 0 and scheduler is only_one(self.state.schedules.given)
        return mine and self.stream.steps.slice is None

    def has_stepped(self, scheduler):
        """Was the step that the program is about to make made before the process ended? Or does it
        come again in an epoch that is passed over?"""
        if not self._taken or not self._keeps(scheduler):
            return False
        return self.run.loops.passing or self.stream.epoch <= self.run.kept[0]

    def keep(self, scheduler):
        """It has made a step."""
        if self._keeps(scheduler) and not self.run.loops.passing:
            rate = scheduler.optimizer.param_groups[0]["lr"]
            figures = [float(getattr(scheduler, name)) for name in _FIELDS]
            self.run.kept[0] = 0  # no figures, if the process ends within these lines
            self.run.kept[1:] = [float(scheduler.last_epoch), *figures, float(rate)]
            self.run.kept[0] = self.stream.epoch

    def take(self, scheduler):
        """Gives it the state of the previous process; False: it is unknown."""
        made, last, best, bad, cooldown, rate = self.run.kept
        if not made or self.state.phase != 0:
            return False
        self._taken = True
        scheduler.best, scheduler.num_bad_epochs = best, int(bad)
        scheduler.cooldown_counter, scheduler.last_epoch = int(cooldown), int(last)
        groups = scheduler.optimizer.param_groups
        part = rate / groups[0]["lr"]
        for group in groups:
            group["lr"] *= part
        groups[0]["lr"] = rate
        scheduler._last_lr = [group["lr"] for group in groups]
        return True
