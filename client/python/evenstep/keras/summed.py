"""By what a loss of TensorFlow divides its sum over the rows of a batch. This is the batch's
weight. Where nothing or a constant divides it, the loss is a sum, which is another loss on a node's
part of a batch.

     loss ─ add, neg, times a constant … ─┬─ Mean          the rows, or those that a mask chooses
                                          ├─ / ─ Sum       a constant that is no number of its
                                          │                values: a sum; what the batch's values
                                          │                give (a mask's sum): that
                                          └─ Sum           nothing: a sum, if a batch is behind it

The graph is that of a tf.function, whose batch may have any number of rows, or one that recorded.py
has made of a loop. In the latter the rows, and what the program computes in Python, are numbers.
"""

import numpy as np

OPS_MOST = 200
_DEPTH_MOST = 8
_SUMS = {"Sum", "L2Loss"}
_ONE = {"Identity", "Cast", "Neg", "Reshape", "Squeeze", "StopGradient"}
_ADDED = {"AddV2", "Add", "AddN", "Sub"}
_DIVIDED = {"RealDiv", "DivNoNan", "Div"}
_STACKED = {"Pack", "ConcatV2"}  # several values joined into one
_CHOOSES = {"GatherV2", "GatherNd"}  # as in tf.boolean_mask
_EACH = _ONE | {"Mul", "Square", "Abs", "SquaredDifference", "Sub", "AddV2", "Log", "Sqrt"}
_EACH |= {"Maximum"}
_SIZES = {"Shape", "ShapeN", "Size", "Rank"}

# what a part of a loss is a mean over
ROWS, NUMBER, TENSOR, UNKNOWN = "rows", "number", "tensor", "unknown"
_BATCH, _LEARNED, _SIZE, _NOTHING = "batch", "learned", "size", "nothing"


class Function:
    """Questions about the tensors of a tf.function's graph."""

    @staticmethod
    def value(tensor):
        """The value of a constant; None: it is no constant."""
        import tensorflow as tf

        return tf.get_static_value(tensor)

    @staticmethod
    def is_batch(op):
        """Whether it is an argument of the graph. Variables are arguments too, as resources, and do
        not count."""
        return op.type == "Placeholder" and op.outputs[0].dtype.name != "resource"

    @staticmethod
    def may_be_rows(size):
        return size != 1


def _number(graph, tensor):
    """The number of a constant; None: it is no constant, or several numbers."""
    value = graph.value(tensor)
    return float(value) if value is not None and value.size == 1 else None


def _made_of(graph, tensor):
    """What a tensor depends on: the batch's values, parameters, the batch's size alone, or
    nothing."""
    behind, seen, found = [tensor], set(), _NOTHING
    while behind and len(seen) < OPS_MOST:
        op = behind.pop().op
        if op.name in seen:
            continue
        seen.add(op.name)
        if graph.is_batch(op):
            return _BATCH
        if op.type == "ReadVariableOp":
            found = _LEARNED
        elif op.type in _SIZES:
            found = _SIZE if found is _NOTHING else found
            continue
        behind += op.inputs
    return found


def _is_over_rows(graph, op):
    values, shape = op.inputs[0], op.inputs[0].shape
    axes = graph.value(op.inputs[1]) if op.type in ("Sum", "Mean") else np.zeros(1, int)
    if not shape.rank or axes is None or 0 not in axes % shape.rank:
        return False
    if not graph.may_be_rows(shape[0]) or values.op.type in _STACKED:
        return False
    return _made_of(graph, values) is _BATCH


def _counts_values(shape, divisor):
    """Whether this is the divisor of a mean over rows, and perhaps over other dimensions."""
    if shape[0] is None:
        return False
    counts = [shape[0]]
    for n in filter(None, shape[1:6]):
        counts += [n * count for count in counts]
    return any(abs(divisor / count - 1) < 1e-5 for count in counts)


def _of_sum(graph, op, factor, by):
    if by is not None:
        made_of = _made_of(graph, by)
        return (TENSOR, by) if made_of is _BATCH else (ROWS if made_of is _SIZE else UNKNOWN, None)
    divisor = 1 / abs(factor) if factor else 0
    return (ROWS, None) if _counts_values(op.inputs[0].shape, divisor) else (NUMBER, divisor)


def _of_mean(graph, op):
    """(ROWS, None), or the tensor of the chosen rows; None: it is over no rows."""
    values = op.inputs[0]
    for _ in range(_DEPTH_MOST):
        if values.op.type in _CHOOSES and _made_of(graph, values.op.inputs[0]) is _BATCH:
            return TENSOR, op.inputs[0]
        if values.op.type not in _EACH or not values.op.inputs:
            break
        values = values.op.inputs[0]
    return (ROWS, None) if _is_over_rows(graph, op) else None


def parts_of(graph, loss):
    """[(kind of mean, a number or a tensor)] of the parts of a loss that depend on a batch. For a
    mean over chosen rows the tensor has these rows; else it has one number."""
    behind, seen, parts = [(loss, 1.0, None)], 0, []
    while behind and seen < OPS_MOST:
        (tensor, factor, by), seen = behind.pop(), seen + 1
        op = tensor.op
        if op.type in _SUMS and _is_over_rows(graph, op):
            parts.append(_of_sum(graph, op, factor, by))
        elif op.type == "Mean" and (part := _of_mean(graph, op)):
            parts.append(part)
        elif through := _through(graph, op, factor, by):
            behind += through
        elif _made_of(graph, tensor) is _BATCH:
            parts.append((UNKNOWN, None))
    return parts


def _through(graph, op, factor, by):
    """[(tensor, factor, divisor that is no constant)] of the inputs of a node that is linear in
    them."""
    if op.type in _ONE:
        return [(op.inputs[0], factor, by)]
    if op.type in _ADDED:
        return [(one, factor, by) for one in op.inputs]
    if op.type in _DIVIDED:
        number = _number(graph, op.inputs[1])
        if number:
            return [(op.inputs[0], factor / number, by)]
        return [(op.inputs[0], factor, op.inputs[1])]
    if op.type == "Mul":
        numbers = [_number(graph, one) for one in op.inputs]
        return [(one, factor * other, by)
                for one, other in zip(op.inputs, reversed(numbers)) if other]
    return []
