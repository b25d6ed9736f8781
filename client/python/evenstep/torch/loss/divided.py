"""What a batch's loss was divided by, out of autograd's graph.

A mean over samples weighs samples. A cross entropy with class weights divides by the weights of the
labels, one with `ignore_index` by the labels that count, `losses[mask].mean()` by those that the
mask leaves, `(losses * mask).sum() / mask.sum()` by what stands there: in a batch that is shared
out, each node by its own. So such a batch weighs what its loss was divided by, and the mean over
nodes is that of the whole batch. A loss that torch.compile made has no such graph.

     loss ─ add, mul, div … ─┬─ NllLoss            divided by total_weight
                             ├─ div ─ sum          divided by what the program says
                             ├─ mean ─ index       divided by the rows that were chosen
                             ├─ mean, MSE, …       divided by the samples
                             ├─ root, log … ─ mean no mean over samples, nor is max or norm
                             ├─ number × sum       by the number's reciprocal, if it is a whole one
                             ├─ add, add, add …    a loop over the samples: a sum over them
                             └─ sum                divided by nothing: the loss is a sum
"""

import math

import torch

from ...run import Error
from .graph import DEPTH_MOST, LINEAR, VALUE_BY_VALUE, constant_of, inputs_of, kind_of
from .graph import is_squared_norm, of_parameters, shape_out
from .looped import have_own_divisors, loop_over_samples
from .told import CURVED, DIVIDED_ALIKE, DIVIDED_BY_ALL, EITHER, HALVED, IS_SUM, NORMALIZED
from .told import RATIO, SCALED, SEVERAL_MEANS

_DIVIDES = {"NllLossBackward0", "NllLoss2DBackward0"}
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
_SUMS = {"SumBackward0", "SumBackward1", "NansumBackward0", "DotBackward0"}
_THROUGH = LINEAR | {"MulBackward", "DivBackward"}
_MOVES = {"PermuteBackward", "UnsafeViewBackward", "ReshapeAliasBackward"}
_CHOOSES = {"IndexBackward", "MaskedSelectBackward"}
# of one number
_CURVES = {"PowBackward", "AbsBackward", "SqrtBackward", "RsqrtBackward", "ReciprocalBackward"}
_CURVES |= {"ExpBackward", "LogBackward", "Log1PBackward", "Log2Backward", "Log10Backward"}
_CURVES |= {"ClampBackward", "ClampMinBackward", "ReluBackward", "SoftplusBackward"}
_CURVES |= {"TanhBackward", "SigmoidBackward"}
# of many numbers, which are no mean of what each of them gives
_EXTREMES = {"MaxBackward", "MinBackward", "MedianBackward", "StdBackward", "VarBackward"}
_EXTREMES |= {"NormBackward", "LinalgVectorNormBackward", "LogsumexpBackward", "DistBackward"}
_NODES_MOST, _DIMS_MOST = 32, 6
ROUNDING = 1e-6
_MEAN, _SUM = 1, 2  # torch's numbers of these reductions



_roles = {}  # by a node's class: what of the sets above it is in


def _role(node):
    """The set of those above that it is in; of those for values the first alone."""
    role = _roles.get(type(node))
    if role is None:
        name, through = type(node).__name__, _THROUGH if kind_of(node) in _THROUGH else ()
        role = next((s for s in (_DIVIDES, _MEANS, _SUMS) if name in s), through)
        _roles[type(node)] = role
    return role


def _chosen(node):
    """Of how many rows that were chosen by a mask or an index a mean is; None: of all."""
    for _ in range(DEPTH_MOST):
        inputs = inputs_of(node)
        if not inputs:
            return None
        found = next((n for n in inputs if kind_of(n) in _CHOOSES), None)
        if found is not None:
            shape = shape_out(found)
            return shape[0] if shape else None
        node = inputs[0]
        if kind_of(node) not in VALUE_BY_VALUE:
            return None
    return None


def _is_ragged(node, samples):
    """Whether a mean is over another number of values than the same for each sample, and over none
    that the batch was reduced to before."""
    inputs = inputs_of(node)
    if not inputs or not shape_out(inputs[0]) or of_parameters(inputs[0]):
        return False
    if math.prod(shape_out(inputs[0])) % samples == 0:
        return False
    behind = inputs[0]
    while kind_of(behind) in VALUE_BY_VALUE and inputs_of(behind):
        behind = inputs_of(behind)[0]
    kind = kind_of(behind)
    if kind in ("StackBackward", "CatBackward"):
        return False
    reduces = kind.startswith(("Sum", "Mean")) or kind in _EXTREMES
    return not reduces or 0 not in tuple(getattr(behind, "_saved_dim", None) or (0,))


def _shape_of_sum(node):
    if type(node).__name__ == "DotBackward0":
        return next(t.shape for t in (node._saved_self, node._saved_tensor) if t is not None)
    if hasattr(node, "_saved_self_sym_sizes"):
        return node._saved_self_sym_sizes
    return node._saved_self.shape


def _is_product_over_samples(node, samples):
    """A row times a column of as many values as the batch has, or einsum("bi,bi->"): a sum."""
    if kind_of(node) not in ("MmBackward", "BmmBackward") or math.prod(shape_out(node)) != 1:
        return False
    if any(map(of_parameters, inputs_of(node))):
        return False
    row, column = node._saved_self, node._saved_mat2
    inner = row.shape[-1] if row is not None else column.shape[-2]
    return samples > 1 and inner % samples == 0


def _numbers(samples, dims):
    """By which a mean over samples may be divided that is over some of these dimensions, too."""
    found = {samples}
    for n in dims:
        found |= {n * number for number in found}
    return found


def _is_over_samples(node, samples, divisor):
    """Whether a sum goes over what the batch has: its samples, or parts of them in one row. The
    tokens of all texts in one row are no multiple of the samples, and are divided by their
    number, or by that of those which count."""
    shape, inputs = _shape_of_sum(node), inputs_of(node)
    if not shape or not inputs or kind_of(inputs[0]) == "StackBackward" or of_parameters(node):
        return False
    rows = shape[0]
    in_one_row = len(shape) == 1 and rows > samples and rows % samples == 0
    if rows == samples or in_one_row or _chosen(node) is not None:
        return True
    return divisor is not None and samples <= float(divisor) <= rows


def _is_mean_over_samples(node, samples):
    """A mean over the first dimension alone, as a sum over the others takes it."""
    return (
        type(node).__name__ == "MeanBackward1"
        and tuple(node._saved_dim) == (0,)
        and node._saved_self_sym_sizes[0] == samples
    )


def _is_sum_over_samples(node, samples):
    """Over the first dimension, if no other may be that of the samples."""
    return (
        type(node).__name__ == "SumBackward1"
        and 0 in node._saved_dim
        and node._saved_self_sym_sizes[0] == samples
        and samples not in shape_out(node)
    )


def _means_behind(node, samples):
    """Those that a mean of means is over, if some are over rows that were chosen, as of a class."""
    stack = inputs_of(node)[:1]
    if not stack or kind_of(stack[0]) != "StackBackward" or loop_over_samples(stack[0], samples):
        return ()
    means = inputs_of(stack[0])[:_NODES_MOST]
    some = any(_chosen(m) is not None for m in means)
    return means if some and all(_role(m) is _MEANS for m in means) else ()


def _is_one_number(value):
    return not isinstance(value, torch.Tensor) or value.numel() == 1


def _is_quotient(behind):
    """Whether values are divided by one number that was computed of them all, before they are
    added: a cosine of the whole batch."""
    for _ in range(DEPTH_MOST):
        if not behind or kind_of(behind[0]) not in ("MulBackward", "DivBackward"):
            return False
        inputs = inputs_of(behind[0])
        if kind_of(behind[0]) == "DivBackward" and len(inputs) == 2:
            one = all(n == 1 for n in shape_out(inputs[1]))
            return one and not of_parameters(inputs[1])
        behind = inputs
    return False


def _reciprocal(products):
    """What a sum was divided by, if these multiply it; None: not known without waiting."""
    factor = 1.0
    for node in products:
        value = constant_of(node)
        waits = isinstance(value, torch.Tensor) and not value.is_cpu
        if value is None or waits or len(inputs_of(node)) == 2:  # a factor that is learned
            return None
        factor *= abs(float(value))
    return 1 / factor if factor else None


def _factor(divisor, products):
    """By what a mean is scaled; None: not known without waiting."""
    waits = isinstance(divisor, torch.Tensor) and not divisor.is_cpu
    scale = _reciprocal(products) if products else 1.0
    return None if waits or not scale else 1 / scale / float(1 if divisor is None else divisor)


def _is_whole(number):
    return number > 0.5 and abs(number - round(number)) < ROUNDING * number


class _Found:
    """What a loss consists of."""

    def __init__(self, end, samples, whole):
        self.samples, self.whole = samples, whole
        self.totals = []  # what its parts were divided by; None: by the samples
        self.sums = 0  # parts that nothing divides
        self.ratio = self.curved = self.by_program = self.scaled = self.normalized = False
        self.by_all = False  # the batch size divides one, or what has its size as a factor
        self.by_either = False  # the batch size, which is the number of this node's values as well
        self.values = []  # of means that are over other values than so many of each sample
        nodes, seen = [(end, None, (), False)], 0
        while nodes and seen < _NODES_MOST:
            seen += 1
            nodes += self._look(*nodes.pop())

    def _look(self, node, divisor, products, curved):
        """The nodes behind it; divisor: the nearest tensor or number by which they are divided;
        products: nodes that multiply them by one; curved: a function that is not linear stands
        before it."""
        role = _role(node)
        if role is _MEANS and (means := _means_behind(node, self.samples)):
            return [(n, divisor, products, curved) for n in means]
        if role is _THROUGH:
            return self._behind(node, kind_of(node), divisor, products, curved)
        if role == () and _is_product_over_samples(node, self.samples):
            self._divide(divisor, products)
            return ()
        if role == () and kind_of(node) in _MOVES and math.prod(shape_out(node)) == 1:
            return [(n, divisor, products, curved) for n in inputs_of(node)]
        if role == ():
            return self._take_curve(node, divisor, products)
        self.curved = self.curved or (curved and not of_parameters(node))
        if curved:
            return ()
        if role is _SUMS:
            self._take_sum(node, divisor, products)
        elif role is _DIVIDES or role is _MEANS:
            self._take_mean(node, role, divisor, products)
        return ()

    def _take_curve(self, node, divisor, products):
        kind = kind_of(node)
        if is_squared_norm(node):
            self._take_sum(inputs_of(node)[0], divisor, products)
            return ()
        if kind in _EXTREMES:
            self.curved = self.curved or not all(map(of_parameters, inputs_of(node)))
        elif kind in _CURVES and shape_out(node) == ():
            return [(n, None, (), True) for n in inputs_of(node)]
        return ()

    def _behind(self, node, kind, divisor, products, curved):
        inputs = inputs_of(node)
        losses = loop_over_samples(node, self.samples)
        if losses:
            by_all = divisor is not None and float(divisor) == self.samples
            if not by_all and not have_own_divisors(losses):
                divisor, products, _ = self._scaled_within(losses[:1], divisor, products)
            self._divide(divisor, products)
            return ()
        if kind == "DivBackward" and len(inputs) == 2:
            self.ratio = self.ratio or not any(map(of_parameters, inputs))
            return ()
        if kind == "DivBackward":
            by = constant_of(node)
            divisor = by if by is not None and _is_one_number(by) else divisor
        elif kind == "MulBackward":  # by a factor of the program's own, or a scaler's
            products = (*products, node)
            if len(inputs) == 2 and shape_out(node) == ():
                self.curved = self.curved or not any(map(of_parameters, inputs))
        return [(n, divisor, products, curved) for n in inputs]

    def _take_mean(self, node, role, divisor, products):
        if type(node).__name__ != "MeanBackward0":
            reduction = node._saved_reduction
            if reduction == _SUM:
                self._take_sum(node, divisor, products)
            elif reduction == _MEAN and role is _DIVIDES:
                self.totals.append(None if self._is_part(node, divisor, products) else node)
            elif reduction == _MEAN:
                self._take_mean_of_values(node)
            return
        behind = inputs_of(node)
        if behind and _is_sum_over_samples(behind[0], self.samples):
            self._take_sum(behind[0], divisor, products)
        else:
            self._take_mean_of_values(node)

    def _take_mean_of_values(self, node):
        chosen = _chosen(node)
        self.totals.append(chosen)
        if chosen is None and _is_ragged(node, self.samples):
            self.values.append(math.prod(shape_out(inputs_of(node)[0])))

    def _is_part(self, node, divisor, products):
        """Whether a mean is over a part of the batch and counts as much: one that is too large for
        the memory goes through the network in parts, each loss times the part, or divided by their
        number."""
        target, factor = node._saved_target, _factor(divisor, products)
        if factor is None or not 0 < factor < 1 or not target.is_cpu:
            return False
        rows = target.numel()
        if float(node._saved_total_weight) != rows:
            return False
        each = rows / (factor * self.samples)
        parts = round(1 / factor)
        is_one_of = abs(parts * factor - 1) < ROUNDING and abs(parts * rows - self.samples) < parts
        return is_one_of or (_is_whole(each) and rows % self.samples != 0)

    def _take_sum(self, node, divisor, products):
        behind = inputs_of(node)
        if behind and _is_mean_over_samples(behind[0], self.samples):
            self.totals.append(None)
            return
        if behind and loop_over_samples(behind[0], self.samples):
            self._divide(divisor, products)
            return
        if not _is_over_samples(node, self.samples, divisor):
            return
        if _is_quotient(behind):
            self.ratio = True
            return
        divisor, products, weights = self._scaled_within(behind, divisor, products)
        if divisor is None and weights is not None and abs(float(weights.sum()) - 1) < 1e-3:
            self.normalized = True
        else:
            self._divide(divisor, products, tuple(_shape_of_sum(node))[1:])

    def _divide(self, divisor, products, dims=()):
        """A sum over the samples; dims: what it goes over beside them."""
        if divisor is not None:
            divisor, self.by_program = float(divisor), True
        elif products:
            divisor = _reciprocal(products)
            if divisor is None:
                return
            if not _is_whole(divisor):
                self.scaled = True
                return
            divisor, self.by_program = float(round(divisor)), True
        else:
            self.sums += 1
            return
        self.totals.append(None if divisor == self.samples else divisor)
        if self.samples < self.whole and divisor in _numbers(self.whole, dims[:_DIMS_MOST]):
            own = divisor in _numbers(self.samples, dims[:_DIMS_MOST])
            self.by_all |= not own
            self.by_either |= own and divisor == self.whole

    def _scaled_within(self, behind, divisor, products):
        """By what the values are scaled before they are added, and what weighs them."""
        for _ in range(DEPTH_MOST):
            if len(behind) != 1 or kind_of(behind[0]) not in ("MulBackward", "DivBackward"):
                break
            node = behind[0]
            by, behind = constant_of(node), inputs_of(node)
            if by is None or len(behind) != 1:
                break
            if not _is_one_number(by):
                weighs = by.is_cpu and 1 < by.numel() and by.shape[0] == self.samples
                return divisor, products, by if weighs else None
            if kind_of(node) == "DivBackward":
                divisor = by
            else:
                products = (*products, node)
        return divisor, products, None


def _asks_of_gpu(node, samples):
    """Reading a number of a GPU waits for it: where nothing says that it differs it is not read."""
    target = node._saved_target
    plain = node._saved_weight is None and node._saved_ignore_index == -100
    return target.is_cpu or not plain or target.numel() != samples


def _number(total, samples):
    if total is None or isinstance(total, (int, float)):
        return float(samples if total is None else total)
    if not _asks_of_gpu(total, samples):
        return float(samples)
    return float(total._saved_total_weight)


def _apart(totals):
    """Those of them that differ by more than rounding does, as sums in another order do."""
    kept = []
    for total in sorted(totals):
        if not kept or total - kept[-1] > ROUNDING * total:
            kept.append(total)
    return set(kept)


def counted_by(end, samples, whole):
    """(what the loss is a mean over, or None: the samples; what the program is told, or None;
    numbers of values that means are over, which are not as many of each sample). end: the node
    that gives the loss, or None; whole: samples of the global batch. Refuses a loss that is a
    sum."""
    if end is None or not samples:
        return None, None, ()
    found = _Found(end, samples, whole)
    totals = _apart({_number(total, samples) for total in found.totals})
    if found.normalized:
        raise Error(NORMALIZED)
    if found.sums and not totals:
        raise Error(IS_SUM)
    told = _told_of_sums(found, totals, samples, whole)
    if len(totals) > 1:  # of pixels and of latent numbers, so many a sample, they are one
        alike = all(is_multiple(total, samples) for total in totals)
        if not alike and told in (None, DIVIDED_ALIKE):
            told = SEVERAL_MEANS
        return None, told, found.values
    told = told or (RATIO if found.ratio else CURVED if found.curved else None)
    return (None if totals <= {float(samples)} else totals.pop()), told, found.values


def is_multiple(total, samples):
    return abs(total - round(total / samples) * samples) < ROUNDING * total


def _told_of_sums(found, totals, samples, whole):
    """What a sum that was divided by no number of the batch's own is told."""
    odd = {total for total in totals if not is_multiple(total, samples)}
    if found.scaled or (found.sums and totals):
        return SCALED
    if found.by_either:
        return EITHER
    if not odd and found.by_all:  # by chance a multiple of this node's samples
        return DIVIDED_ALIKE
    if not found.by_program or not odd:
        return None
    if odd == {float(whole)} and samples < whole:
        return DIVIDED_BY_ALL
    return HALVED if min(odd) <= 2 < samples else DIVIDED_ALIKE
