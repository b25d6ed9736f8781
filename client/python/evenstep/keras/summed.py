"""Whether a loss in a graph of TensorFlow is a sum over the rows of a batch, which is another loss
on a node's part of it.

     loss ─ add, neg, times a constant … ─┬─ Mean          a mean
                                          ├─ / ─ Sum       by a constant that is no number of its
                                          │                values: a sum; by what the graph
                                          │                computes: a mean over that
                                          └─ Sum           a sum, if a batch is behind it

A loop that is no tf.function has no graph, and nothing is known of its loss.
"""

import numpy as np

OPS_MOST = 200
_SUMS = {"Sum", "L2Loss"}
_ONE = {"Identity", "Cast", "Neg", "Reshape", "Squeeze", "StopGradient"}
_ADDED = {"AddV2", "Add", "AddN", "Sub"}
_DIVIDED = {"RealDiv", "DivNoNan", "Div"}
_STACKED = {"Pack", "ConcatV2"}  # values that the program has put side by side


def _number(tensor):
    """Of a constant; None: it is none, or many."""
    import tensorflow as tf

    value = tf.get_static_value(tensor)
    return float(value) if value is not None and value.size == 1 else None


def _has_batch_behind(tensor):
    """A batch is an argument of the graph; variables are, too, as resources."""
    behind, seen = [tensor], set()
    while behind and len(seen) < OPS_MOST:
        op = behind.pop().op
        if op.name in seen:
            continue
        seen.add(op.name)
        if op.type == "Placeholder" and op.outputs[0].dtype.name != "resource":
            return True
        behind += op.inputs
    return False


def _is_over_rows(op, factor):
    """Whether a Sum goes over rows, and factor makes no mean of it."""
    import tensorflow as tf

    values, shape = op.inputs[0], op.inputs[0].shape
    axes = tf.get_static_value(op.inputs[1]) if op.type == "Sum" else np.zeros(1, int)
    if not shape.rank or axes is None or 0 not in axes % shape.rank or shape[0] == 1:
        return False
    if values.op.type in _STACKED or not _has_batch_behind(values):
        return False
    if shape[0] is None:
        return True
    counts = [shape[0]]  # by which a mean over rows may be divided, and over other dimensions, too
    for n in filter(None, shape[1:6]):
        counts += [n * count for count in counts]
    return not any(abs(abs(factor) * count - 1) < 1e-5 for count in counts)


def is_sum(loss):
    """loss: what a tape is given; of an eager tensor False."""
    import tensorflow as tf

    if not tf.is_symbolic_tensor(loss):
        return False
    behind, seen = [(loss, 1.0)], 0
    while behind and seen < OPS_MOST:
        (tensor, factor), seen = behind.pop(), seen + 1
        op = tensor.op
        if op.type in _SUMS and _is_over_rows(op, factor):
            return True
        behind += _through(op, factor)
    return False


def _through(op, factor):
    """[(tensor, factor)] behind a node that is linear in them."""
    if op.type in _ONE:
        return [(op.inputs[0], factor)]
    if op.type in _ADDED:
        return [(one, factor) for one in op.inputs]
    if op.type in _DIVIDED:
        by = _number(op.inputs[1])
        return [(op.inputs[0], factor / by)] if by else []
    if op.type == "Mul":
        by = [_number(one) for one in op.inputs]
        return [(one, factor * other) for one, other in zip(op.inputs, reversed(by)) if other]
    return []
