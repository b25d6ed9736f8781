"""Keras 3 on TensorFlow or PyTorch: `model = evenstep.prepare(model)`, before or after compile.

The model stays what it is; three of its methods are shadowed on the instance:

    fit            joins the run, and takes the arrays' rows that the rank hands to this node
    compute_loss   keeps the loss for display
    optimizer.apply    sums the gradients over all ranks, before clipping and averaging of weights

A program may call fit() several times: the epochs of one follow those of the one before in the same
run, whatever was frozen, unfrozen and compiled again between them. A process that was started again
passes over the calls that were made before.

Variables are not in the block: they are copied where the rank reads or changes it, between two
calls of the train function. In a TensorFlow graph the exchange is one numpy_function over one flat
tensor (keras_steps.py). keras_rows.py has the data, keras_between.py what comes between two steps.
"""

import inspect
import math

import keras
from keras import tree

from . import keras_pipeline, keras_weight, take_part
from .keras_between import Between
from .keras_rows import AsTheyCome, Rows
from .keras_steps import Steps
from .run import Error, Run, alone


def prepare(model, unfreezes=True):
    """Returns the same model; alone nothing happens. unfreezes: a later fit() may train weights
    that are frozen in the first one."""
    prepared = isinstance(getattr(model.fit, "__self__", None), _Program)
    if not alone() and not prepared:
        _Program(model, unfreezes)
        take_part(keras_weight.Calls())
    return model


def _norms(model):
    """(layer, mean or variance, index of its mean or -1) of every batch norm's moving
    statistics."""
    found = []
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            found.append((layer, layer.moving_mean, -1))
            found.append((layer, layer.moving_variance, len(found) - 1))
    return found


def _weights(model, frozen):
    """What trains, and what would if no layer was frozen; in the order of the model."""
    of_layers = [v for layer in model._flatten_layers() for v in layer._trainable_variables]
    known = {id(v) for v in of_layers if frozen or v.trainable}
    known |= {id(v) for v in model.trainable_variables}
    return [v for v in model.variables if id(v) in known]


def _describe_optimizer(optimizer):
    def figure(name):
        value = getattr(optimizer, name, None)
        return float(value) if isinstance(value, (int, float)) else 0.0

    changed = "clipnorm clipvalue global_clipnorm use_ema gradient_accumulation_steps".split()
    kind = type(optimizer)  # on PyTorch a class of Keras' own beneath SGD
    plain = issubclass(kind, keras.optimizers.SGD) and kind.__module__.startswith("keras.")
    return {
        "name": type(optimizer).__name__,
        "learning_rate": float(keras.ops.convert_to_numpy(optimizer.learning_rate)),
        "momentum": figure("momentum"),
        "nesterov": int(bool(getattr(optimizer, "nesterov", False))),
        "weight_decay": 0.0,
        "server": int(
            plain
            and not getattr(optimizer, "weight_decay", None)
            and not any(getattr(optimizer, name, None) for name in changed)
        ),
    }


def _optimizers(model):
    """Those that a train_step of the model's own keeps as attributes (a GAN's), or compile()'s."""
    own = [o for o in vars(model).values() if isinstance(o, keras.optimizers.Optimizer)]
    return [o for o in own if o is not model.optimizer] or [model.optimizer]


def _describe_optimizers(optimizers):
    """A server makes the steps of a single one."""
    told = [_describe_optimizer(o) for o in optimizers]
    if len(told) == 1:
        return told[0]
    return {**told[0], "name": ", ".join(one["name"] for one in told), "server": 0}


def _is_sum(loss):
    """Whether what compile() was given as `loss` adds up the samples' losses. Keras takes the mean
    of a name's or a function's."""
    given = [one for one in tree.flatten(loss) if one is not None]
    sums = [getattr(one, "reduction", None) == "sum" for one in given]
    if any(sums) and not all(sums):
        raise Error(
            'losses with reduction="sum" and means stand side by side: over several nodes they '
            "have different weights, so all of a model's losses are of one kind"
        )
    return any(sums)


class _Program:
    def __init__(self, model, unfreezes):
        self.model, self.run, self.unfreezes = model, None, unfreezes
        self.loss = self.weight = None
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
        self.weight = keras_weight.of_batch(self.model, self._compute_loss, args, kwargs)
        return self.loss

    def fit(self, *args, **kwargs):
        given = inspect.signature(self._fit).bind(*args, **kwargs)
        given.apply_defaults()
        told = dict(given.arguments)
        rows = Rows(told, as_they_are=keras_pipeline.arrays(told))
        if told["steps_per_epoch"]:
            raise Error("fit(steps_per_epoch=…) cuts epochs short: an epoch sees each sample once")
        self._build(rows)
        if self.run is None:
            self._join(rows, told)
        else:
            self._check_like_the_first(rows, told)
        self._take_optimizer()
        more = max(told["epochs"] - told["initial_epoch"], 0)
        made = self.run.epochs(more)
        if made == more or self.run.over:
            return self._pass_over()
        told["validation_batch_size"] = told["validation_batch_size"] or told["batch_size"]
        told.update(x=rows, y=None, sample_weight=None, class_weight=None, batch_size=None)
        told.update(shuffle=False, validation_split=0.0)
        told["initial_epoch"] += made
        return self._train(rows, told)

    def _build(self, rows):
        """Before the run is joined, which is told all weights. A model that a train_step of its own
        drives may have no call(): its weights are those of its networks."""
        model = self.model
        if type(model).call is not keras.Model.call:
            if not model.built:
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
        model, sums = self.model, _is_sum(getattr(self.model, "loss", None))
        weights = _weights(model, self.unfreezes)
        self.run, self.steps = join(model, _optimizers(model), weights, rows, told, sums)
        self.about = rows.count, rows.batch, bool(told["shuffle"])
        if sums and self.run.workers > 1 and model.losses:
            raise Error(
                'with reduction="sum" each node would add the penalties of regularizers once more: '
                "take a loss that is a mean"
            )
        self.run.on_start, self.run.reload = self.steps.start, self.steps.reload
        model.train_function = None  # one made before has no exchange in it

    def _check_like_the_first(self, rows, told):
        if self.about != (rows.count, rows.batch, bool(told["shuffle"])):
            of = "%d samples in batches of %d, shuffle=%s"
            raise Error(
                ("fit() was called once more with " + of + ", and the first one had " + of
                 + ": in one run each fit() has as many samples, the same batch_size and shuffle. "
                 "Train on other data in a job of its own, which loads the weights that this one "
                 "saves") % (rows.count, rows.batch, told["shuffle"], *self.about)
            )
        if _is_sum(getattr(self.model, "loss", None)) != self.steps.sums:
            raise Error(
                "the loss of one fit() is a mean and that of another a sum: in one run all are of "
                "one kind"
            )

    def _take_optimizer(self):
        """What was compiled last, and what it trains."""
        model = self.model
        if model.train_function is not None:
            return
        optimizers = _optimizers(model)
        self.steps.choose(optimizers, _describe_optimizers(optimizers))
        for optimizer in optimizers:
            if not any(optimizer is one for one in self._shadowed):
                self.steps.shadow(optimizer, self)
        self._shadowed = optimizers
        model.jit_compile = False  # XLA cannot leave its graph for the exchange

    def _pass_over(self):
        """This call's epochs were made before the process was started again, or the job is over.
        The program gets the history that they had."""
        history = keras.callbacks.History()
        history.set_model(self.model)
        history.on_train_begin()
        history.history = self.steps.recall()
        self.model.history = history
        return history

    def _train(self, rows, told):
        rows.steps = self.steps
        self.steps.hand_over_all()
        self.steps.drained = False  # Keras builds what was compiled from a first batch
        first = self.steps.stream.coming()
        served = first is not None and first.number >= 0 and not first.step_count
        rows.num_batches = AsTheyCome(rows.count, self.steps)
        callbacks = told["callbacks"] or []
        if isinstance(callbacks, keras.callbacks.CallbackList):
            callbacks = callbacks.callbacks
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
        self.steps.remember(history.history)
        return history


def join(model, optimizers, weights, rows, told, sums):
    """The run, and the steps of this model in it."""
    params = [{"name": v.path, "shape": list(v.shape)} for v in weights]
    norms = _norms(model)
    stats = [{"name": v.path, "shape": list(v.shape), "mean_of": m} for _, v, m in norms]
    about = {
        "framework": "keras %s on %s" % (keras.__version__, keras.backend.backend()),
        "samples": rows.count,
        "global_batch": rows.batch,
        "in_order": int(not told["shuffle"]),
        "sums": int(sums),
    }
    run = Run(about, _describe_optimizers(optimizers), params, stats)
    return run, Steps(run, model, optimizers, weights, norms, sums)
