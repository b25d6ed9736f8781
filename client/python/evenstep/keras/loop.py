"""A training loop of the user's own over a Keras model, with GradientTape or autograd:

    model, optimizer, data = evenstep.prepare(model, optimizer, data)
    for x, y in data:
        …  optimizer.apply_gradients(zip(gradients, model.trainable_variables))

`data` is a tf.data.Dataset, a PyDataset or a PyTorch DataLoader, of batches: it is read once, and
its rows are handed out as fit() has them (pipeline.py). `optimizer.apply` exchanges; what the
step still has to send is sent when the loop asks for the next batch.
"""

from time import perf_counter

import keras
import numpy as np
from keras import tree

from .. import take_part
from ..run import Error
from ..stream import GHOST
from . import pipeline
from .describe import join
from .rows import Rows
from .weight import Calls


def prepare(objects):
    """The objects in their order, with the data in place of what was given."""
    models = [o for o in objects if isinstance(o, keras.Model)]
    optimizers = [o for o in objects if isinstance(o, keras.optimizers.Optimizer)]
    data = [o for o in objects if pipeline.is_pipeline(o)]
    if len(objects) != 3 or not (len(models) == len(optimizers) == len(data) == 1):
        raise Error(
            "prepare() of a Keras program takes the model alone, where fit() trains it, or for a "
            "loop of your own a model, its optimizer and the training data (a tf.data.Dataset, a "
            "PyDataset or a DataLoader), one of each; the optimizer is one of keras.optimizers"
        )
    made = _Data(models[0], optimizers[0], data[0])
    take_part(Calls(made.steps))
    return tuple(made if o is data[0] else o for o in objects)


class _Data:
    """In place of the user's data; what it does not have itself is that one's."""

    loss = weight = None  # nobody knows them

    def __init__(self, model, optimizer, given):
        told = dict(x=given, y=None, sample_weight=None, class_weight=None, validation_split=0,
                    validation_data=None, batch_size=None, shuffle=False)
        self.given = given
        self.rows = Rows(told, as_they_are=pipeline.arrays(told))
        if not model.built:
            model(tree.map_structure(lambda a: a[:1], self.rows.few()[0]))
        self.run, self.steps = join(
            model, [optimizer], list(model.trainable_variables), self.rows, told, sums=False
        )
        self.run.on_start, self.run.reload = self.steps.start, self.steps.reload
        self.stream = self.steps.stream
        self.steps.shadow(optimizer, self)

    def __len__(self):
        return self.rows.num_batches

    def __getattr__(self, name):
        return getattr(self.__dict__["given"], name)

    def __iter__(self):
        for piece in self.stream.loop():
            began = perf_counter()
            rows = self.rows.rows(np.array(piece.indices or [0] * GHOST))
            batch = tree.map_structure(keras.ops.convert_to_tensor, rows)
            self.run.loaded_since(began)
            yield batch if len(batch) > 1 else batch[0]
