"""The third job of `evenstep run --check`: what rounding alone makes of a program.

libevenstep moves its first parameters by one rounding of 32 bits. Half precision rounds more: each
node rounds the gradients of its own part of a batch. So here each gradient that came out of half
precision moves by one rounding of that. Those of parts are larger than a mean in which they cancel
out, so none moves by less than one of the tensor's root mean square does.
"""

import os

import torch

HALVES = torch.bfloat16, torch.float16


def _half_of(gradient):
    """The type to which autocast rounded the gradient before it became one of 32 bits; None: 32
    bits."""
    if gradient.dtype in HALVES:
        return gradient.dtype
    same = (half for half in HALVES if torch.equal(gradient.to(half).to(gradient.dtype), gradient))
    return next(same, None)


def watch(slots):
    if "CHECK_ROUNDING" not in os.environ:
        return
    draw = torch.Generator().manual_seed(1)

    def moved(gradient):
        half = None if gradient.is_sparse or gradient.is_complex() else _half_of(gradient)
        if half is None:
            return gradient
        signs = torch.randint(2, gradient.shape, generator=draw).to(gradient) * 2 - 1
        sizes = gradient.abs().clamp(min=gradient.float().square().mean().sqrt().item())
        return gradient + signs * sizes * (torch.finfo(half).eps / 2)

    for slot in slots:
        if slot.tensor.requires_grad:
            slot.tensor.register_hook(moved)
