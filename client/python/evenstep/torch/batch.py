"""What a batch holds, and what sees a part of it alone. divided.py: what its loss is divided by."""

from math import prod

import torch


def tensor_of(batch):
    """The first one in a batch, or None."""
    if isinstance(batch, torch.Tensor):
        return batch
    parts = batch.values() if isinstance(batch, dict) else batch
    parts = parts if isinstance(batch, (dict, list, tuple)) else ()
    return next((t for t in map(tensor_of, parts) if t is not None), None)


def _shapes(batch):
    """Of all tensors in a batch that have samples."""
    if isinstance(batch, torch.Tensor):
        return [tuple(batch.shape)] if batch.dim() else []
    parts = batch.values() if isinstance(batch, dict) else batch
    parts = parts if isinstance(batch, (dict, list, tuple)) else ()
    return [shape for part in parts for shape in _shapes(part)]


def fewer_rows(batch, samples):
    """A collate_fn may leave samples out: how many the batch of so many has, if all its tensors
    agree on fewer; else None. It may lay them out as it likes, by time or in one row."""
    first = tensor_of(batch)
    if first is None or samples in first.shape[:1]:  # in every step
        return None
    shapes = _shapes(batch)
    rows = {shape[0] for shape in shapes}
    laid_out = any(samples in shape for shape in shapes)
    laid_out = laid_out or all(prod(shape) % samples == 0 for shape in shapes)
    return None if laid_out or len(rows) != 1 or not 0 < max(rows) < samples else rows.pop()


def tell_hooks(run, slots):
    hooked = [slot.name for slot in slots if slot.tensor._backward_hooks]
    if hooked and run.workers > 1:
        run.say(
            "the hook of parameter '%s' (register_hook) gets this node's own gradient, and not the "
            "sum over all nodes: what changes gradients belongs behind backward()" % hooked[0]
        )
