"""The weights of a run's batches, one after the other, and what the program is told of them.

divided.py reads the graph of one batch. Some of its findings may be chance, so they are compared
with the batches before.
"""

import torch

from ...run import Error
from .chain import OLD, counted_by_chain
from .compared import compares
from .divided import ROUNDING, counted_by, is_multiple
from .graph import TELLS_SHAPES, has_penalty, inputs_of
from .multiplied import is_times_its_count
from .told import AVERAGED, BALANCED, COMPARED, DIVIDED_BY_ALL, HALVED, IS_SUM, LEAST
from .told import NORMALIZED, OF_SEVERAL, PENALTY, RAGGED, SCALED, SEVERAL_MEANS, TIMES_COUNT
from .told import UNEVEN

_LOOKS_MOST = 4
_ALIKE_MOST = 3  # batches in a row; one alone may be chance
_ADDED = 1e-5


def _refuse_sum(each, samples, whole):
    """Refuses a gradient that is the same number for each loss, which makes a sum, unless
    that number is 1 / samples or a whole fraction of it."""
    by = 1 / abs(each)
    if abs(by - whole) < ROUNDING * by and samples < whole:
        raise Error(DIVIDED_BY_ALL % (whole, samples))
    if not (is_multiple(by, samples) and by > 0.5):
        raise Error(IS_SUM)


def _told_of_gradient(values, gradient, samples, whole):
    """What the program is told of losses.backward(gradient), or None."""
    if values.shape[0] != samples or samples < 2 or not gradient.is_cpu:
        return None
    each = float(gradient.flatten()[0])
    if bool((gradient == each).all()):
        if each:
            _refuse_sum(each, samples, whole)
        return None
    return NORMALIZED if abs(float(gradient.sum()) - 1) < _ADDED else UNEVEN


class Divisor:
    """Weighs the batches of a run, and tells the program each sentence once. looks: how many passes
    have their whole graph searched."""

    def __init__(self, run, looks=_LOOKS_MOST):
        self.run, self.said = run, set()
        self._last, self._alike = None, 0  # batches in a row with the same divisor
        self._unseen = looks
        self._by_one = self._by_more = False  # sums were divided by 1, and by larger numbers
        self.in_parts = False  # some batch had several passes, each perhaps over a part of it
        self._values = ()  # how many values the last batch's means were over
        self._factors, self._factors_unseen = None, _LOOKS_MOST if looks else 0
        self._numbers = []  # the factors of means over the batch, in the last batch

    def of(self, loss, samples, scaled=False):
        """The weight of a batch; None: its samples. scaled: a GradScaler has multiplied the
        loss."""
        end = None if loss is None else loss.grad_fn
        if scaled and end is not None:
            end = next(iter(inputs_of(end)), None)
        if not TELLS_SHAPES:
            return self._of_chain(end, samples)
        counted = counted_by(end, samples, self.run.global_batch)
        total, told = counted.total, counted.told
        if not told and self._unseen and end is not None and samples > 1:
            self._unseen -= 1
            told = self._look(end, samples)
        if not told and end is not None and samples > 1 and is_times_its_count(end, samples):
            told = self._after_several(TIMES_COUNT, samples, samples)
        elif told in OF_SEVERAL:
            told = self._least(total) or self._after_several(told, total or 1.0, samples)
        elif end is not None:
            self._last = None
        self._say(told or self._of_values(counted.values) or self._of_factors(counted))
        return total

    def _of_chain(self, end, samples):
        self._say(OLD)
        counted = counted_by_chain(end, samples, self.run.global_batch)
        if counted.told:
            self._say(self._after_several(counted.told, counted.total, samples))
        elif end is not None:
            self._last = None
        return counted.total

    def of_sum(self, loss):
        """Looks at a loss of prepare(…, reduction="sum"), whose weight is 1."""
        if self._unseen and loss is not None and loss.grad_fn is not None:
            self._unseen -= 1
            self._say(PENALTY if has_penalty(loss.grad_fn) else None)

    def _least(self, total):
        self._by_one |= total == 1
        self._by_more |= total is not None and total != 1
        return LEAST if self._by_one and self._by_more else None

    def _of_values(self, values):
        """Tells of numbers of values that change. A number that stays the same comes from another
        loader's samples, or from the hardest few."""
        before, self._values = self._values, values or self._values
        changes = before and before != self._values
        return RAGGED if changes and not self.in_parts else None

    def _of_factors(self, counted):
        """Tells of several means whose own divisors or factors change."""
        if not self._factors_unseen or not (counted.shares or counted.factors):
            return None
        self._factors_unseen -= 1
        before, now = self._factors, (counted.shares, [float(f) for f in counted.factors])
        self._factors = now
        if before is None or before == now or len(before[0]) != len(now[0]):
            return None
        return SEVERAL_MEANS if before[0] != now[0] else BALANCED

    def _look(self, end, samples):
        before, self._numbers = self._numbers, []
        if compares(end, samples, self._numbers):
            return COMPARED
        self._numbers = [by.detach().clone() for by in self._numbers]
        alike = [torch.equal(a, b) for a, b in zip(before, self._numbers)]
        return None if all(alike) else BALANCED

    def judge(self, values, gradient, samples):
        """Judges a pass that begins with one loss for each sample, which get this gradient."""
        told = _told_of_gradient(values, gradient, samples, self.run.global_batch)
        if told is NORMALIZED:
            told = self._after_several(told, 1.0, samples)
        self._say(told)

    def _say(self, told):
        if told and told not in self.said:
            self.said.add(told)
            self.run.say(told)

    def _after_several(self, told, total, samples):
        if told is TIMES_COUNT and self._last and self._last[0] is told and self._last[1] != total:
            raise Error(IS_SUM)  # the number has changed with the node's share
        self._alike = self._alike + 1 if self._last == (told, total) else 1
        self._last = (told, total)
        if self._alike < _ALIKE_MOST:
            return None
        if told is DIVIDED_BY_ALL:
            raise Error(DIVIDED_BY_ALL % (self.run.global_batch, samples))
        if told is HALVED:
            raise Error(IS_SUM)
        if told is NORMALIZED:
            raise Error(NORMALIZED)
        return told if told in (TIMES_COUNT, AVERAGED) else SCALED
