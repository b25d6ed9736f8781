"""The arrays of fit(), by the rows that the rank hands out, as a data adapter of Keras'."""

import math
from time import perf_counter

import numpy as np
from keras import tree
from keras.src.trainers import data_adapters
from keras.src.trainers.data_adapters import array_slicing
from keras.src.trainers.data_adapters.array_data_adapter import (
    ArrayDataAdapter,
    can_convert_arrays,
)
from keras.src.trainers.data_adapters.data_adapter import DataAdapter
from keras.src.trainers.data_adapters.data_adapter_utils import unpack_x_y_sample_weight

from ..run import Error
from ..stream import GHOST


class AsTheyCome(int):
    """The number of batches of an epoch: that of its slices, at most one for each sample. Under a
    server each node makes its own steps; elsewhere an epoch may have a few more than expected if a
    node was lost. Keras compares with it before each step. A step after the data have run out would
    count in the optimizer's iterations."""

    def __new__(cls, most, steps):
        self = int.__new__(cls, most)
        self.steps = steps
        return self

    def __le__(self, seen):
        return self.steps.drained


class Rows(DataAdapter):
    """The arrays of fit(), by the rows that the rank hands out. The arrays are prepared as Keras
    prepares them without a run. as_they_are: floats keep their precision, as in a pipeline."""

    def __init__(self, told, as_they_are=False):
        arrays = told["x"], told["y"], told["sample_weight"]
        if not can_convert_arrays(arrays):
            raise Error(
                "fit() of a distributed program takes arrays or a pipeline that has an end, not %s"
                % type(told["x"]).__name__
            )
        if told["validation_split"] and told["validation_data"] is None:
            arrays, told["validation_data"] = array_slicing.train_validation_split(
                arrays, told["validation_split"]
            )
        whole = ArrayDataAdapter(
            *arrays, batch_size=told["batch_size"], class_weight=told.get("class_weight")
        )
        parts = unpack_x_y_sample_weight(whole._inputs)
        parts = tuple(part for part in parts if part is not None)
        if as_they_are:
            self._parts = tree.map_structure(array_slicing.NumpySliceable, parts)
        else:
            self._parts = array_slicing.convert_to_sliceable(parts, target_backend="numpy")
        self.count, self.batch = whole._num_samples, whole.batch_size
        self.num_batches = math.ceil(self.count / self.batch)
        self.steps = None

    def rows(self, indices):
        return tree.map_structure(lambda a: a.convert_to_numpy(a[indices]), self._parts)

    def few(self):
        """Some rows, for their shapes."""
        return self.rows(np.arange(min(GHOST, self.count)))

    def batches(self):
        """The batches of one epoch."""
        while True:
            if not self.steps.training:  # Keras builds the model with one batch
                yield self.few()
                continue
            piece = self.steps.next()
            if piece is None:
                return
            began = perf_counter()
            rows = self.rows(np.array(piece.indices or [0] * GHOST))
            self.steps.run.loaded_since(began)
            yield rows

    def get_tf_dataset(self):
        import tensorflow as tf

        # TensorFlow takes a list for one tensor
        signature = tree.map_structure(
            lambda a: tf.TensorSpec((None, *a.shape[1:]), a.dtype), tree.lists_to_tuples(self.few())
        )
        options = tf.data.Options()
        # prefetching a batch would begin its slice too early, and on another thread
        options.experimental_optimization.inject_prefetch = False
        options.autotune.enabled = False
        return tf.data.Dataset.from_generator(
            lambda: map(tree.lists_to_tuples, self.batches()), output_signature=signature
        ).with_options(options)

    def get_torch_dataloader(self):
        import torch

        for batch in self.batches():
            yield tree.map_structure(torch.as_tensor, batch)

    num_batches = None  # of an epoch; set on the instance
    batch_size = property(lambda self: self.batch)
    has_partial_batch = property(lambda self: self.count % self.batch != 0)
    partial_batch_size = property(lambda self: self.count % self.batch or None)


def _take_adapters(of=data_adapters.get_data_adapter):
    """Keras before 3.7 checks the type of the data of an adapter too."""

    def get_data_adapter(x, *args, **kwargs):
        return x if isinstance(x, Rows) else of(x, *args, **kwargs)

    data_adapters.get_data_adapter = get_data_adapter


_take_adapters()
