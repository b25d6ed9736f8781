"""Keras 3 on TensorFlow or PyTorch: `model = evenstep.prepare(model)`, before or after compile.

The model stays what it is; three of its methods are shadowed on the instance:

    fit            joins the run, and takes the arrays' rows that the rank hands to this node
    compute_loss   keeps the loss for display
    optimizer.apply    sums the gradients over all ranks, before clipping and averaging of weights

A program may call fit() several times. The epochs of each call follow those of the call before in
the same run, whatever the program froze, unfroze and compiled again in between. A process that was
started again passes over the calls that were finished before.

Variables are not in the shared block. They are copied to and from it where the rank reads or
changes it, between two calls of the train function. In a TensorFlow graph the exchange is one
numpy_function over one flat tensor.

describe.py   what the rank is told: weights, optimizers, loss, data
rows.py       the arrays of fit(), by the rows that the rank hands out
pipeline.py   a tf.data.Dataset, a PyDataset or a DataLoader in place of arrays
steps.py      a step: when a slice begins, its gradients, what the rank answers
block.py      weights and moving statistics in the shared block
trained.py    what trains, and the optimizers that step it
rounded.py    what half precision makes of a program that is checked
state.py      what a process that is started again goes on from
backends.py   the exchange within a graph of TensorFlow, and on PyTorch
between.py    what fit() calls between two steps, and between two epochs
counters.py   what Keras' own callbacks count, in a state
weight.py     what a batch counts, where it is not its samples
tried.py      losses and a train_step of the program's own, on a few rows
judged.py     the losses of a loop of the user's own
summed.py     a loss that is a sum, in a graph of TensorFlow
recorded.py   such a graph of a loop that has none
tape.py       gradients that the program changes before they are summed
loop.py       a loop of the user's own in place of fit()
module.py     a tf.Module in place of a Keras model there
"""

import inspect
import math

import keras
from keras import tree

from .. import take_part
from ..run import Error, alone
from . import backends, loop, pipeline, tape, tried, weight
from .between import Between
from .describe import is_sum, join, optimizers_of, rule_of, weights_of
from .rows import AsTheyCome, Rows


def prepare(*objects, **options):
    """Returns what it was given: a model, or for a loop of the program's own models, optimizers and
    data (loop.py). Without a run it changes nothing."""
    if len(objects) > 1 or type(objects[0]) in (list, tuple):
        return objects if alone() else loop.prepare(objects, **options)
    return _prepare_model(*objects, **options)


def _prepare_model(model, unfreezes=True):
    """unfreezes: a later fit() may train weights that are frozen in the first one."""
    prepared = isinstance(getattr(model.fit, "__self__", None), _Program)
    if not alone() and not prepared:
        backends.check()
        _Program(model, unfreezes)
        take_part(weight.Calls())
    return model


class _Program:
    joined = None  # the first whose fit() was called in this process

    def __init__(self, model, unfreezes):
        self.model, self.run, self.unfreezes = model, None, unfreezes
        self.loss = self.weight = None
        self._told = set()  # sentences
        self._shadowed = []  # optimizers whose apply() is ours
        self._fit, self._compute_loss = model.fit, model.compute_loss
        object.__setattr__(model, "fit", self.fit)
        object.__setattr__(model, "compute_loss", self.compute_loss)
        object.__setattr__(model, "train_on_batch", self.train_on_batch)

    @staticmethod
    def train_on_batch(*args, **kwargs):
        raise Error(
            "train_on_batch() knows nothing of the other nodes: take fit(), or a loop over data of "
            "`model, optimizer, data = evenstep.prepare(model, optimizer, data)` with "
            "optimizer.apply()"
        )

    def compute_loss(self, *args, **kwargs):
        self.loss = self._compute_loss(*args, **kwargs)
        self.weight, told = weight.of_batch(self.model, self._compute_loss, args, kwargs)
        if told and self.run and self.run.workers > 1 and told not in self._told:
            self._told.add(told)
            self.run.say(told)
        return self.loss

    def fit(self, *args, **kwargs):
        given = inspect.signature(self._fit).bind(*args, **kwargs)
        given.apply_defaults()
        told = dict(given.arguments)
        rows = Rows(told, as_they_are=pipeline.arrays(told))
        if told["steps_per_epoch"] not in (None, rows.num_batches):
            raise Error(
                "fit(steps_per_epoch=%d) makes epochs of another length than %d batches of %d: an "
                "epoch sees each sample once" % (told["steps_per_epoch"], rows.num_batches,
                                                 rows.batch)
            )
        self._build(rows)
        if self.run is None:
            self._join(rows, told)
        else:
            self._check_like_the_first(rows, told)
        self._take_optimizer()
        more = max(told["epochs"] - told["initial_epoch"], 0)
        made = self.run.loops.epochs(more)
        if made == more or self.run.over:
            return self._pass_over()
        told["validation_batch_size"] = told["validation_batch_size"] or told["batch_size"]
        told.update(x=rows, y=None, sample_weight=None, class_weight=None, batch_size=None)
        told.update(shuffle=False, validation_split=0.0, steps_per_epoch=None)
        told["initial_epoch"] += made
        return self._train(rows, told)

    def _build(self, rows):
        """Builds the model, since joining the run names all its weights. A model with a train_step
        of its own may have no call(); then its weights are those of its networks."""
        model = self.model
        if type(model).call is not keras.Model.call:
            if not model.built or not model.weights:  # build(shape) of a subclass makes no weights
                model(tree.map_structure(lambda a: a[:1], rows.few()[0]))
            return
        for layer in model._flatten_layers(include_self=False):
            if not layer.built:
                raise Error(
                    "the layer '%s' has no weights yet, and the model has no call() that makes "
                    "them: call its networks on a batch, or give them a keras.Input, before fit()"
                    % layer.name
                )

    def _join(self, rows, told):
        if _Program.joined:
            raise Error(
                "fit() of a second model: one run trains one. In place of load_model() let the "
                "model that was prepared take the weights: model.load_weights(file)"
            )
        model, sums = self.model, is_sum(getattr(self.model, "loss", None))
        weights = weights_of(model, self.unfreezes)
        self.run, self.steps = join(model, optimizers_of(model), weights, rows, told, sums)
        _Program.joined = self
        self.about = rows.count, rows.batch, bool(told["shuffle"])
        if sums and self.run.workers > 1 and model.losses:
            raise Error(
                'with reduction="sum" each node would add the penalties of regularizers once more: '
                "take a loss that is a mean"
            )
        self.run.on_start, self.run.loops.reload = self.steps.start, self.steps.state.reload
        if self.run.workers > 1:
            self._tell(rows)
        model.train_function = None  # an earlier one has no exchange in it

    def _tell(self, rows):
        """Warns of the program's own code that computes something else on a part of a batch."""
        for told in tried.what_to_tell(self, rows):
            self.run.say(told)
        if type(self.model).train_step is not tried.KERAS_STEP:
            tape.watch(self.model.trainable_variables)

    def _check_like_the_first(self, rows, told):
        if self.about != (rows.count, rows.batch, bool(told["shuffle"])):
            of = "%d samples in batches of %d, shuffle=%s"
            raise Error(
                ("fit() was called once more with " + of + ", and the first one had " + of
                 + ": in one run each fit() has as many samples, the same batch_size and shuffle. "
                 "Train on other data in a job of its own, which loads the weights that this one "
                 "saves") % (rows.count, rows.batch, told["shuffle"], *self.about)
            )
        if is_sum(getattr(self.model, "loss", None)) != self.steps.sums:
            raise Error(
                "the loss of one fit() is a mean and that of another a sum: in one run all are of "
                "one kind"
            )

    def _take_optimizer(self):
        """Takes the optimizers that were compiled last, and the weights that they train."""
        model = self.model
        if model.train_function is not None:
            return
        optimizers = optimizers_of(model)
        self.steps.trained.choose(optimizers, rule_of(optimizers, model))
        for optimizer in optimizers:
            if not any(optimizer is one for one in self._shadowed):
                self.steps.shadow(optimizer, self)
        self._shadowed = optimizers
        model.jit_compile = False  # XLA cannot leave its graph for the exchange
        # with several steps in one graph TensorFlow would take the next batch while a step still
        # runs, and taking a batch ends the step
        model.steps_per_execution = 1

    def _pass_over(self):
        """Passes over a fit() whose epochs were made before the process was started again, or whose
        job is over. The program gets the history of those epochs."""
        history = keras.callbacks.History()
        history.set_model(self.model)
        history.on_train_begin()
        history.history = self.steps.state.recall()
        self.model.history = history
        return history

    def _without_backups(self, callbacks):
        """Leaves BackupAndRestore out. A run has checkpoints of its own, and a process that is
        started again gets the current parameters; a backup's are older, and from one node."""
        backup = keras.callbacks.BackupAndRestore
        left = [one for one in callbacks if not isinstance(one, backup)]
        if len(left) < len(callbacks):
            self.run.say(
                "BackupAndRestore is left out: the run has checkpoints, and a program that is "
                "started again continues with the parameters of now"
            )
        return left

    def _train(self, rows, told):
        rows.steps = self.steps
        self.steps.hand_over_all()
        self.steps.drained = False  # Keras builds the compiled parts with a first batch
        first = self.steps.stream.coming()
        served = first is not None and first.number >= 0 and not first.step_count
        rows.num_batches = AsTheyCome(rows.count, self.steps)
        callbacks = told["callbacks"] or []
        if isinstance(callbacks, keras.callbacks.CallbackList):
            callbacks = callbacks.callbacks
        callbacks = self._without_backups(callbacks)
        self.steps.state.callbacks = callbacks
        told["callbacks"] = keras.callbacks.CallbackList(
            [Between(self.steps), *callbacks],
            add_history=True,
            add_progbar=told["verbose"] != 0,
            verbose=told["verbose"],
            epochs=told["epochs"],
            steps=None if served else math.ceil(rows.count / rows.batch),
            model=self.model,
        )
        history = self._fit(**told)
        self.steps.state.remember(history.history)
        return history
