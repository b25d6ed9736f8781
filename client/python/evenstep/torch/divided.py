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
                             └─ sum                divided by nothing: the loss is a sum
"""

import torch

from ..run import Error

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
_SUMS = {"SumBackward0", "SumBackward1", "DotBackward0"}
# numbered: torch has one for tensors and one for a number
_THROUGH = {"AddBackward", "SubBackward", "RsubBackward", "MulBackward", "DivBackward"}
_THROUGH |= {"NegBackward", "ToCopyBackward", "ViewBackward", "SqueezeBackward"}
# between values of a tensor and those that are chosen of it
_VALUE_BY_VALUE = _THROUGH | {"PowBackward", "AbsBackward", "SqrtBackward", "ExpBackward"}
_VALUE_BY_VALUE |= {"LogBackward", "ClampBackward", "ClampMinBackward", "SelectBackward"}
_VALUE_BY_VALUE |= {"UnsafeViewBackward", "UnsqueezeBackward", "SoftplusBackward"}
_VALUE_BY_VALUE |= {"ReshapeAliasBackward", "TBackward", "ExpandBackward"}
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
_DEPTH_MOST = 8
_BY_ALL_MOST = 3  # by chance it may be once
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


_kinds = {}  # by a node's class: its name without the number
_roles = {}  # what of the sets above it is in


def _kind(node):
    kind = _kinds.get(type(node))
    if kind is None:
        kind = _kinds[type(node)] = type(node).__name__.rstrip("0123456789")
    return kind


def _role(node):
    """The set of those above that it is in; of those for values the first alone."""
    role = _roles.get(type(node))
    if role is None:
        name, through = type(node).__name__, _THROUGH if _kind(node) in _THROUGH else ()
        role = next((s for s in (_DIVIDES, _MEANS, _SUMS) if name in s), through)
        _roles[type(node)] = role
    return role


def _shape_out(node):
    """Of what a node gives."""
    return tuple(node._input_metadata[0].shape)


def _inputs(node):
    return [next_ for next_, _ in node.next_functions if next_ is not None]


def _chosen(node):
    """Of how many rows that were chosen by a mask or an index a mean is; None: of all."""
    for _ in range(_DEPTH_MOST):
        inputs = _inputs(node)
        if not inputs:
            return None
        found = next((n for n in inputs if _kind(n) in _CHOOSES), None)
        if found is not None:
            shape = _shape_out(found)
            return shape[0] if shape else None
        node = inputs[0]
        if _kind(node) not in _VALUE_BY_VALUE:
            return None
    return None


def _of_parameters(node):
    """A penalty or a factor that is learned: no samples are in it."""
    for _ in range(_DEPTH_MOST):
        if type(node).__name__ == "AccumulateGrad":
            return True
        inputs = _inputs(node)
        if _kind(node) not in _VALUE_BY_VALUE | {"SumBackward", "StackBackward"} or not inputs:
            return False
        node = inputs[0]
    return False


def _is_over_samples(node, samples):
    """Whether a sum goes over what the batch has: its samples, or parts of them in one row."""
    if type(node).__name__ == "DotBackward0":
        shape = next(t.shape for t in (node._saved_self, node._saved_tensor) if t is not None)
    elif hasattr(node, "_saved_self_sym_sizes"):
        shape = node._saved_self_sym_sizes
    else:
        shape = node._saved_self.shape
    inputs = _inputs(node)
    if not shape or not inputs or _kind(inputs[0]) == "StackBackward" or _of_parameters(node):
        return False
    in_one_row = len(shape) == 1 and shape[0] > samples and shape[0] % samples == 0
    return shape[0] == samples or in_one_row or _chosen(node) is not None


class _Found:
    """What a loss consists of."""

    def __init__(self, loss, samples):
        self.samples = samples
        self.totals = []  # what its parts were divided by; None: by the samples
        self.sums = 0  # parts that nothing divides
        self.ratio = self.curved = self.by_program = False
        nodes, seen = [(loss.grad_fn, None, False, False)], 0
        while nodes and seen < _NODES_MOST:
            seen += 1
            nodes += self._look(*nodes.pop())

    def _look(self, node, divisor, scaled, curved):
        """The nodes behind it; divisor: the nearest tensor or number by which they are divided;
        curved: a function that is not linear stands before it."""
        role = _role(node)
        if role is _THROUGH:
            return self._behind(node, _kind(node), divisor, scaled, curved)
        if role == ():
            return self._take_curve(node)
        self.curved = self.curved or (curved and not _of_parameters(node))
        if curved:
            return ()
        if role is _SUMS:
            self._take_sum(node, divisor, scaled)
        elif role is _DIVIDES or role is _MEANS:
            plain = type(node).__name__ == "MeanBackward0"
            reduction = _MEAN if plain else node._saved_reduction
            if reduction == _SUM:
                self._take_sum(node, divisor, scaled)
            elif reduction == _MEAN:
                self.totals.append(node if role is _DIVIDES else _chosen(node))
        return ()

    def _take_curve(self, node):
        kind = _kind(node)
        if kind in _EXTREMES:
            self.curved = self.curved or not all(map(_of_parameters, _inputs(node)))
        elif kind in _CURVES and _shape_out(node) == ():
            return [(n, None, False, True) for n in _inputs(node)]
        return ()

    def _behind(self, node, kind, divisor, scaled, curved):
        inputs = _inputs(node)
        if kind == "DivBackward" and len(inputs) == 2:
            self.ratio = self.ratio or not any(map(_of_parameters, inputs))
            return ()
        if kind == "DivBackward":
            by = node._saved_other
            one = not isinstance(by, torch.Tensor) or by.numel() == 1
            divisor = by if by is not None and one else divisor
        elif kind == "MulBackward":
            scaled = True  # by a factor of the program's own, or a scaler's
        return [(n, divisor, scaled, curved) for n in inputs]

    def _take_sum(self, node, divisor, scaled):
        if not _is_over_samples(node, self.samples):
            return
        if divisor is None:
            self.sums += not scaled
            return
        divisor, self.by_program = float(divisor), True
        self.totals.append(None if divisor == self.samples else divisor)


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


def counted_by(loss, samples, whole):
    """(what the loss is a mean over, or None: the samples; what the program is told, or None).
    whole: samples of the global batch. Refuses a loss that is a sum."""
    if loss is None or loss.grad_fn is None or not samples:
        return None, None
    found = _Found(loss, samples)
    totals = {_number(total, samples) for total in found.totals}
    if found.sums and not totals:
        raise Error(IS_SUM)
    if len(totals) > 1:  # of pixels and of latent numbers, so many a sample, they are one
        alike = all(total % samples == 0 for total in totals)
        return None, None if alike else SEVERAL_MEANS
    told = RATIO if found.ratio else CURVED if found.curved else None
    if found.by_program and totals == {float(whole)} and samples < whole:
        told = DIVIDED_BY_ALL
    return (None if totals <= {float(samples)} else totals.pop()), told


class Divisor:
    """What the batches of a run weigh, and what the program is told of it, once."""

    def __init__(self, run):
        self.run, self.told = run, set()
        self.by_all = 0  # batches in a row that were divided by what the global batch has

    def of(self, loss, samples):
        """None: its samples."""
        total, told = counted_by(loss, samples, self.run.global_batch)
        by_all = told is DIVIDED_BY_ALL
        self.by_all = self.by_all + 1 if by_all else 0
        if self.by_all >= _BY_ALL_MOST:
            raise Error(DIVIDED_BY_ALL % (self.run.global_batch, samples))
        if told and not by_all and told not in self.told:
            self.told.add(told)
            self.run.say(told)
        return total
