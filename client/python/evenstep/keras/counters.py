"""What Keras' own callbacks count: epochs without a better figure, the best one, its weights.

A process that is started again makes its callbacks anew, and on_train_begin() resets them. With the
counters of a state, EarlyStopping and ReduceLROnPlateau decide as they would have without the
restart, and as on the other nodes. A callback keeps the arguments of its constructor. Callbacks of
the program's own are left alone, since nobody knows which of their attributes belong to the node.
"""

import inspect

import numpy as np


def _is_count(value):
    """Whether a value is a number, an array, several of them, or None."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(v, np.ndarray) for v in value)
    return value is None or isinstance(value, (bool, int, float, np.number, np.ndarray))


def _counts(callback):
    """{name: value} of a callback's counters, without its constructor's arguments."""
    given = inspect.signature(type(callback).__init__).parameters
    return {n: v for n, v in vars(callback).items() if n not in given and _is_count(v)}


def _own(callbacks):
    return [c for c in callbacks if type(c).__module__.startswith("keras.")]


def take(callbacks):
    """[(class, {attribute: value})] of Keras' own callbacks."""
    return [(type(c).__name__, _counts(c)) for c in _own(callbacks)]


def give(callbacks, kept):
    """Sets the counters of new callbacks. Callbacks that the state does not have stay as they
    are."""
    own = _own(callbacks)
    if [type(c).__name__ for c in own] != [name for name, _ in kept]:
        return
    for callback, (_, counts) in zip(own, kept):
        now = _counts(callback)
        for name, value in counts.items():
            if name in now and value is not None:
                setattr(callback, name, value)
