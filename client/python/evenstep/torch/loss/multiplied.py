"""Whether a loss is a mean times the number of what it is over, as YOLO's is: then it is a sum.

The number is one of the program's own, so it may be a constant that is the node's share by chance.
It is none once the share has changed and the number with it.

    loss ─ mul by 20 ─ add ─┬─ mean               20 samples: a sum over them
                            └─ mul by 0.05 ─ mean
"""

import torch

from .graph import LINEAR, constant_of, inputs_of, kind_of, of_parameters, shape_out

_NODES_MOST = 32
_ADDS = {"SumBackward", "MeanBackward"}  # of several losses in one tensor


def _number(node):
    """By which it multiplies or divides; None: by many, by one that is learned, or on a GPU."""
    by = constant_of(node) if len(inputs_of(node)) == 1 else None
    if isinstance(by, torch.Tensor):
        by = float(by) if by.is_cpu and by.numel() == 1 else None
    return by


def _counts(node, samples):
    """The numbers of what a mean is over: samples, and labels that count."""
    if kind_of(node) not in ("NllLossBackward", "NllLoss2DBackward"):
        return {samples}
    return {samples, float(node._saved_total_weight)} if node._saved_target.is_cpu else {samples}


def _behind(node, samples):
    """What a node that adds or scales has behind it, or None: it is where a loss is made."""
    kind, inputs = kind_of(node), inputs_of(node)
    if kind in LINEAR or (kind in ("MulBackward", "DivBackward") and _number(node) is not None):
        return inputs
    if kind in _ADDS and inputs and kind_of(inputs[0]) in ("MulBackward", "StackBackward"):
        shape = shape_out(inputs[0])
        return inputs if len(shape) == 1 and shape[0] < samples else None
    return inputs if kind == "StackBackward" else None


def is_times_its_count(end, samples):
    """Each part of the loss that `end` gives, but for penalties of parameters, is multiplied by the
    number of samples or labels that it is over, and not divided by it."""
    nodes, parts, seen = [(end, ())], 0, 0
    while nodes and seen < _NODES_MOST:
        node, factors = nodes.pop()
        seen += 1
        behind = _behind(node, samples)
        if behind is None:
            if of_parameters(node):
                continue
            if not factors or _counts(node, samples).isdisjoint(factors):
                return False
            parts += 1
            continue
        kind = kind_of(node)
        if kind == "DivBackward" and _number(node) == samples:
            return False
        if kind == "MulBackward":
            factors = (*factors, _number(node))
        nodes += [(n, factors) for n in behind]
    return parts > 0 and not nodes
