"""Autograd's graph: what its nodes are, and which of them come from parameters alone."""

import torch

# a kind is a class's name without the number that torch adds: one for tensors, one for a number
LINEAR = {"AddBackward", "SubBackward", "RsubBackward", "NegBackward", "ToCopyBackward"}
LINEAR |= {"ViewBackward", "SqueezeBackward"}
# nodes between a tensor's values and the chosen ones
VALUE_BY_VALUE = LINEAR | {"MulBackward", "DivBackward", "PowBackward", "AbsBackward"}
VALUE_BY_VALUE |= {"SqrtBackward", "ExpBackward", "LogBackward", "ClampBackward"}
VALUE_BY_VALUE |= {"ClampMinBackward", "SelectBackward", "UnsafeViewBackward", "TBackward"}
VALUE_BY_VALUE |= {"UnsqueezeBackward", "SoftplusBackward", "ReshapeAliasBackward"}
VALUE_BY_VALUE |= {"ExpandBackward"}
# nodes between a penalty, a learned factor or a matrix and its parameters
_OF_PARAMETERS = VALUE_BY_VALUE | {"SumBackward", "StackBackward", "CatBackward", "PermuteBackward"}
_OF_PARAMETERS |= {"SigmoidBackward", "TanhBackward", "SoftmaxBackward", "ReciprocalBackward"}
_OF_PARAMETERS |= {"TransposeBackward", "CloneBackward", "LinalgVectorNormBackward"}
_OF_PARAMETERS |= {"Log1PBackward", "Expm1Backward"}
_OF_PARAMETERS |= {"SplitBackward", "SplitWithSizesBackward", "SliceBackward", "UnbindBackward"}
_PRODUCTS = {"MmBackward", "BmmBackward"}
PAIRS = {"AddBackward", "SubBackward", "MulBackward", "DivBackward"}
DEPTH_MOST = 8
_TERMS_MOST = 64

# nodes of PyTorch before 2.5 have no shapes, which nearly every question about a graph needs
TELLS_SHAPES = hasattr(torch.ones(1, requires_grad=True).exp().grad_fn, "_input_metadata")

_kinds = {}  # by a node's class


def kind_of(node):
    kind = _kinds.get(type(node))
    if kind is None:
        kind = _kinds[type(node)] = type(node).__name__.rstrip("0123456789")
    return kind


def shape_out(node):
    """The shape of a node's result."""
    return tuple(node._input_metadata[0].shape)


def inputs_of(node):
    return [next_ for next_, _ in node.next_functions if next_ is not None]


def constant_of(node):
    """The factor of a product, or divisor of a quotient, that is not in the graph."""
    other = node._saved_other
    return node._saved_self if other is None and kind_of(node) == "MulBackward" else other


def is_squared_norm(node):
    """Whether a node is a squared norm, which is a sum of squares."""
    behind = inputs_of(node)
    if kind_of(node) != "PowBackward" or getattr(node, "_saved_exponent", 0) != 2 or not behind:
        return False
    return kind_of(behind[0]) == "LinalgVectorNormBackward" and behind[0]._saved_ord == 2


def has_penalty(end):
    """Whether a loss adds something that depends on parameters alone."""
    nodes, seen = [end], 0
    while nodes and seen < _TERMS_MOST:
        node, seen = nodes.pop(), seen + 1
        kind = kind_of(node)
        if of_parameters(node):
            return True
        inputs = inputs_of(node)
        if kind in LINEAR or (kind in ("MulBackward", "DivBackward") and len(inputs) == 1):
            nodes += inputs
    return False


def of_parameters(node, depth=DEPTH_MOST):
    """Whether a node depends on parameters alone, like a penalty or a learned factor."""
    if type(node).__name__ == "AccumulateGrad":
        return True
    inputs, kind = inputs_of(node), kind_of(node)
    if not inputs or not depth:
        return False
    if kind in _PRODUCTS and len(inputs) < 2:
        return False
    if kind in _PRODUCTS or kind in PAIRS:
        return all(of_parameters(n, depth - 1) for n in inputs)
    return kind in _OF_PARAMETERS and of_parameters(inputs[0], depth - 1)
