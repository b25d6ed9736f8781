"""What a batch holds, and what sees a part of it alone. divided.py: what its loss is divided by."""

import torch


def tensor_of(batch):
    """The first one in a batch, or None."""
    if isinstance(batch, torch.Tensor):
        return batch
    parts = batch.values() if isinstance(batch, dict) else batch
    parts = parts if isinstance(batch, (dict, list, tuple)) else ()
    return next((t for t in map(tensor_of, parts) if t is not None), None)


def tell_hooks(run, slots):
    hooked = [slot.name for slot in slots if slot.tensor._backward_hooks]
    if hooked and run.workers > 1:
        run.say(
            "the hook of parameter '%s' (register_hook) gets this node's own gradient, and not the "
            "sum over all nodes: what changes gradients belongs behind backward()" % hooked[0]
        )
