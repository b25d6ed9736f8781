"""What a loss was divided by, on PyTorch before 2.5, where autograd's nodes have no shapes.
divided.py reads the whole graph; this file reads the path from the loss to where it is made:

     loss ─ add, mul by a number, div by one ─┬─ NllLoss        divided by total_weight
                                              ├─ sum            divided by what the program says
                                              └─ anything else  divided by the samples
"""

import torch

from ...run import Error
from .divided import DIVIDES, MEAN, ROUNDING, SUM, SUMS, Counted, number_of
from .graph import DEPTH_MOST, LINEAR, constant_of, inputs_of, kind_of
from .told import DIVIDED_BY_ALL, HALVED, IS_SUM

OLD = (
    "PyTorch %s does not tell what a loss is a mean over, as 2.5 does: a batch weighs its samples, "
    "the labels that count of a cross entropy, or what divides a sum. evenstep.weight(n) before "
    "backward() says what else it counts, and `evenstep run --check` whether several nodes train "
    "this program as one does" % torch.__version__
)
_SCALES = ("MulBackward", "DivBackward")


def _number(by):
    """None: it is none."""
    return None if isinstance(by, torch.Tensor) and by.numel() != 1 else float(by)


class _Chain:
    def __init__(self, samples):
        self.samples = samples
        self.totals = set()
        self.has_sums = False

    def follow(self, node, divisor=None, factor=None, depth=DEPTH_MOST):
        """divisor, factor: of the nodes before this one; None: there is none."""
        kind, inputs = kind_of(node), inputs_of(node)
        reduction = getattr(node, "_saved_reduction", None)
        if reduction is not None:
            self.totals.add(self._of_loss(node, reduction, divisor, factor))
        elif type(node).__name__ in SUMS and hasattr(node, "_saved_self_sym_sizes"):
            self.totals.add(self._of_sum(node, divisor, factor))
        elif depth and kind in _SCALES and len(inputs) == 1:
            by = _number(constant_of(node))
            divides = kind == "DivBackward"
            divisor, factor = (by, factor) if divides else (divisor, by)
            self.follow(inputs[0], divisor, factor, depth - 1)
        elif depth and kind in LINEAR:
            for behind in inputs:
                self.follow(behind, divisor, factor, depth - 1)
        else:
            self.totals.add(self.samples)

    def _of_loss(self, node, reduction, divisor, factor):
        if reduction == SUM:
            return self._divided(divisor, factor)
        if type(node).__name__ not in DIVIDES or reduction != MEAN:
            return self.samples
        is_of_part = node._saved_target.numel() < self.samples  # as in a loop over samples
        return self.samples if is_of_part else number_of(node, self.samples)

    def _of_sum(self, node, divisor, factor):
        rows, behind = (*node._saved_self_sym_sizes, 1)[0], inputs_of(node)
        scaled = behind and kind_of(behind[0]) in _SCALES and len(inputs_of(behind[0])) == 1
        by = divisor or factor
        if rows % self.samples or (not by and (rows != self.samples or scaled)):
            return self.samples
        return self._divided(divisor, factor)

    def _divided(self, divisor, factor):
        self.has_sums = True
        if not divisor and not factor:
            raise Error(IS_SUM)
        by = abs(divisor or 1 / factor)
        return float(round(by)) if abs(by - round(by)) < ROUNDING * by else by


def counted_by_chain(end, samples, whole):
    """The same as counted_by() of divided.py. Refuses a loss that is a sum."""
    chain = _Chain(samples)
    if end is not None and samples:
        chain.follow(end)
    if len(chain.totals) != 1 or chain.totals == {samples}:
        return Counted()
    total = chain.totals.pop()
    if not chain.has_sums:
        return Counted(float(total))
    is_whole = total == whole and samples < whole
    return Counted(total, DIVIDED_BY_ALL if is_whole else HALVED if total <= 2 < samples else None)
