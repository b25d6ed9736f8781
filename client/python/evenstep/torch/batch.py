"""What a batch holds, what its loss is a mean over, and what sees a part of it alone.

A cross entropy with class weights divides by the weights of the labels, one with `ignore_index` by
the labels that count: in a batch that is shared out, each node by its own. So such a batch weighs
what its loss was divided by, and the mean over nodes is that of the whole batch. autograd's graph
tells it; a loss that torch.compile made does not.

     loss ─ add, mul, div … ─┬─ NllLoss   divided by total_weight
                             └─ MSE, …    divided by the samples
"""

import torch

_DIVIDES = {"NllLossBackward0", "NllLoss2DBackward0"}
_BY_SAMPLES = {
    "MseLossBackward0",
    "SmoothL1LossBackward0",
    "HuberLossBackward0",
    "BinaryCrossEntropyBackward0",
    "BinaryCrossEntropyWithLogitsBackward0",
    "KlDivBackward0",
}
# numbered: torch has one for tensors and one for a number
_THROUGH = {"AddBackward", "SubBackward", "MulBackward", "DivBackward", "NegBackward"}
_THROUGH |= {"ToCopyBackward", "ViewBackward", "SqueezeBackward"}
_NODES_MOST = 32
_MEAN = 1  # torch's number of that reduction
SEVERAL_MEANS = (
    "the loss adds means over several numbers, of samples and of labels with weights or without "
    "those that are ignored: the mean over nodes is not the loss of the whole batch; "
    "evenstep.weight(n) before backward() says what a batch counts"
)


def tensor_of(batch):
    """The first one in a batch, or None."""
    if isinstance(batch, torch.Tensor):
        return batch
    parts = batch.values() if isinstance(batch, dict) else batch
    parts = parts if isinstance(batch, (dict, list, tuple)) else ()
    return next((t for t in map(tensor_of, parts) if t is not None), None)


def _find(loss):
    """Nodes of cross entropies that the loss adds up, and whether it adds other means."""
    found, others = [], False
    nodes, seen = [loss.grad_fn], 0
    while nodes and seen < _NODES_MOST:
        node = nodes.pop()
        name = type(node).__name__
        seen += 1
        if name in _DIVIDES:
            found.append(node)
        elif name.rstrip("0123456789") in _THROUGH:
            nodes += [next_ for next_, _ in node.next_functions if next_ is not None]
        others = others or name in _BY_SAMPLES
    return found, others


def _asks_of_gpu(node, samples):
    """Reading a number of a GPU waits for it: where nothing says that it differs it is not read."""
    target = node._saved_target
    plain = node._saved_weight is None and node._saved_ignore_index == -100
    return target.is_cpu or not plain or target.numel() != samples


def counted_by(loss, samples):
    """(what the loss is a mean over, whether it adds means over several numbers); None: the
    samples."""
    if loss is None or loss.grad_fn is None:
        return None, False
    nodes, others = _find(loss)
    nodes = [n for n in nodes if n._saved_reduction == _MEAN and _asks_of_gpu(n, samples)]
    totals = {float(node._saved_total_weight) for node in nodes}
    if not totals or totals == {float(samples)}:
        return None, False
    if others or len(totals) > 1:
        return None, True
    return totals.pop(), False


def tell_hooks(run, slots):
    hooked = [slot.name for slot in slots if slot.tensor._backward_hooks]
    if hooked and run.workers > 1:
        run.say(
            "the hook of parameter '%s' (register_hook) gets this node's own gradient, and not the "
            "sum over all nodes: what changes gradients belongs behind backward()" % hooked[0]
        )
