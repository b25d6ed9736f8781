"""A program that goes on from a file of its own, as `--resume` does, in a process that was started
again.

    start = torch.load("last.pt")["epoch"] + 1        3: the file is of this run's last process
    for epoch in range(start, 10):                    7 loops; the run is in epoch 3, and its loops
                                                      first pass over 3 epochs: 3 are never made

Nobody sees the file. An optimizer that has a state before the run has begun shows it: the state was
there at prepare(), or load_state_dict() gave it. Where the run's first process had none, the file
is of this run. If all programs begin anew, the job would end well without its last epochs, so a
loop that knows nothing of the run's epoch is refused; one program of several ends before the
others, which they notice.
"""

import torch

_TOLD = (
    "this program has loaded a state of its optimizer, and the run goes on in epoch %d with the "
    "parameters and the states of now: a loop that begins at the epoch of a file (`range(start, "
    "n)`) leaves epochs out. Load no file of this run, and begin at 0, where evenstep.alone() is "
    "False"
)


def _within(optimizer):
    """The optimizers that it steps, as Lookahead does. Such a one may not have called
    Optimizer.__init__, and then has no hooks; the inner one's state is loaded with its own."""
    return [value for value in vars(optimizer).values() if isinstance(value, torch.optim.Optimizer)]


class OwnFile:
    def __init__(self, run, optimizers, schedulers, by_first):
        """by_first: whether the run's first process had one; None: this is the first process."""
        self.run, self.by_first = run, by_first
        self.loaded = False
        for optimizer in optimizers:
            for one in (optimizer, *_within(optimizer)):
                if hasattr(one, "_optimizer_load_state_dict_post_hooks"):
                    one.register_load_state_dict_post_hook(self._look)
        began = any(getattr(s, "last_epoch", 0) > 0 for s in schedulers)
        if began or any(optimizer.state for optimizer in optimizers):
            self._look()

    def _look(self, *_):
        loops = self.run.loops
        if self.loaded or self.run.on_start is None and loops.reload:  # by the run itself
            return
        self.loaded = True
        if self.by_first is None:
            return
        told = _TOLD % (self.run.epoch + 1)
        if not self.by_first and not self.run.restarted:
            self.run.loops.passes_none = told
        else:
            self.run.say(told)

    def is_told_by(self):
        """What a state says about it."""
        return self.loaded if self.by_first is None else self.by_first
