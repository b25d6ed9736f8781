"""A training loop of the user's own over a Keras model, with GradientTape or autograd:

    model, optimizer, data = evenstep.prepare(model, optimizer, data)
    for x, y in data:
        …  optimizer.apply_gradients(zip(gradients, model.trainable_variables))

There may be several models and optimizers (a GAN's), in lists or as separate arguments. Each
`optimizer.apply` of a step is an exchange.

`data` is a tf.data.Dataset, a PyDataset or a PyTorch DataLoader, of batches. It is read once, and
its rows are handed out as in fit() (pipeline.py). What a step still has to send is sent when the
loop asks for the next batch.
"""

from time import perf_counter

import keras
import numpy as np
from keras import tree

from .. import take_part
from ..run import Error
from ..stream import GHOST
from . import backends, module, pipeline, tape
from .describe import Together, join
from .judged import judge_of
from .rows import Rows
from .weight import Calls


def prepare(objects, reduction="mean"):
    """Returns the given objects, with the run's data in place of `data`. reduction: "sum" if losses
    are sums over the rows of a batch."""
    if reduction not in ("mean", "sum"):
        raise Error("reduction is 'mean' or 'sum', not '%s'" % reduction)
    given = tree.flatten(list(objects))
    models = [o for o in given if isinstance(o, keras.Model) or module.is_module(o)]
    optimizers = [o for o in given if isinstance(o, keras.optimizers.Optimizer)]
    data = [o for o in given if pipeline.is_pipeline(o)]
    known = len(models) + len(optimizers) + len(data)
    if known != len(given) or not (models and optimizers and len(data) == 1):
        raise Error(
            "prepare() of a Keras program takes the model alone, where fit() trains it, or for a "
            "loop of your own models (or modules of TensorFlow), their optimizers and the training "
            "data (a tf.data.Dataset, a PyDataset or a DataLoader, one of them); an optimizer is "
            "one of keras.optimizers"
        )
    backends.check()
    made = _Data(_as_one(models), optimizers, data[0], reduction == "sum")
    take_part(Calls(made.steps))
    return tree.map_structure(lambda o: made if o is data[0] else o, objects)


def _as_one(models):
    modules = [model for model in models if module.is_module(model)]
    if modules and len(modules) < len(models):
        raise Error(
            "prepare() got a Keras model and a tf.Module: make the model an attribute of the "
            "module, and give it that alone"
        )
    if modules:
        return module.Modules(modules)
    if len(models) == 1:
        return models[0]
    for model in models:
        if not model.built:
            raise Error(
                "the model '%s' has no weights yet: give it a keras.Input, or call it on a batch, "
                "before prepare() of several models" % model.name
            )
    return Together(models)


class _Data:
    """Stands for the user's data, and passes on attributes that it does not have itself."""

    loss = None  # not known in a loop

    def __init__(self, model, optimizers, given, sums):
        told = dict(x=given, y=None, sample_weight=None, class_weight=None, validation_split=0,
                    validation_data=None, batch_size=None, shuffle=False)
        self.given = given
        self.rows = Rows(told, as_they_are=pipeline.arrays(told))
        if not model.built:
            model(tree.map_structure(lambda a: a[:1], self.rows.few()[0]))
        self.run, self.steps = join(
            model, optimizers, list(model.trainable_variables), self.rows, told, sums=sums
        )
        self.run.on_start, self.run.loops.reload = self.steps.start, self.steps.state.reload
        self.stream = self.steps.stream
        self.judge = None
        if self.run.workers > 1:
            self.judge = None if sums else judge_of(self.run)
            tape.watch(model.trainable_variables, self.judge)
        for optimizer in optimizers:
            self.steps.shadow(optimizer, self)

    @property
    def weight(self):
        """The batch's weight; None: its samples."""
        return self.judge.weight() if self.judge else None

    def __len__(self):
        return self.rows.num_batches

    def __getattr__(self, name):
        return getattr(self.__dict__["given"], name)

    def __iter__(self):
        for piece in self.stream.loop():
            if self.judge:
                self.judge.batch_begins(piece.count)
            began = perf_counter()
            rows = self.rows.rows(np.array(piece.indices or [0] * GHOST))
            batch = tree.map_structure(keras.ops.convert_to_tensor, rows)
            self.run.loaded_since(began)
            yield batch if len(batch) > 1 else batch[0]
