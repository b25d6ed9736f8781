"""What a process that is started again goes on from: optimizers, counters, and figures of fit()."""

import pickle

import keras
import numpy as np

from . import counters


class State:
    def __init__(self, run, steps):
        self.run, self.steps = run, steps
        self.callbacks, self.counters = [], None  # fit()'s callbacks, and their counters in a state
        self.scheduled = False  # the callbacks have begun an epoch that is not over
        self.rates = -1, ()  # epoch of the run, and the optimizers' rates in it, as in a state
        self.histories = []  # of the calls of fit() that have ended
        self.recalled = pickle.loads(run.state)["histories"] if run.state else []

    def remember(self, history):
        """Keeps the figures of a finished fit(), for a process that passes over it."""
        self.histories.append({k: [float(v) for v in values if np.ndim(v) == 0]
                               for k, values in history.items()})

    def recall(self):
        """The figures of a fit() that is passed over."""
        told = self.recalled.pop(0) if self.recalled else {}
        self.histories.append(told)
        return told

    def _others(self):
        """The variables that are not in the block: seeds, counters."""
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
        """(indices of the weights that it steps, values) of an optimizer."""
        steps = [id(v) for v in getattr(optimizer, "_trainable_variables", ())]
        places = [i for i, v in enumerate(self.steps.block.weights) if id(v) in steps]
        return places, [_any(v) for v in optimizer.variables]

    def reload(self):
        """Loads the state that the program saved into the current optimizers."""
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
        """The optimizers as save() writes them. Older states have one optimizer for all weights
        that train."""
        if "optimizers" in state:
            return state["optimizers"]
        trains = [id(v) for v in self.steps.trained.variables]
        weights = self.steps.block.weights
        return [([i for i, v in enumerate(weights) if id(v) in trains], state["optimizer"])]

    def give_counters(self):
        """Restores a state's counters, once, after the callbacks have begun and reset them."""
        kept, self.counters = self.counters, None
        if kept:
            counters.give(self.callbacks, kept)

    def keep_rates(self, piece):
        """Restores a state's rates in the epoch that goes on here. The callbacks begin that epoch a
        second time, and would derive a rate from the last one twice."""
        (epoch, rates), self.rates = self.rates, (-1, ())
        if piece is None or piece.epoch != epoch:
            return
        for optimizer, rate in zip(self.steps.trained.optimizers, rates):
            if rate is not None:
                optimizer.learning_rate = rate


def scales(optimizer):
    return isinstance(optimizer, keras.optimizers.LossScaleOptimizer)


def _take(variables, kept):
    """Assigns a state's values, unless they belong to the fit() before."""
    if [tuple(v.shape) for v in variables] == [value.shape for value in kept]:
        for v, value in zip(variables, kept):
            v.assign(value)


def _any(variable):
    return np.asarray(keras.ops.convert_to_numpy(variable))


def _rate(optimizer):
    """The optimizer's rate; None: it has a schedule, which depends on its steps."""
    inner = optimizer.inner_optimizer if scales(optimizer) else optimizer
    if not isinstance(inner._learning_rate, keras.Variable):
        return None
    return float(keras.ops.convert_to_numpy(inner.learning_rate))
