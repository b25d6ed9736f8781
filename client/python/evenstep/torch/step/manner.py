"""How the program takes batches, as found so far. It holds for all loops that follow. States
contain it, because a process that is started again in the middle of a step could not find it
out."""

LOOKS_MOST = 64  # batches in which an optimizer's first step is waited for


class Manner:
    def __init__(self):
        self.calls = False  # a module's forward pass was seen
        self.begin_phase()

    def begin_phase(self):
        """A second phase of the program begins, with loops of another kind."""
        self.lag = None  # batches in hand besides the one in use, 0 or 1; None: not known
        self.late = False  # it takes a batch between a backward pass and its step
        self.within = False  # it takes one between a forward pass and its backward pass
        self.steps = False  # an optimizer has stepped

    def save(self):
        return self.lag, self.late, self.within, self.steps

    def load(self, saved):
        """What the process before this one has found; None: nothing."""
        self.lag, self.late, self.within, self.steps = saved or self.save()

    def is_unknown(self, batches):
        """Has no optimizer stepped so far, in so few batches that one may still?"""
        return not self.steps and batches < LOOKS_MOST
