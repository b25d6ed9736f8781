"""What prepare() was given beside PyTorch's own objects: dicts, and whatever has state_dict() and
load_state_dict(). A state holds it."""

import contextlib
import copy


def _take(value):
    """What an object of the program's says of itself."""
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
        """What the program counts within, in a batch of which no step is made, does not count."""
        before = copy.deepcopy(self.states())
        try:
            yield
        finally:
            self.load(before)
