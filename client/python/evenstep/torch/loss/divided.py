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

import torch

from ...run import Error
from .compared import compares
from .graph import DEPTH_MOST, LINEAR, VALUE_BY_VALUE, constant_of, inputs_of, kind_of
from .graph import of_parameters, shape_out
from .looped import have_own_divisors, loop_over_samples
from .multiplied import is_times_its_count

_DIVIDES = {"NllLossBackward0", "NllLoss2DBackward0"}
_MEANS = {
    "MeanBackward0",
    "MseLossBackward0",
    "SmoothL1LossBackward0",
    "HuberLossBackward0",
    "BinaryCrossEntropyBackward0",
    "BinaryCrossEntropyWithLogitsBackward0",
    "KlDivBackward0",
}
_SUMS = {"SumBackward0", "SumBackward1", "NansumBackward0", "DotBackward0"}
_THROUGH = LINEAR | {"MulBackward", "DivBackward"}
_CHOOSES = {"IndexBackward", "MaskedSelectBackward"}
# of one number
_CURVES = {"PowBackward", "AbsBackward", "SqrtBackward", "RsqrtBackward", "ReciprocalBackward"}
_CURVES |= {"ExpBackward", "LogBackward", "Log1PBackward", "Log2Backward", "Log10Backward"}
_CURVES |= {"ClampBackward", "ClampMinBackward", "ReluBackward", "SoftplusBackward"}
_CURVES |= {"TanhBackward", "SigmoidBackward"}
# of many numbers, which are no mean of what each of them gives
_EXTREMES = {"MaxBackward", "MinBackward", "MedianBackward", "StdBackward", "VarBackward"}
_EXTREMES |= {"NormBackward", "LinalgVectorNormBackward", "LogsumexpBackward"}
_NODES_MOST = 32
_LOOKS_MOST = 4
_ALIKE_MOST = 3  # batches in a row: by chance it may be once
_ROUNDING, _ADDED = 1e-6, 1e-5
_MEAN, _SUM = 1, 2  # torch's numbers of these reductions
SEVERAL_MEANS = (
    "the loss adds means over several numbers, of samples and of labels with weights or without "
    "those that are ignored: the mean over nodes is not the loss of the whole batch; "
    "evenstep.weight(n) before backward() says what a batch counts"
)
RATIO = (
    "the loss is a quotient of two sums over the batch, as a Dice loss: each node has that of its "
    "own samples, and their mean is not the loss of the whole batch; a loss for each sample, of "
    "which the mean is taken, is the same on any number of nodes"
)
CURVED = (
    "the loss is the root, the norm, the maximum or another function of all samples of the batch "
    "that is no mean over them: each node has that of its own samples, and their mean is not the "
    "loss of the whole batch; a mean square error is the same on any number of nodes, and its root "
    "is not"
)
COMPARED = (
    "the loss compares the samples of a batch with each other (a contrastive loss, a mean or "
    "deviation over the batch within the network, the hardest samples): each node compares those "
    "of its own share, so it depends on how the batch is shared out"
)
BALANCED = (
    "the loss multiplies means over the batch by numbers that change with the batch, such as how "
    "many tokens each expert of a mixture has: if they come from the samples, each node has those "
    "of its own share, so the loss depends on how the batch is shared out"
)
SCALED = (
    "the loss has a sum over the samples of the batch in it, times or divided by a number that is "
    "not the number of its samples: if that number is a constant, the mean over nodes is not the "
    "loss of the whole batch; `loss.sum() / len(x)` is a mean, prepare(…, reduction=\"sum\") takes "
    "a sum as one, and evenstep.weight(n) before backward() says what else a batch counts"
)
NORMALIZED = (
    "the loss is a sum with weights that add up to 1 over the batch, on each node over its own "
    "samples: evenstep.weight(w.sum()) before backward(), with the weights as they were before, "
    "makes the mean over nodes that of the whole batch"
)
UNEVEN = (
    "losses.backward(gradient) gives each loss of the batch a weight of its own, and the batch "
    "counts as its samples: that is the whole batch's where the weights are divided by "
    "len(losses); evenstep.weight(n) before backward() says what else a batch counts"
)
IS_SUM = (
    "the loss is a sum over the samples of the batch, and not their mean: "
    'prepare(…, reduction="sum") says so (evenstep.weight(n) before backward() says what else a '
    "batch counts)"
)
DIVIDED_BY_ALL = (
    "the loss is a sum that is divided by %d in each step, the batch size, of which this node has "
    '%d samples: prepare(…, reduction="sum") takes it as the sum that it is, and '
    "`loss.sum() / len(x)` is a mean"
)
TIMES_COUNT = (
    "the loss is a mean times the number of the samples that this node has of the batch: unless "
    "that number is a constant, this makes a sum of it, which prepare(…, reduction=\"sum\") says"
)

# said where several batches are divided alike: so many samples may count in one by chance
HALVED, DIVIDED_ALIKE = "a sum times a half or more", "a sum divided by a number"
_OF_SEVERAL = {DIVIDED_BY_ALL, HALVED, DIVIDED_ALIKE, TIMES_COUNT}


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


def _is_over_samples(node, samples):
    """Whether a sum goes over what the batch has: its samples, or parts of them in one row."""
    if type(node).__name__ == "DotBackward0":
        shape = next(t.shape for t in (node._saved_self, node._saved_tensor) if t is not None)
    elif hasattr(node, "_saved_self_sym_sizes"):
        shape = node._saved_self_sym_sizes
    else:
        shape = node._saved_self.shape
    inputs = inputs_of(node)
    if not shape or not inputs or kind_of(inputs[0]) == "StackBackward" or of_parameters(node):
        return False
    in_one_row = len(shape) == 1 and shape[0] > samples and shape[0] % samples == 0
    return shape[0] == samples or in_one_row or _chosen(node) is not None


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
    return number > 0.5 and abs(number - round(number)) < _ROUNDING * number


class _Found:
    """What a loss consists of."""

    def __init__(self, end, samples):
        self.samples = samples
        self.totals = []  # what its parts were divided by; None: by the samples
        self.sums = 0  # parts that nothing divides
        self.ratio = self.curved = self.by_program = self.scaled = self.normalized = False
        nodes, seen = [(end, None, (), False)], 0
        while nodes and seen < _NODES_MOST:
            seen += 1
            nodes += self._look(*nodes.pop())

    def _look(self, node, divisor, products, curved):
        """The nodes behind it; divisor: the nearest tensor or number by which they are divided;
        products: nodes that multiply them by one; curved: a function that is not linear stands
        before it."""
        role = _role(node)
        if role is _THROUGH:
            return self._behind(node, kind_of(node), divisor, products, curved)
        if role == ():
            return self._take_curve(node)
        self.curved = self.curved or (curved and not of_parameters(node))
        if curved:
            return ()
        if role is _SUMS:
            self._take_sum(node, divisor, products)
        elif role is _DIVIDES or role is _MEANS:
            self._take_mean(node, role, divisor, products)
        return ()

    def _take_curve(self, node):
        kind = kind_of(node)
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
                self.totals.append(_chosen(node))
            return
        behind = inputs_of(node)
        if behind and _is_sum_over_samples(behind[0], self.samples):
            self._take_sum(behind[0], divisor, products)
        else:
            self.totals.append(_chosen(node))

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
        is_one_of = abs(parts * factor - 1) < _ROUNDING and abs(parts * rows - self.samples) < parts
        return is_one_of or (_is_whole(each) and rows % self.samples != 0)

    def _take_sum(self, node, divisor, products):
        behind = inputs_of(node)
        if behind and _is_mean_over_samples(behind[0], self.samples):
            self.totals.append(None)
            return
        if behind and loop_over_samples(behind[0], self.samples):
            self._divide(divisor, products)
            return
        if not _is_over_samples(node, self.samples):
            return
        if _is_quotient(behind):
            self.ratio = True
            return
        divisor, products, weights = self._scaled_within(behind, divisor, products)
        if divisor is None and weights is not None and abs(float(weights.sum()) - 1) < 1e-3:
            self.normalized = True
        else:
            self._divide(divisor, products)

    def _divide(self, divisor, products):
        """A sum over the samples."""
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


def counted_by(end, samples, whole):
    """(what the loss is a mean over, or None: the samples; what the program is told, or None).
    end: the node that gives the loss, or None; whole: samples of the global batch. Refuses a loss
    that is a sum."""
    if end is None or not samples:
        return None, None
    found = _Found(end, samples)
    totals = {_number(total, samples) for total in found.totals}
    if found.normalized:
        raise Error(NORMALIZED)
    if found.sums and not totals:
        raise Error(IS_SUM)
    told = _told_of_sums(found, totals, samples, whole)
    if len(totals) > 1:  # of pixels and of latent numbers, so many a sample, they are one
        alike = all(_is_multiple(total, samples) for total in totals)
        return None, told or (None if alike else SEVERAL_MEANS)
    told = told or (RATIO if found.ratio else CURVED if found.curved else None)
    return (None if totals <= {float(samples)} else totals.pop()), told


def _is_multiple(total, samples):
    return abs(total - round(total / samples) * samples) < _ROUNDING * total


def _told_of_sums(found, totals, samples, whole):
    """What a sum that was divided by no number of the batch's own is told."""
    odd = {total for total in totals if not _is_multiple(total, samples)}
    if found.scaled or (found.sums and totals):
        return SCALED
    if not found.by_program or not odd:
        return None
    if odd == {float(whole)} and samples < whole:
        return DIVIDED_BY_ALL
    return HALVED if min(odd) <= 2 < samples else DIVIDED_ALIKE


def _refuse_sum(each, samples, whole):
    """One and the same number for each loss makes a sum of them, unless it is one by how many they
    are."""
    by = 1 / abs(each)
    if abs(by - whole) < _ROUNDING * by and samples < whole:
        raise Error(DIVIDED_BY_ALL % (whole, samples))
    if not (_is_multiple(by, samples) and by > 0.5):
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
    """What the batches of a run weigh, and what the program is told of it, once."""

    def __init__(self, run):
        self.run, self.said = run, set()
        self._last, self._alike = None, 0  # batches in a row that were divided by one number
        self._unseen = _LOOKS_MOST  # passes of which the whole graph is looked at
        self._numbers = []  # what multiplied means over the batch in the last of them

    def of(self, loss, samples, scaled=False):
        """None: its samples. scaled: a GradScaler has multiplied the loss."""
        end = None if loss is None else loss.grad_fn
        if scaled and end is not None:
            end = next(iter(inputs_of(end)), None)
        total, told = counted_by(end, samples, self.run.global_batch)
        if not told and self._unseen and end is not None and samples > 1:
            self._unseen -= 1
            told = self._look(end, samples)
        if not told and end is not None and samples > 1 and is_times_its_count(end, samples):
            told = self._after_several(TIMES_COUNT, samples, samples)
        elif told in _OF_SEVERAL:
            told = self._after_several(told, total, samples)
        elif end is not None:
            self._last = None
        self._say(told)
        return total

    def _look(self, end, samples):
        before, self._numbers = self._numbers, []
        if compares(end, samples, self._numbers):
            return COMPARED
        self._numbers = [by.detach().clone() for by in self._numbers]
        alike = [torch.equal(a, b) for a, b in zip(before, self._numbers)]
        return None if all(alike) else BALANCED

    def judge(self, values, gradient, samples):
        """Of a pass that begins at a loss for each sample, which get this gradient."""
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
            raise Error(IS_SUM)  # the number has followed the node's share
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
        return TIMES_COUNT if told is TIMES_COUNT else SCALED
