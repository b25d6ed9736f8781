"""Objects given to prepare() other than PyTorch's: dicts, and objects with state_dict() and
load_state_dict(). A state holds them."""

import contextlib
import copy


def _take(value):
    """The state of one of the program's objects."""
    return dict(value) if isinstance(value, dict) else value.state_dict()


def _give(value, state):
    if isinstance(value, dict):
        value.update(state)
    else:
        value.load_state_dict(state)


class Others:
    def __init__(self, objects):
        self.objects = objects

    def has_dict(self):
        return any(isinstance(value, dict) for value in self.objects)

    def states(self):
        return [_take(value) for value in self.objects]

    def load(self, states):
        for value, state in zip(self.objects, states):
            _give(value, state)

    @contextlib.contextmanager
    def kept(self):
        """Restores the program's counts afterwards: counts within, in a batch without a step, do
        not count."""
        before = copy.deepcopy(self.states())
        try:
            yield
        finally:
            self.load(before)
