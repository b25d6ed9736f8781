"""What a process that is started again goes on from: optimizers, counters, and figures of fit()."""

import pickle

import keras
import numpy as np

from . import counters


class State:
    def __init__(self, run, steps):
        self.run, self.steps = run, steps
        self.callbacks, self.counters = [], None  # of fit(); what a state has of theirs
        self.scheduled = False  # the callbacks have begun the epoch, and it is not over
        self.rates = -1, ()  # of the optimizers in this epoch of the run, as a state has them
        self.histories = []  # of the calls of fit() that have ended
        self.recalled = pickle.loads(run.state)["histories"] if run.state else []

    def remember(self, history):
        """A call of fit() has ended: a process that passes over it has its figures."""
        self.histories.append({k: [float(v) for v in values if np.ndim(v) == 0]
                               for k, values in history.items()})

    def recall(self):
        """The figures of a call that is passed over."""
        told = self.recalled.pop(0) if self.recalled else {}
        self.histories.append(told)
        return told

    def _others(self):
        """Variables beside the block: seeds, counters."""
        model, block = self.steps.model, self.steps.block
        return [v for v in model.non_trainable_variables if not block.has(v)]

    def save(self):
        return pickle.dumps(
            {
                "optimizers": [self._state_of(o) for o in self.steps.trained.optimizers],
                "variables": [_any(v) for v in self._others()],
                "histories": self.histories,
                "counters": counters.take(self.callbacks),
                "epoch": self.steps.stream.epoch if self.scheduled else -1,
            }
        )

    def _state_of(self, optimizer):
        """(places of what it steps among the weights, values)."""
        steps = [id(v) for v in getattr(optimizer, "_trainable_variables", ())]
        places = [i for i, v in enumerate(self.steps.block.weights) if id(v) in steps]
        return places, [_any(v) for v in optimizer.variables]

    def reload(self):
        """What the program gave before, into the optimizers of now."""
        if self.run.state:
            self._load(pickle.loads(self.run.state))

    def _load(self, state):
        weights = self.steps.block.weights
        for optimizer, (places, kept) in zip(self.steps.trained.optimizers, self._kept(state)):
            if not optimizer.built and places:
                optimizer.build([weights[i] for i in places])
            _take(optimizer.variables, kept)
        _take(self._others(), state["variables"])
        self.counters = state.get("counters")
        self.rates = state.get("epoch", -1), [_rate(o) for o in self.steps.trained.optimizers]

    def _kept(self, state):
        """As save() gives them. Older states have one optimizer, of all that trains."""
        if "optimizers" in state:
            return state["optimizers"]
        trains = [id(v) for v in self.steps.trained.variables]
        weights = self.steps.block.weights
        return [([i for i, v in enumerate(weights) if id(v) in trains], state["optimizer"])]

    def give_counters(self):
        """Callbacks have begun, and count from nothing: a state's counters hold, once."""
        kept, self.counters = self.counters, None
        if kept:
            counters.give(self.callbacks, kept)

    def keep_rates(self, piece):
        """Callbacks begin an epoch once more that goes on here, and a rate that they make of the
        rate before would be made of it twice: in that epoch a state's rates hold."""
        (epoch, rates), self.rates = self.rates, (-1, ())
        if piece is None or piece.epoch != epoch:
            return
        for optimizer, rate in zip(self.steps.trained.optimizers, rates):
            if rate is not None:
                optimizer.learning_rate = rate


def scales(optimizer):
    return isinstance(optimizer, keras.optimizers.LossScaleOptimizer)


def _take(variables, kept):
    """Values of a state, unless they are of the fit() before."""
    if [tuple(v.shape) for v in variables] == [value.shape for value in kept]:
        for v, value in zip(variables, kept):
            v.assign(value)


def _any(variable):
    return np.asarray(keras.ops.convert_to_numpy(variable))


def _rate(optimizer):
    """None: by a schedule of its own, which goes by its steps."""
    inner = optimizer.inner_optimizer if scales(optimizer) else optimizer
    if not isinstance(inner._learning_rate, keras.Variable):
        return None
    return float(keras.ops.convert_to_numpy(inner.learning_rate))
