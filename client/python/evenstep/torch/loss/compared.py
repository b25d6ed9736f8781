"""Whether a loss compares the samples of a batch with each other, by autograd's graph.

Each node has its own share of the batch, so such a loss differs among nodes: a contrastive loss has
fewer samples to tell apart, and a mean over the batch within the network is that of a share. The
mean over samples at the end of a loss does not count. The whole graph is searched, which takes some
microseconds a node, so a run looks only at its first passes. Code without a graph (a mixup of
inputs, a threshold from detached losses) is not seen. Factors and targets that add up to zero are:
their mean over the batch was subtracted, as it often is from advantages.

    loss ─ mean over the batch ─ … ─ a function of each sample ─┬─ reduction over dimension 0
                                                                ├─ rows × rows of the same batch
                                                                ├─ columns × columns
                                                                ├─ rows beside rows that were moved
                                                                └─ rows added to few (class means)
"""

import math

import torch

from .graph import LINEAR, PAIRS, VALUE_BY_VALUE, constant_of, inputs_of, kind_of
from .graph import is_squared_norm, of_parameters, shape_out

_NODES_MOST, _COLUMNS_MOST, _VALUES_MOST = 20000, 10000, 1 << 20
_ZERO = 1e-6
_AT_END = LINEAR | {"UnsqueezeBackward", "StackBackward", "SelectBackward"}
_ADDS = {"SumBackward", "MeanBackward", "NansumBackward"}
_REDUCES = _ADDS | {"StdBackward", "VarBackward", "LogsumexpBackward", "SoftmaxBackward"}
_REDUCES |= {"LogSoftmaxBackward", "MaxBackward", "MinBackward", "AmaxBackward", "AminBackward"}
_REDUCES |= {"SortBackward", "TopkBackward", "KthvalueBackward", "MedianBackward"}
_REDUCES |= {"LinalgVectorNormBackward", "NormBackward", "ProdBackward"}
_KEEPS_ROWS = {"SoftmaxBackward", "LogSoftmaxBackward", "SortBackward", "TopkBackward"}
_DISTANCES = {"CdistBackward", "EuclideanDistBackward"}
_RUNS_ON = {"CumsumBackward", "LogcumsumexpBackward", "CumprodBackward", "CummaxBackward"}
_MOVES = {"RollBackward", "FlipBackward"}
_COLLECTS = {"IndexAddBackward", "ScatterAddBackward", "ScatterReduceBackward"}
_TRANSPOSED = {"PermuteBackward", "TBackward", "TransposeBackward"}


def _shape(node, of):
    """The shape of a tensor that a node saved; None: not known."""
    sizes = getattr(node, "_saved_%s_sym_sizes" % of, None)
    if sizes is None and hasattr(node, "_saved_" + of):
        saved = getattr(node, "_saved_" + of)
        sizes = None if saved is None else saved.shape
    return None if sizes is None else tuple(sizes)


def _dimensions(node, rank):
    """The dimensions that a node reduces; None: all of them."""
    dims = getattr(node, "_saved_dim", None)
    if dims is None:
        return None
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    return {(d if d < rank else d - 2**64) % rank for d in dims} or None


def _reduces_batch(node, samples):
    """Whether a node reduces the first dimension, where this one has the samples and no other has
    as many."""
    shape = _shape(node, "self") or _shape(node, "result")
    if not shape or shape[0] != samples:
        return False
    dims = _dimensions(node, len(shape))
    left = [n for d, n in enumerate(shape) if dims is not None and d not in dims]
    return (dims is None or 0 in dims) and (samples not in left or kind_of(node) in _KEEPS_ROWS)


def _reduces_chosen(node, samples):
    """Whether a node reduces chosen rows of the batch to one row, like a class's mean."""
    shape = _shape(node, "self")
    if not shape or len(shape) < 2 or _dimensions(node, len(shape)) != {0}:
        return False
    behind = inputs_of(node)
    while behind and kind_of(behind[0]) in VALUE_BY_VALUE:
        behind = inputs_of(behind[0])
    chosen = behind and kind_of(behind[0]) == "IndexBackward" and _shape(behind[0], "self")
    return bool(chosen) and chosen[0] == samples


def _factors(node):
    """The shapes of the two matrices that a node multiplies; None for an unknown one. A stack of
    one matrix, which einsum makes, counts as a matrix."""
    shapes = []
    for name in ("self" if kind_of(node) != "AddmmBackward" else "mat1", "mat2"):
        shape = _shape(node, name)
        if shape and len(shape) == 3:
            shape = shape[1:] if shape[0] == 1 else None
        shapes.append(shape)
    return shapes


def _multiplies_samples(node, samples):
    """Whether a node multiplies two matrices of the batch, rows by rows or columns by columns, or
    adds rows of the batch with weights, as a one-hot matrix of classes does."""
    inputs = inputs_of(node)[-2:]
    first, second = _factors(node)
    if any(map(of_parameters, inputs)) or math.prod(shape_out(node)) == 1:
        return False
    if len(inputs) == 2 and first and second:
        rows = first[0] == second[-1] and first[0] % samples == 0
        return rows or (first[-1] == samples and first[0] != samples)
    if len(inputs) != 1:
        return False
    if node.next_functions[-2][0] is None:
        return bool(first) and first[-1] == samples and first[0] != samples
    return bool(second) and second[0] == samples and kind_of(inputs[0]) in _TRANSPOSED


def _pairs_samples(node, samples):
    """Whether broadcasting combines each row with each other one: a[:, None] - a[None]."""
    inputs = inputs_of(node)
    shapes = [shape_out(n) for n in inputs]
    if len(shapes) != 2 or any(len(shape) < 2 for shape in shapes):
        return False
    if any(map(of_parameters, inputs)):
        return False
    return {shape[:2] for shape in shapes} == {(samples, 1), (1, samples)}


def _collects_rows(node, samples):
    """Whether rows of the batch are added into another number of rows. Rows that go back to where
    they were taken from do not count."""
    source = inputs_of(node)[-1:]
    if not source or node._saved_dim != 0 or of_parameters(source[0]):
        return False
    return shape_out(source[0])[:1] == (samples,) and shape_out(node)[0] % samples != 0


def _moves_rows(node, kind, samples):
    shape = shape_out(node)
    if kind == "GatherBackward":  # a quantile
        whole = _shape(node, "self")
        rows = bool(whole) and whole[0] == samples != shape[0]
        return rows and _dimensions(node, len(whole)) == {0}
    dims = node._saved_dims if kind in _MOVES else (node._saved_dim,)
    return shape[:1] == (samples,) and any(d in (0, 2**64 - len(shape)) for d in dims)


def _adds_up_to_zero(values, dims=None):
    total = values.sum(dims, dtype=torch.float64).abs()
    return bool((total <= _ZERO * values.abs().sum(dims, dtype=torch.float64)).all())


def _has_centered(node, kind, samples):
    """Whether a node has factors or targets of the samples that add up to zero. They do not count
    if each sample's own add up to zero, or if they are whole numbers, such as labels of -1 and
    1."""
    by = getattr(node, "_saved_target", None)
    if kind == "MulBackward" and len(inputs_of(node)) == 1:
        by = constant_of(node)
    if not isinstance(by, torch.Tensor) or by.dtype not in (torch.float32, torch.float64):
        return False
    if by.shape[:1] != (samples,) or by.numel() > _VALUES_MOST or not _adds_up_to_zero(by):
        return False
    of_each = by.dim() > 1 and _adds_up_to_zero(by.flatten(1), 1)
    return not of_each and bool((by != by.round()).any())


def _compares(node, kind, samples):
    if kind in _REDUCES:
        compares = _reduces_batch(node, samples) or (
            kind in _ADDS and _reduces_chosen(node, samples)
        )
        return compares and not all(map(of_parameters, inputs_of(node)))
    if kind in ("MmBackward", "AddmmBackward", "BmmBackward"):
        return _multiplies_samples(node, samples)
    if kind in PAIRS:
        return _pairs_samples(node, samples)
    if kind in _COLLECTS:
        return _collects_rows(node, samples)
    if kind in _RUNS_ON or kind in _MOVES or kind == "GatherBackward":
        return _moves_rows(node, kind, samples)
    if kind in _DISTANCES:
        shape = _shape(node, "result")
        rows = shape is not None and len(shape) == 2 and shape[0] == shape[1] == samples
        return rows and len(inputs_of(node)) == 2 and not any(map(of_parameters, inputs_of(node)))
    return False


def _is_of_columns(node, samples):
    """Whether a node is a mean or sum over the samples, or over parts of them in one row, for each
    column."""
    while kind_of(node) in ("UnsqueezeBackward", "ViewBackward", "SqueezeBackward"):
        node = inputs_of(node)[0]
    shape = _shape(node, "self") if kind_of(node) in _ADDS else None
    if not shape or len(shape) < 2 or shape[0] % samples or samples in shape[1:]:
        return False
    return _dimensions(node, len(shape)) == {0}


def _numbers_of_columns(node, kind, samples):
    """Numbers outside the graph that multiply such means, or weigh the classes of a cross entropy;
    None: there are none."""
    weighs = "_saved_weight" if kind.startswith("NllLoss") else "_saved_pos_weight"
    if hasattr(node, weighs):
        return getattr(node, weighs)
    inputs = inputs_of(node) if kind == "MulBackward" else ()
    by = constant_of(node) if len(inputs) == 1 else None
    several = isinstance(by, torch.Tensor) and 1 < by.numel() <= _COLUMNS_MOST
    return by if several and _is_of_columns(inputs[0], samples) else None


def _scales(kind, inputs):
    """Whether a node multiplies or divides by something that does not depend on the batch: a
    number, or a learned one, such as the weight of one of several losses."""
    if kind == "MulBackward":
        return sum(not of_parameters(n) for n in inputs) == 1
    return kind == "DivBackward" and all(map(of_parameters, inputs[1:]))


def compares(end, samples, numbers):
    """end: the node of the loss; samples: of its batch, at least 2; numbers: a list that gets the
    program's own tensors which multiply means over the batch."""
    nodes, seen = [(end, True)], set()
    while nodes and len(seen) < _NODES_MOST:
        # at_end: the loss's own mean or sum over samples is still to come
        node, at_end = nodes.pop()
        if (node, at_end) in seen:
            continue
        seen.add((node, at_end))
        if at_end and is_squared_norm(node):
            nodes += [(n, False) for n in inputs_of(inputs_of(node)[0])]
            continue
        kind, inputs = kind_of(node), inputs_of(node)
        if (by := _numbers_of_columns(node, kind, samples)) is not None:
            numbers.append(by)
        is_linear = kind in _AT_END or _scales(kind, inputs)
        if not (at_end and (is_linear or kind in _ADDS)) and _compares(node, kind, samples):
            return True
        if _has_centered(node, kind, samples):
            return True
        if kind in _ADDS and at_end:
            at_end = not _reduces_batch(node, samples)
        else:
            at_end = at_end and is_linear
        nodes += [(n, at_end) for n in inputs]
    return False
