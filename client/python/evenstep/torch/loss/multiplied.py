"""Whether a loss is a mean times its own count, like YOLO's. Then it is a sum.

The factor is a number of the program's own, so it may be a constant that equals the node's share by
chance. It is not if it changes when the share changes.

    loss ─ mul by 20 ─ add ─┬─ mean               20 samples: a sum over them
                            └─ mul by 0.05 ─ mean
"""

import torch

from .graph import LINEAR, constant_of, inputs_of, kind_of, of_parameters, shape_out

_NODES_MOST = 32
_ADDS = {"SumBackward", "MeanBackward"}  # they add several losses in one tensor


def _number(node):
    """The number by which a node multiplies or divides; None: it is several numbers, a learned one,
    or on a GPU."""
    by = constant_of(node) if len(inputs_of(node)) == 1 else None
    if isinstance(by, torch.Tensor):
        by = float(by) if by.is_cpu and by.numel() == 1 else None
    return by


def _counts(node, samples):
    """The counts of a mean: samples, and labels that count."""
    if kind_of(node) not in ("NllLossBackward", "NllLoss2DBackward"):
        return {samples}
    return {samples, float(node._saved_total_weight)} if node._saved_target.is_cpu else {samples}


def _behind(node, samples):
    """The inputs of a node that adds or scales; None: the node makes a loss."""
    kind, inputs = kind_of(node), inputs_of(node)
    if kind in LINEAR or (kind in ("MulBackward", "DivBackward") and _number(node) is not None):
        return inputs
    if kind in _ADDS and inputs and kind_of(inputs[0]) in ("MulBackward", "StackBackward"):
        shape = shape_out(inputs[0])
        return inputs if len(shape) == 1 and shape[0] < samples else None
    return inputs if kind == "StackBackward" else None


def is_times_its_count(end, samples):
    """Whether each part of the loss at node `end`, except penalties of parameters, is multiplied by
    its number of samples or labels and not divided by it."""
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
