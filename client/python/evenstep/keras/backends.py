"""The exchange of a step: in a graph of TensorFlow, or on PyTorch."""

import math

import keras
import numpy as np

from ..run import Error


def check():
    """Refuses JAX, where a step is a function without side effects and cannot exchange."""
    name = keras.backend.backend()
    if name not in ("tensorflow", "torch"):
        raise Error(
            "fit() on Keras' backend %s cannot exchange gradients: set KERAS_BACKEND to torch or "
            "tensorflow, where a model of keras.layers trains the same, or write the loop with "
            "evenstep.arrays" % name
        )


def sizes(variables):
    """The number of floats of each variable."""
    return [int(np.prod(v.shape)) for v in variables]


def has_rows(gradient):
    """Whether TensorFlow keeps the gradient as rows, one for each use of an embedding's row.
    """
    return type(gradient).__name__ == "IndexedSlices"


def chosen():
    return _tensorflow if keras.backend.backend() == "tensorflow" else _torch


def _tensorflow(exchange, step, grads, variables, *told):
    """The exchange also reads variables that a step changes without gradients, such as the count of
    iterations. So they are changed in the branch, which waits for the exchange."""
    import tensorflow as tf

    dense = [
        tf.zeros(v.shape, tf.float32) if g is None else tf.cast(tf.convert_to_tensor(g), tf.float32)
        for g, v in zip(grads, variables)
    ]
    flat = tf.concat([tf.reshape(g, [-1]) for g in dense], 0)
    told = [math.nan if t is None else t for t in told]  # a train_step of the user's gives none
    told = [tf.cast(t, tf.float32) for t in told]
    summed, steps = tf.numpy_function(exchange, [flat, *told], (tf.float32, tf.bool))
    summed.set_shape(flat.shape)
    steps.set_shape([])
    parts = tf.split(summed, sizes(variables))
    back = [tf.cast(tf.reshape(p, v.shape), v.dtype) for p, v in zip(parts, variables)]
    tf.cond(steps, lambda: step(back), lambda: None)


def _torch(exchange, step, grads, variables, *told):
    import torch

    flat = np.concatenate(
        [
            np.zeros(n, np.float32) if g is None else g.detach().float().cpu().numpy().reshape(-1)
            for g, n in zip(grads, sizes(variables))
        ]
    )
    told = [t.detach() if isinstance(t, torch.Tensor) else t for t in told]
    told = [math.nan if t is None else float(t) for t in told]  # a train_step of the user's too
    summed, steps = exchange(flat, *told)
    parts = torch.split(torch.from_numpy(summed), sizes(variables))
    if steps:
        step(
            [
                p.reshape(tuple(v.shape)).to(v.value.device, v.value.dtype)
                for p, v in zip(parts, variables)
            ]
        )


