"""What a batch holds, and which of it is only a part of the batch."""

from math import prod

import torch


def tensor_of(batch):
    """The first tensor in a batch, or None."""
    if isinstance(batch, torch.Tensor):
        return batch
    parts = batch.values() if isinstance(batch, dict) else batch
    parts = parts if isinstance(batch, (dict, list, tuple)) else ()
    return next((t for t in map(tensor_of, parts) if t is not None), None)


def _parts(batch):
    """The values of a container; None: it is no container."""
    if isinstance(batch, dict):
        return list(batch.values())
    return batch if isinstance(batch, (list, tuple)) else None


def _walk(batch):
    """The tensors that have samples and the containers of a batch, itself included."""
    if isinstance(batch, torch.Tensor):
        return [batch] if batch.dim() else []
    parts = _parts(batch)
    return [] if parts is None else [batch, *(found for part in parts for found in _walk(part))]


def _rows_of(part):
    """How many rows a part of a batch may have. A tensor has its first dimension. A list has one
    for each of its values, or as many as each of them, like two views of the samples."""
    if isinstance(part, torch.Tensor):
        return {part.shape[0]} if part.dim() else None
    parts = _parts(part)
    if parts is None:
        return None
    known = [rows for rows in map(_rows_of, parts) if rows is not None]
    within = set.intersection(*known) if known else set()
    return within if isinstance(part, dict) else within | {len(parts)}


def _is_laid_out(batch, samples):
    """Whether all samples are there: as rows, by time, in one row, or as the values of a list."""
    found = _walk(batch)
    tensors = [part for part in found if isinstance(part, torch.Tensor)]
    lists = [part for part in found if isinstance(part, (list, tuple))]
    return (
        any(samples in t.shape for t in tensors)
        or any(samples == len(values) for values in lists)
        or all(prod(t.shape) % samples == 0 for t in tensors)
    )


def fewer_rows(batch, samples):
    """The number of samples that a collate_fn has left in a batch, if all the batch's parts agree
    on fewer than it should have; else None. A collate_fn may lay samples out as it likes."""
    first = tensor_of(batch)
    if first is None or samples in first.shape[:1]:  # the usual case, kept quick
        return None
    if _is_laid_out(batch, samples):
        return None
    parts = [batch] if isinstance(batch, torch.Tensor) else _parts(batch)
    known = [rows for rows in map(_rows_of, parts) if rows is not None]
    rows = set.intersection(*known) if known else set()
    return rows.pop() if len(rows) == 1 and 0 < max(rows) < samples else None


def tell_hooks(run, slots):
    hooked = [slot.name for slot in slots if slot.tensor._backward_hooks]
    if hooked and run.workers > 1:
        run.say(
            "the hook of parameter '%s' (register_hook) gets this node's own gradient, and not the "
            "sum over all nodes: what changes gradients belongs after backward()" % hooked[0]
        )
