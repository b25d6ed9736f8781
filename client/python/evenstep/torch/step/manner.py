"""How the program takes batches, as it has shown so far. It holds for the loops that follow, and
for a process that is started again, which could not find it out within a step: a state has it."""

LOOKS_MOST = 64  # batches in which an optimizer's first step is waited for


class Manner:
    def __init__(self):
        self.calls = False  # a module's forward pass was seen
        self.begin_phase()

    def begin_phase(self):
        """The program goes on with other loops."""
        self.lag = None  # batches in hand, 0 or 1, in the loop before; None: there was none
        self.late = False  # it takes a batch between a pass and its step
        self.within = False  # it takes one between a forward pass and its backward pass
        self.steps = False  # an optimizer has stepped

    def save(self):
        return self.lag, self.late, self.within, self.steps

    def load(self, saved):
        """By a process before this one; None: it said nothing."""
        self.lag, self.late, self.within, self.steps = saved or self.save()

    def is_unknown(self, batches):
        """No optimizer has stepped in these batches, and one may still do."""
        return not self.steps and batches < LOOKS_MOST
