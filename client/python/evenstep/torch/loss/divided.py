"""What a batch's loss was divided by, by autograd's graph.

A mean over samples has the number of samples as its weight. A cross entropy with class weights
divides by the weights of the labels, one with `ignore_index` by the number of labels that count,
`losses[mask].mean()` by the number of chosen losses, `(losses * mask).sum() / mask.sum()` by the
mask's sum. Where a batch is shared out, each node divides by its own. So the batch's weight is its
loss's divisor, and the mean over nodes is that of the whole batch. A loss that torch.compile made
has no such graph.

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
from .graph import DEPTH_MOST, LINEAR, constant_of, inputs_of, is_squared_norm, kind_of
from .graph import of_parameters, shape_out
from .looped import have_own_divisors, loop_over_samples
from .rows import EXTREMES, NODES_MOST, chosen, is_by_time, is_mean, is_mean_over_samples
from .rows import is_over_samples, is_product_over_samples, is_ragged, is_sum_over_samples
from .rows import means_behind, numbers, shape_of_sum
from .told import AVERAGED, CURVED, DIVIDED_ALIKE, DIVIDED_BY_ALL, EITHER, HALVED, IS_SUM
from .told import NORMALIZED, RATIO, SCALED, SEVERAL_MEANS

DIVIDES = {"NllLossBackward0", "NllLoss2DBackward0"}
_MEANS = "means"  # rows.py
SUMS = {"SumBackward0", "SumBackward1", "NansumBackward0", "DotBackward0"}
_THROUGH = LINEAR | {"MulBackward", "DivBackward"}
_MOVES = {"PermuteBackward", "UnsafeViewBackward", "ReshapeAliasBackward"}
# functions that are not linear; looked at where the result is one number
_CURVES = {"PowBackward", "AbsBackward", "SqrtBackward", "RsqrtBackward", "ReciprocalBackward"}
_CURVES |= {"ExpBackward", "LogBackward", "Log1PBackward", "Log2Backward", "Log10Backward"}
_CURVES |= {"ClampBackward", "ClampMinBackward", "ReluBackward", "SoftplusBackward"}
_CURVES |= {"TanhBackward", "SigmoidBackward"}
_DIMS_MOST = 6
ROUNDING = 1e-6
MEAN, SUM = 1, 2  # torch's numbers for these reductions

_roles = {}  # by a node's class: the set above that it is in


def _role(node):
    """The set above that a node is in, or ()."""
    if is_mean(node):
        return _MEANS
    role = _roles.get(type(node))
    if role is None:
        name, through = type(node).__name__, _THROUGH if kind_of(node) in _THROUGH else ()
        role = next((s for s in (DIVIDES, SUMS) if name in s), through)
        _roles[type(node)] = role
    return role


def _is_one_number(value):
    return not isinstance(value, torch.Tensor) or value.numel() == 1


def _is_quotient(behind):
    """Whether values are divided, before they are added, by one number computed of them all, like a
    cosine of the whole batch."""
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
    """The divisor of a sum that these products multiply; None: not known without waiting for a
    GPU."""
    factor = 1.0
    for node in products:
        value = constant_of(node)
        waits = isinstance(value, torch.Tensor) and not value.is_cpu
        if value is None or waits or len(inputs_of(node)) == 2:  # a factor that is learned
            return None
        factor *= abs(float(value))
    return 1 / factor if factor else None


def _factor(divisor, products):
    """The factor of a mean; None: not known without waiting for a GPU."""
    waits = isinstance(divisor, torch.Tensor) and not divisor.is_cpu
    scale = _reciprocal(products) if products else 1.0
    return None if waits or not scale else 1 / scale / float(1 if divisor is None else divisor)


def _share(divisor):
    """The share of the values that count, which divides a mean: `(losses * mask).mean() /
    mask.mean()`. It may be 0. None: nothing divides the mean, or a number of the program's own,
    which autograd keeps as a double or a whole number."""
    if not isinstance(divisor, torch.Tensor) or not divisor.is_cpu:
        return None
    share = float(divisor)
    own = divisor.dtype in (torch.float64, torch.int64) and not 0 < share < 1
    return share if 0 <= share < math.inf and not own else None


def _is_of_a_tensor(factor):
    """Whether a factor comes from a tensor. A number of Python's, such as a mixup's or one that
    grows with the epochs, does not."""
    one = isinstance(factor, torch.Tensor) and factor.numel() == 1
    return one and factor.dtype not in (torch.float64, torch.int64)


def _is_whole(number):
    return number > 0.5 and abs(number - round(number)) < ROUNDING * number


class _Found:
    """The parts of a loss."""

    def __init__(self, end, samples, whole):
        self.samples, self.whole = samples, whole
        self.totals = []  # the divisors of its parts; None: the samples
        self.sums = 0  # parts that nothing divides
        self.ratio = self.curved = self.by_program = self.scaled = self.normalized = False
        self.by_batch = False  # the divisor of a part was computed of tensors
        self.by_all = False  # the divisor of a part is the global batch size, or has it as a factor
        # the divisor is the global batch size, but also the number of this node's values
        self.by_either = False
        self.values = []  # numbers of values of means that do not have equally many of each sample
        self.shares = []  # the shares that divide means
        self.factors = []  # tensors of one number that multiply means
        self.averaged = self.by_time = False  # weights whose mean is 1; a sum whose rows are times
        nodes, seen = [(end, None, (), False)], 0
        while nodes and seen < NODES_MOST:
            seen += 1
            nodes += self._look(*nodes.pop())

    def _look(self, node, divisor, products, curved):
        """Takes in a node, and returns those inputs that are to be looked at. divisor: the nearest
        tensor or number that divides the node; products: nodes that multiply it by a number;
        curved: a function that is not linear comes after it."""
        role = _role(node)
        if role is _MEANS and (means := means_behind(node, self.samples)):
            return [(n, divisor, products, curved) for n in means]
        if role is _THROUGH:
            return self._behind(node, kind_of(node), divisor, products, curved)
        if role == () and is_product_over_samples(node, self.samples):
            self._divide(divisor, products)
            return ()
        if role == () and kind_of(node) in _MOVES and math.prod(shape_out(node)) == 1:
            return [(n, divisor, products, curved) for n in inputs_of(node)]
        if role == ():
            return self._take_curve(node, divisor, products)
        self.curved = self.curved or (curved and not of_parameters(node))
        if curved:
            return ()
        if role is SUMS:
            self._take_sum(node, divisor, products)
        elif role is DIVIDES or role is _MEANS:
            self._take_mean(node, role, divisor, products)
        return ()

    def _take_curve(self, node, divisor, products):
        kind = kind_of(node)
        if is_squared_norm(node):
            self._take_sum(inputs_of(node)[0], divisor, products)
            return ()
        if kind in EXTREMES:
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
        elif kind == "MulBackward":  # by the program's own factor, or a loss scaler's
            products = (*products, node)
            if len(inputs) == 2 and shape_out(node) == ():
                self.curved = self.curved or not any(map(of_parameters, inputs))
        return [(n, divisor, products, curved) for n in inputs]

    def _take_mean(self, node, role, divisor, products):
        if kind_of(node) != "MeanBackward":
            reduction = node._saved_reduction
            if reduction == SUM:
                self._take_sum(node, divisor, products)
            elif reduction == MEAN and role is DIVIDES:
                self.totals.append(None if self._is_part(node, divisor, products) else node)
            elif reduction == MEAN:
                self._take_mean_of_values(node, divisor, products)
            return
        behind = inputs_of(node)
        if behind and is_sum_over_samples(behind[0], self.samples):
            self._take_sum(behind[0], divisor, products)
        else:
            self._take_mean_of_values(node, divisor, products)

    @staticmethod
    def _values_of(node):
        """How many values a mean is over."""
        inputs = inputs_of(node)
        return math.prod(shape_out(inputs[0])) if inputs else 0

    def _take_mean_of_values(self, node, divisor, products):
        rows, values = chosen(node), self._values_of(node)
        if divisor is not None and any(constant_of(n) == values for n in products if values):
            self._divide(divisor, ())  # a mean times the number of its values is their sum
            return
        self.totals.append(rows)
        if rows is None and is_ragged(node, self.samples):
            self.values.append(math.prod(shape_out(inputs_of(node)[0])))
        if of_parameters(node):
            return
        within, _, weights = self._scaled_within(inputs_of(node), None, ())
        if weights is not None and weights.numel() == self.samples:
            mean, least = float(weights.double().mean()), float(weights.min())
            self.averaged |= abs(mean - 1) < 1e-5 and least < 1 - 1e-3
        shares = [s for s in (_share(divisor), _share(within)) if s is not None]
        self.shares += shares[:1]
        constants = map(constant_of, (n for n in products if len(inputs_of(n)) == 1))
        self.factors += [c for c in constants if _is_of_a_tensor(c)]

    def _is_part(self, node, divisor, products):
        """Whether a mean is over a part of the batch and is scaled to that part. A batch that is
        too large for the memory goes through the network in parts; each part's loss is multiplied
        by its share, or divided by the number of parts."""
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
        if behind and is_mean_over_samples(behind[0], self.samples):
            self.totals.append(None)
            return
        if behind and loop_over_samples(behind[0], self.samples):
            self._divide(divisor, products)
            return
        if not is_over_samples(node, self.samples, divisor):
            self._take_other_sum(node, divisor, products)
            return
        if _is_quotient(behind):
            self.ratio = True
            return
        divisor, products, weights = self._scaled_within(behind, divisor, products)
        if divisor is None and weights is not None and abs(float(weights.sum()) - 1) < 1e-3:
            self.normalized = True
        else:
            self._divide(divisor, products, tuple(shape_of_sum(node))[1:])

    def _take_other_sum(self, node, divisor, products):
        """Takes a sum over values that do not look like samples."""
        rows = shape_of_sum(node)[:1]
        if divisor is None and not products:
            self.by_time |= is_by_time(node, self.samples)
        elif rows and divisor is not None and float(divisor) == rows[0] and rows[0] % self.samples:
            self.values += [] if of_parameters(node) else [int(rows[0])]  # their mean

    def _divide(self, divisor, products, dims=()):
        """Takes a sum over the samples. dims: its other dimensions."""
        if divisor is not None:
            self.by_batch |= _is_of_batch(divisor)
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
        if self.samples < self.whole and divisor in numbers(self.whole, dims[:_DIMS_MOST]):
            own = divisor in numbers(self.samples, dims[:_DIMS_MOST])
            self.by_all |= not own
            self.by_either |= own and divisor == self.whole

    def _scaled_within(self, behind, divisor, products):
        """The divisor and the products of the values before they are added, and the tensor that
        weighs them."""
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
    """Whether the divisor is worth reading. Reading a number waits for the GPU, so it is not read
    where nothing says that it differs from the samples."""
    target = node._saved_target
    plain = node._saved_weight is None and node._saved_ignore_index == -100
    return target.is_cpu or not plain or target.numel() != samples


def number_of(total, samples):
    if total is None or isinstance(total, (int, float)):
        return float(samples if total is None else total)
    if not _asks_of_gpu(total, samples):
        return float(samples)
    return float(total._saved_total_weight)


def _apart(totals):
    """The divisors that differ by more than the rounding of sums in another order."""
    kept = []
    for total in sorted(totals):
        if not kept or total - kept[-1] > ROUNDING * total:
            kept.append(total)
    return set(kept)


class Counted:
    """What was found of one batch's loss. total: what it is a mean over; None: the samples. told:
    what the program is told, or None. The others say nothing for one batch alone. values: numbers
    of values of means that do not have equally many of each sample. shares: the divisors of several
    means. factors: the tensors that multiply them."""

    def __init__(self, total=None, told=None, values=(), shares=(), factors=()):
        self.total, self.told, self.values = total, told, values
        self.shares, self.factors = list(shares), factors


def counted_by(end, samples, whole):
    """end: the node of the loss, or None; whole: samples of the global batch. Refuses a loss that
    is a sum."""
    if end is None or not samples:
        return Counted()
    found = _Found(end, samples, whole)
    totals = _apart({number_of(total, samples) for total in found.totals})
    if found.normalized:
        raise Error(NORMALIZED)
    if found.sums and not totals:
        raise Error(IS_SUM)
    told = _told_of_sums(found, totals, samples, whole)
    # means over pixels and over latent numbers, equally many a sample, count as one
    if len(totals) > 1:
        alike = all(is_multiple(total, samples) for total in totals)
        if not alike and told in (None, DIVIDED_ALIKE):
            told = SEVERAL_MEANS
        return Counted(None, told, found.values, found.shares, found.factors)
    told = told or (RATIO if found.ratio else CURVED if found.curved else None)
    told = told or (AVERAGED if found.averaged else IS_SUM if found.by_time else None)
    total = None if totals <= {float(samples)} else totals.pop()
    if len(found.totals) == len(found.shares) == 1:
        return Counted((total or samples) * found.shares[0], told, found.values)
    return Counted(total, told, found.values, found.shares, found.factors)


def is_multiple(total, samples):
    return abs(total - round(total / samples) * samples) < ROUNDING * total


def _is_of_batch(divisor):
    """Whether a divisor was computed of the batch. Autograd keeps Python's numbers in 64 bits, and
    `mask.sum()` in the mask's type."""
    return isinstance(divisor, torch.Tensor) and divisor.dtype not in (torch.float64, torch.int64)


def _told_of_sums(found, totals, samples, whole):
    """What the program is told about a sum whose divisor is not the batch's own."""
    odd = {total for total in totals if not is_multiple(total, samples)}
    if found.scaled or (found.sums and totals):
        return SCALED
    if found.by_either:
        return EITHER
    if not odd and found.by_all:  # the divisor is by chance a multiple of this node's samples
        return DIVIDED_ALIKE
    if not found.by_program or not odd:
        return None
    if odd == {float(whole)} and samples < whole:
        return DIVIDED_BY_ALL
    return HALVED if min(odd) <= 2 < samples and not found.by_batch else DIVIDED_ALIKE
