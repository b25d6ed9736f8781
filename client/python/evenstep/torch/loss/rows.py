"""What a mean or a sum in autograd's graph is over: the samples of a batch, chosen rows, parts of
samples in one row, or values that samples have in unequal numbers.

    mean ─ index               rows that a mask chose
    mean ─ cat ─ index         of several masks
    mean ─ mean(1) ─ index     the same, of which each is a mean
    sum of (7, 20)             20 samples, by time
"""

import math

from .graph import DEPTH_MOST, VALUE_BY_VALUE, inputs_of, kind_of, of_parameters, shape_out
from .looped import loop_over_samples

_MEANS = {
    "MeanBackward0",
    "MseLossBackward0",
    "SmoothL1LossBackward0",
    "HuberLossBackward0",
    "BinaryCrossEntropyBackward0",
    "BinaryCrossEntropyWithLogitsBackward0",
    "KlDivBackward0",
    "MultiMarginLossBackward0",
    "MultilabelMarginLossBackward0",
    "SoftMarginLossBackward0",
}
_CHOOSES = {"IndexBackward", "MaskedSelectBackward"}
# functions of many numbers that are no mean over them
EXTREMES = {"MaxBackward", "MinBackward", "MedianBackward", "StdBackward", "VarBackward"}
EXTREMES |= {"NormBackward", "LinalgVectorNormBackward", "LogsumexpBackward", "DistBackward"}
_PARTS = {"DiagonalBackward", "SliceBackward", "IndexBackward", "CloneBackward"}
_PARTS |= {"AsStridedBackward", "MaskedSelectBackward", "MaskedFillBackward", "TriuBackward"}
NODES_MOST = 32


def is_mean(node):
    """Whether a node is a mean to one number. mean(0) of a row and mean((0, 1)) are too."""
    name = type(node).__name__
    return name in _MEANS or (name == "MeanBackward1" and math.prod(shape_out(node)) == 1)


def chosen(node):
    """The number of rows, chosen by a mask or an index, that a mean is over; None: all rows."""
    for _ in range(DEPTH_MOST):
        inputs = inputs_of(node)
        if not inputs:
            return None
        found = next((n for n in inputs if kind_of(n) in _CHOOSES), None)
        if found is not None:
            shape = shape_out(found)
            return shape[0] if shape else None
        node = inputs[0]
        if kind_of(node) == "CatBackward":
            some = any(chosen(n) is not None for n in (node, *inputs_of(node)))
            return shape_out(node)[0] if some else None
        if kind_of(node) not in VALUE_BY_VALUE and not keeps_rows(node):
            return None
    return None


def keeps_rows(node):
    """Whether a node is a mean or a sum within each row."""
    if type(node).__name__ not in ("MeanBackward1", "SumBackward1") or not node._saved_dim:
        return False
    rank = len(node._saved_self_sym_sizes)
    return all((d if d < rank else d - 2**64 + rank) != 0 for d in node._saved_dim)


def is_ragged(node, samples):
    """Whether samples may have unequal numbers of the values of a mean, and these are not values to
    which the batch was reduced before."""
    inputs = inputs_of(node)
    if not inputs or not shape_out(inputs[0]) or of_parameters(inputs[0]):
        return False
    shape = shape_out(inputs[0])
    fewer = shape[0] < samples and all(n % samples for n in shape)
    if math.prod(shape) % samples == 0 and not fewer:
        return False
    behind = inputs[0]
    while kind_of(behind) in VALUE_BY_VALUE and inputs_of(behind):
        behind = inputs_of(behind)[0]
    kind = kind_of(behind)
    if kind in ("StackBackward", "CatBackward"):
        return False
    reduces = kind.startswith(("Sum", "Mean")) or kind in EXTREMES
    return not reduces or 0 not in tuple(getattr(behind, "_saved_dim", None) or (0,))


def shape_of_sum(node):
    if type(node).__name__ == "DotBackward0":
        return next(t.shape for t in (node._saved_self, node._saved_tensor) if t is not None)
    if hasattr(node, "_saved_self_sym_sizes"):
        return node._saved_self_sym_sizes
    return node._saved_self.shape


def is_product_over_samples(node, samples):
    """Whether a node is a row times a column with one value or more for each sample, like
    einsum("bi,bi->"). This is a sum over samples."""
    if kind_of(node) not in ("MmBackward", "BmmBackward") or math.prod(shape_out(node)) != 1:
        return False
    if any(map(of_parameters, inputs_of(node))):
        return False
    row, column = node._saved_self, node._saved_mat2
    inner = row.shape[-1] if row is not None else column.shape[-2]
    return samples > 1 and inner % samples == 0


def numbers(samples, dims):
    """The possible divisors of a mean over samples and over any of these dimensions."""
    found = {samples}
    for n in dims:
        found |= {n * number for number in found}
    return found


def _is_of_columns(node, samples):
    """Whether a sum is over a matrix of columns by columns (a covariance), to which the batch was
    reduced. If that has as many rows as the batch has samples, it is by chance."""
    for _ in range(DEPTH_MOST):
        inputs = inputs_of(node)
        if not inputs:
            return False
        node = inputs[0]
        if kind_of(node) == "MmBackward":
            first, second = node._saved_self, node._saved_mat2
            inner = second.shape[0] if second is not None else first.shape[1]
            return inner == samples and not any(map(of_parameters, inputs_of(node)))
        if kind_of(node) not in VALUE_BY_VALUE and kind_of(node) not in _PARTS:
            return False
    return False


def is_over_samples(node, samples, divisor):
    """Whether a sum is over the batch's samples, or over parts of them in one row. The tokens of
    all texts in one row are no multiple of the samples; their divisor is their number, or the
    number that counts."""
    shape, inputs = shape_of_sum(node), inputs_of(node)
    if not shape or not inputs or kind_of(inputs[0]) == "StackBackward" or of_parameters(node):
        return False
    if _is_of_columns(node, samples):
        return False
    rows, flat = shape[0], len(shape) == 1 or "NllLoss" in type(node).__name__
    in_one_row = flat and rows > samples and rows % samples == 0
    if rows == samples or in_one_row or chosen(node) is not None:
        return True
    if divisor is not None and is_by_time(node, samples):
        return True
    return divisor is not None and samples <= float(divisor) <= rows


def is_by_time(node, samples):
    """Whether a sum is over values with the samples in the second dimension, or over the samples'
    parts, each a row of values, one after the other."""
    shape, inputs = shape_of_sum(node), inputs_of(node)
    if len(shape) < 2 or not inputs or of_parameters(node) or _is_of_columns(node, samples):
        return False
    dims = getattr(node, "_saved_dim", None) or range(len(shape))
    second = shape[1] == samples and 1 in [d if d < len(shape) else d - 2**64 for d in dims]
    one_row = 0 in dims and shape[0] > samples and shape[0] % samples == 0
    return shape[0] != samples > 1 and (second or one_row)


def is_mean_over_samples(node, samples):
    """Whether a node is a mean over the samples, the first dimension, alone. A sum over the others
    may follow."""
    return (
        type(node).__name__ == "MeanBackward1"
        and tuple(node._saved_dim) == (0,)
        and node._saved_self_sym_sizes[0] == samples
    )


def is_sum_over_samples(node, samples):
    """Whether a node is a sum over the first dimension, and no other can be that of the samples."""
    return (
        type(node).__name__ == "SumBackward1"
        and 0 in node._saved_dim
        and node._saved_self_sym_sizes[0] == samples
        and samples not in shape_out(node)
    )


def means_behind(node, samples):
    """The means that a mean of means is over, if some of them are over chosen rows, such as a
    class's."""
    stack = inputs_of(node)[:1]
    if not stack or kind_of(stack[0]) != "StackBackward" or loop_over_samples(stack[0], samples):
        return ()
    means = inputs_of(stack[0])[:NODES_MOST]
    some = any(chosen(m) is not None for m in means)
    return means if some and all(is_mean(m) for m in means) else ()
