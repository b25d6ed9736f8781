"""The third job of `evenstep run --check`, for Keras: what half precision alone makes of a program.

As torch/rounded.py: each gradient that came out of half precision moves by one rounding of that.
Keras keeps variables of 32 bits, so such gradients are numbers of 32 bits whose last bits are 0.
"""

import os

import numpy as np

ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-11}


def _half_of(gradient):
    """What the gradient was rounded to; None: 32 bits."""
    if not (gradient.view(np.uint32) & 0xFFFF).any():
        return "bfloat16"
    with np.errstate(over="ignore"):
        same = np.array_equal(gradient.astype(np.float16).astype(np.float32), gradient)
    return "float16" if same else None


def mover():
    """moved(flat, sizes): flat gradients of variables of these sizes, as the step is to take them;
    None: this job does not round."""
    if "CHECK_ROUNDING" not in os.environ:
        return None
    draw = np.random.default_rng(1)

    def moved(flat, sizes):
        flat = np.array(flat, np.float32)
        for gradient in np.split(flat, np.cumsum(sizes)[:-1]):
            half = _half_of(gradient)
            if half is not None:
                least = np.sqrt(np.square(gradient, dtype=np.float64).mean())
                signs = draw.choice((-1, 1), gradient.shape)
                gradient += signs * np.maximum(np.abs(gradient), least) * ROUNDING[half]
        return flat

    return moved
