"""Weights and moving statistics in the shared block.

The block has all weights that any fit() may train. Frozen layers are included, since a later fit()
may unfreeze them; their gradients are zero. The weights that train now are ranges of it:

    block   | base: frozen      | head: trains |      ranges  [(first, floats), …]
    flat                        | head         |      what the train function gives and gets
"""

import keras
import numpy as np

from .backends import sizes


def _numpy(variable):
    return keras.ops.convert_to_numpy(variable).astype(np.float32, copy=False)


class Block:
    """weights: all weights in the block; norms: (layer, variable, …) of each statistic."""

    def __init__(self, run, weights, norms):
        self.weights, self.norms = weights, norms
        ends = np.cumsum([0, *sizes(weights)])
        self._first = {id(v): int(at) for v, at in zip(weights, ends)}
        self.params = np.frombuffer(run.params, np.float32)
        self.grads = np.frombuffer(run.grads, np.float32)
        self.stats = np.frombuffer(run.stats, np.float32)
        # the weights before a step that sends differences
        self._before = np.zeros_like(self.params)
        self._merged = None  # statistics as they were when the step began

    def has(self, variable):
        return id(variable) in self._first

    def _at(self, variable, n):
        first = self._first[id(variable)]
        return slice(first, first + n)

    def ranges(self, variables):
        """Where the variables are in the block: (first, floats) of each contiguous range."""
        ranges = []
        for v, n in zip(variables, sizes(variables)):
            if ranges and sum(ranges[-1]) == self._first[id(v)]:
                ranges[-1] = ranges[-1][0], ranges[-1][1] + n
            else:
                ranges.append((self._first[id(v)], n))
        return ranges

    # ---- parameters

    def gather(self, variables):
        self._gather_into(self.params, variables)

    def _gather_into(self, floats, variables):
        for v, n in zip(variables, sizes(variables)):
            floats[self._at(v, n)] = _numpy(v).reshape(-1)

    def scatter(self, variables):
        for v, n in zip(variables, sizes(variables)):
            v.assign(self.params[self._at(v, n)].reshape(v.shape).copy())

    def remember(self, variables):
        """Keeps the values before a step whose difference may be sent."""
        self._gather_into(self._before, variables)

    # ---- gradients

    def put(self, ranges, flat):
        """Writes gradients to the block; flat None: zeros, for a step without samples."""
        at = 0
        for first, n in ranges:
            self.grads[first : first + n] = 0 if flat is None else flat[at : at + n]
            at += n

    def summed(self, ranges):
        return np.concatenate([self.grads[first : first + n] for first, n in ranges])

    def put_differences(self, variables):
        for v, n in zip(variables, sizes(variables)):
            at = self._at(v, n)
            self.grads[at] = self._before[at] - _numpy(v).reshape(-1)

    # ---- statistics

    def gather_statistics(self):
        at = 0
        for _, v, _ in self.norms:
            n = int(np.prod(v.shape))
            self.stats[at : at + n] = _numpy(v).reshape(-1)
            at += n

    def scatter_statistics(self):
        at = 0
        for _, v, _ in self.norms:
            n = int(np.prod(v.shape))
            v.assign(self.stats[at : at + n].reshape(v.shape).copy())
            at += n

    def step_begins(self):
        if self.norms:
            self.gather_statistics()
            self._merged = self.stats.copy()

    def merge_statistics(self):
        """Adds the other ranks' part to the moving statistics. A step turned the mean m into k m +
        …, so it adds k (merged - m). False: no step has begun since the last call."""
        if self._merged is None:
            return False
        at, merged = 0, self.stats - self._merged
        for layer, v, _ in self.norms:
            n = int(np.prod(v.shape))
            correction = layer.momentum * merged[at : at + n].reshape(v.shape)
            if np.any(correction):
                v.assign(keras.ops.convert_to_numpy(v) + correction)
            at += n
        self._merged = None
        return True
