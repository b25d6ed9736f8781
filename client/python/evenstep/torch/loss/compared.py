"""Whether a loss compares the samples of a batch with each other, out of autograd's graph.

Each node has its own share of the batch, so such a loss is another one on each: a contrastive loss
has fewer samples to tell apart, a mean over the batch within the network is that of a share. The
mean over samples that stands at the end of a loss is none of these. The whole graph is gone
through, some microseconds a node, so a run looks at its first passes alone. What has no graph (a
mixup of inputs, an advantage less its mean) is not seen.

    loss ─ mean over the batch ─ … ─ a function of each sample ─┬─ reduction over dimension 0
                                                                ├─ rows × rows of the same batch
                                                                └─ columns × columns
"""

import torch

from .graph import LINEAR, constant_of, inputs_of, kind_of, of_parameters

_NODES_MOST, _COLUMNS_MOST = 20000, 10000
_AT_END = LINEAR | {"UnsqueezeBackward", "StackBackward", "SelectBackward"}
_ADDS = {"SumBackward", "MeanBackward", "NansumBackward"}
_REDUCES = _ADDS | {"StdBackward", "VarBackward", "LogsumexpBackward", "SoftmaxBackward"}
_REDUCES |= {"LogSoftmaxBackward", "MaxBackward", "MinBackward", "AmaxBackward", "AminBackward"}
_REDUCES |= {"SortBackward", "TopkBackward", "KthvalueBackward", "MedianBackward"}
_REDUCES |= {"LinalgVectorNormBackward", "NormBackward", "ProdBackward"}
_KEEPS_ROWS = {"SoftmaxBackward", "LogSoftmaxBackward", "SortBackward", "TopkBackward"}
_DISTANCES = {"CdistBackward", "EuclideanDistBackward"}


def _shape(node, of):
    """Of what a node saved; None: not known."""
    sizes = getattr(node, "_saved_%s_sym_sizes" % of, None)
    if sizes is None and hasattr(node, "_saved_" + of):
        saved = getattr(node, "_saved_" + of)
        sizes = None if saved is None else saved.shape
    return None if sizes is None else tuple(sizes)


def _dimensions(node, rank):
    """Over which it reduces; None: all of them."""
    dims = getattr(node, "_saved_dim", None)
    if dims is None:
        return None
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    return {(d if d < rank else d - 2**64) % rank for d in dims} or None


def _reduces_batch(node, samples):
    """Over the first dimension, where that has the samples and no other dimension has as many."""
    shape = _shape(node, "self") or _shape(node, "result")
    if not shape or shape[0] != samples:
        return False
    dims = _dimensions(node, len(shape))
    left = [n for d, n in enumerate(shape) if dims is not None and d not in dims]
    return (dims is None or 0 in dims) and (samples not in left or kind_of(node) in _KEEPS_ROWS)


def _multiplies_samples(node, samples):
    """A product of two matrices of the batch: of rows by rows, or of columns by columns."""
    inputs = inputs_of(node)[-2:]
    if len(inputs) < 2 or any(map(of_parameters, inputs)):
        return False
    first = _shape(node, "self" if hasattr(node, "_saved_self_sym_sizes") else "mat1")
    second = _shape(node, "mat2")
    if not first or not second:
        return False
    rows = first[0] == second[-1] and first[0] % samples == 0
    return rows or (first[-1] == samples and first[0] != samples)


def _compares(node, kind, samples):
    if kind in _REDUCES:
        return _reduces_batch(node, samples) and not all(map(of_parameters, inputs_of(node)))
    if kind in ("MmBackward", "AddmmBackward"):
        return _multiplies_samples(node, samples)
    if kind in _DISTANCES:
        shape = _shape(node, "result")
        rows = shape is not None and len(shape) == 2 and shape[0] == shape[1] == samples
        return rows and len(inputs_of(node)) == 2 and not any(map(of_parameters, inputs_of(node)))
    return False


def _is_of_columns(node, samples):
    """A mean or sum over the samples, or over parts of them in one row, for each column."""
    while kind_of(node) in ("UnsqueezeBackward", "ViewBackward", "SqueezeBackward"):
        node = inputs_of(node)[0]
    shape = _shape(node, "self") if kind_of(node) in _ADDS else None
    if not shape or len(shape) < 2 or shape[0] % samples or samples in shape[1:]:
        return False
    return _dimensions(node, len(shape)) == {0}


def _numbers_of_columns(node, kind, samples):
    """What is no part of the graph and multiplies such means; None: nothing does."""
    inputs = inputs_of(node) if kind == "MulBackward" else ()
    by = constant_of(node) if len(inputs) == 1 else None
    several = isinstance(by, torch.Tensor) and 1 < by.numel() <= _COLUMNS_MOST
    return by if several and _is_of_columns(inputs[0], samples) else None


def _scales(kind, inputs):
    """A product with, or a quotient by, what the batch has no part in: a number, or one that is
    learned, such as the weights of several losses."""
    if kind == "MulBackward":
        return sum(not of_parameters(n) for n in inputs) == 1
    return kind == "DivBackward" and all(map(of_parameters, inputs[1:]))


def compares(end, samples, numbers):
    """end: the node that gives the loss; samples: of the batch that it is of, at least 2; numbers:
    a list, which gets tensors of the program's own that multiply means over the batch."""
    nodes, seen = [(end, True)], set()
    while nodes and len(seen) < _NODES_MOST:
        node, at_end = nodes.pop()  # at_end: before the loss's own mean or sum over samples
        if (node, at_end) in seen:
            continue
        seen.add((node, at_end))
        kind, inputs = kind_of(node), inputs_of(node)
        if (by := _numbers_of_columns(node, kind, samples)) is not None:
            numbers.append(by)
        is_linear = kind in _AT_END or _scales(kind, inputs)
        if not (at_end and (is_linear or kind in _ADDS)) and _compares(node, kind, samples):
            return True
        if kind in _ADDS and at_end:
            at_end = not _reduces_batch(node, samples)
        else:
            at_end = at_end and is_linear
        nodes += [(n, at_end) for n in inputs]
    return False
