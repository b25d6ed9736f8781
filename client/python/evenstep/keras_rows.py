"""The arrays of fit(), by the rows that the rank hands out, as a data adapter of Keras'."""

import math

import numpy as np
from keras import tree
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from .run import Error
from .stream import GHOST


class AsTheyCome(int):
    """Batches of an epoch: as many as there are slices, at most one for each sample. Under a server
    each node makes steps of its own; elsewhere an epoch may have a few more than expected, if a
    node was lost. Keras asks before each step whether it has seen so many; a step on data that have
    run out would count in the optimizer's iterations."""

    def __new__(cls, most, steps):
        self = int.__new__(cls, most)
        self.steps = steps
        return self

    def __le__(self, seen):
        return self.steps.drained


class Rows(DataAdapter):
    """The arrays of fit(), by the rows that the rank hands out."""

    def __init__(self, told):
        x, y, weight = told["x"], told["y"], told["sample_weight"]
        if not all(hasattr(a, "__len__") for a in tree.flatten(x)):
            raise Error(
                "fit() of a distributed program takes arrays or a pipeline that has an end, not %s"
                % type(x).__name__
            )
        x, y, weight = (
            None if a is None else tree.map_structure(np.asarray, a) for a in (x, y, weight)
        )
        if told["class_weight"]:
            labels = y if y.ndim == 1 else y.argmax(-1) if y.shape[-1] > 1 else y[:, 0]
            of_class = np.array([told["class_weight"].get(int(k), 1.0) for k in labels], np.float32)
            weight = of_class if weight is None else weight * of_class
        self.arrays = tuple(a for a in (x, y, weight) if a is not None)
        self.count = len(tree.flatten(x)[0])
        held = int(self.count * (told["validation_split"] or 0))
        if held and told["validation_data"] is None:
            self.count -= held
            told["validation_data"] = self.rows(slice(self.count, None))
        self.batch = told["batch_size"] or 32
        self.num_batches = math.ceil(self.count / self.batch)
        self.steps = None

    def rows(self, indices):
        return tuple(tree.map_structure(lambda a: a[indices], a) for a in self.arrays)

    def batches(self):
        """The batches of one epoch."""
        while True:
            if not self.steps.training:  # Keras builds the model from one
                yield self.rows(np.arange(min(GHOST, self.count)))
                continue
            piece = self.steps.next()
            if piece is None:
                return
            yield self.rows(np.array(piece.indices or [0] * GHOST))

    def get_tf_dataset(self):
        import tensorflow as tf

        signature = tree.map_structure(
            lambda a: tf.TensorSpec((None, *a.shape[1:]), a.dtype), self.arrays
        )
        options = tf.data.Options()
        # a batch that is fetched ahead would begin its slice too early, on another thread
        options.experimental_optimization.inject_prefetch = False
        options.autotune.enabled = False
        return tf.data.Dataset.from_generator(
            self.batches, output_signature=signature
        ).with_options(options)

    def get_torch_dataloader(self):
        import torch

        for batch in self.batches():
            yield tree.map_structure(torch.as_tensor, batch)

    num_batches = None  # of an epoch; the instance's
    batch_size = property(lambda self: self.batch)
    has_partial_batch = property(lambda self: self.count % self.batch != 0)
    partial_batch_size = property(lambda self: self.count % self.batch or None)
