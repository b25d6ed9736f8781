"""Keras 3 on TensorFlow or PyTorch: `model = evenstep.keras.prepare(model)`, before or after
compile.

The model stays what it is; three of its methods are shadowed on the instance:

    fit            joins the run, and takes the arrays' rows that the rank hands to this node
    compute_loss   keeps the loss for display
    optimizer.apply    sums the gradients over all ranks, before clipping and averaging of weights

Variables are not in the block: they are copied where the rank reads or changes it, between two
calls of the train function. In a TensorFlow graph the exchange is one numpy_function over one flat
tensor."""

import inspect
import math
import pickle

import keras
import numpy as np
from keras import tree
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from . import keras_pipeline
from .keras_between import Between
from .run import DIFFERENCE, STEP, Error, Run, alone
from .stream import Stream

GHOST = 2  # rows of a batch that weighs nothing
IDLE_MOST = 100  # batches in a row without gradients


def prepare(model):
    """Returns the same model; alone nothing happens."""
    if not alone():
        _Program(model)
    return model


def _numpy(variable):
    return keras.ops.convert_to_numpy(variable).astype(np.float32, copy=False)


def _sizes(variables):
    return [int(np.prod(v.shape)) for v in variables]


def _norms(model):
    """(layer, mean or variance, index of its mean or -1) of every batch norm's moving
    statistics."""
    found = []
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            found.append((layer, layer.moving_mean, -1))
            found.append((layer, layer.moving_variance, len(found) - 1))
    return found


def _describe_optimizer(optimizer):
    def figure(name):
        value = getattr(optimizer, name, None)
        return float(value) if isinstance(value, (int, float)) else 0.0

    changed = "clipnorm clipvalue global_clipnorm use_ema gradient_accumulation_steps".split()
    plain = type(optimizer) is keras.optimizers.SGD
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


def _scales(optimizer):
    return isinstance(optimizer, keras.optimizers.LossScaleOptimizer)


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
    def __init__(self, model):
        self.model, self.run = model, None
        self.loss = None
        self._fit, self._compute_loss = model.fit, model.compute_loss
        object.__setattr__(model, "fit", self.fit)
        object.__setattr__(model, "compute_loss", self.compute_loss)

    def compute_loss(self, *args, **kwargs):
        self.loss = self._compute_loss(*args, **kwargs)
        return self.loss

    def fit(self, *args, **kwargs):
        if self.run:
            raise Error("fit() is called once in a run: all epochs in one call")
        given = inspect.signature(self._fit).bind(*args, **kwargs)
        given.apply_defaults()
        told = dict(given.arguments)
        keras_pipeline.arrays(told)
        rows = Rows(told)
        if told["steps_per_epoch"]:
            raise Error("fit(steps_per_epoch=…) cuts epochs short: an epoch sees each sample once")
        if not self.model.built:
            self.model(tree.map_structure(lambda a: a[:1], rows.arrays[0]))
        self._join(rows, told)
        told.update(x=rows, y=None, sample_weight=None, class_weight=None, batch_size=None)
        told.update(shuffle=False, validation_split=0.0)
        told["initial_epoch"] = max(told["initial_epoch"], self.run.epoch)
        told["callbacks"] = [Between(self.steps), *(told["callbacks"] or [])]
        return self._fit(**told)

    def _join(self, rows, told):
        model, sums = self.model, _is_sum(getattr(self.model, "loss", None))
        self.run, self.steps = join(model, model.optimizer, rows, told, sums)
        if sums and self.run.workers > 1 and model.losses:
            raise Error(
                'with reduction="sum" each node would add the penalties of regularizers once more: '
                "take a loss that is a mean"
            )
        self.run.on_start = self.steps.start
        self.run.epochs(told["epochs"])
        rows.steps = self.steps
        first = self.steps.stream.coming()
        if first is not None and first.number >= 0 and not first.step_count:
            rows.num_batches = _AsTheyCome(rows.count, self.steps)
        shadow = self.steps.shadow(model.optimizer.apply, self)
        object.__setattr__(model.optimizer, "apply", shadow)
        model.jit_compile = False  # XLA cannot leave its graph for the exchange


def join(model, optimizer, rows, told, sums):
    """The run, and the steps of this model in it."""
    variables = list(model.trainable_variables)
    params = [{"name": v.path, "shape": list(v.shape)} for v in variables]
    norms = _norms(model)
    stats = [{"name": v.path, "shape": list(v.shape), "mean_of": m} for _, v, m in norms]
    about = {
        "framework": "keras %s on %s" % (keras.__version__, keras.backend.backend()),
        "samples": rows.count,
        "global_batch": rows.batch,
        "in_order": int(not told["shuffle"]),
        "sums": int(sums),
    }
    run = Run(about, _describe_optimizer(optimizer), params, stats)
    return run, _Steps(run, model, optimizer, variables, norms, sums)


class _Steps:
    """A step: values into the block and out of it, and what the rank answers."""

    def __init__(self, run, model, optimizer, variables, norms, sums):
        self.run, self.model, self.optimizer, self.sums = run, model, optimizer, sums
        self.variables, self.norms = variables, norms
        self.params = np.frombuffer(run.params, np.float32)
        self.grads = np.frombuffer(run.grads, np.float32)
        self.stats = np.frombuffer(run.stats, np.float32)
        self.kind = None  # what the rank answered last; None: nothing yet
        self.before = np.zeros_like(self.params)  # parameters before a step that sends differences
        self.merged = None  # statistics as they were when the step began
        self.stream = Stream(run, self)
        self.begun = None  # the slice begun, until its gradients went out
        self.idle = 0  # slices in a row without gradients
        self.training = False
        self.seen = 0  # samples of this rank in the epoch
        self.drained = False  # the epoch has no more slices
        self.tells = False  # the loss is known, and NaN is not met by a smaller scale
        self.answer = STEP
        run.save, run.before_leave = self.save, self.stream.close

    def start(self):
        self.hand_over()
        self._gather(self.stats, [v for _, v, _ in self.norms])
        self.run.start()
        self.take_over()
        self._scatter(self.stats, [v for _, v, _ in self.norms])
        if self.run.state:
            self.load(pickle.loads(self.run.state))

    # ---- block and variables

    @staticmethod
    def _gather(block, variables):
        at = 0
        for v, n in zip(variables, _sizes(variables)):
            block[at : at + n] = _numpy(v).reshape(-1)
            at += n

    @staticmethod
    def _scatter(block, variables):
        at = 0
        for v, n in zip(variables, _sizes(variables)):
            v.assign(block[at : at + n].reshape(v.shape).copy())
            at += n

    def hand_over(self):
        self._gather(self.params, self.variables)

    def take_over(self):
        self._scatter(self.params, self.variables)

    # ---- the step

    def begin_slice(self, piece):
        held = self.run.holds()
        if held:
            self.hand_over()
        if not self.run.begin(piece.number):
            return False
        if held:
            self.take_over()
        if self.norms:
            self._gather(self.stats, [v for _, v, _ in self.norms])
            self.merged = self.stats.copy()
        if self.kind in (None, DIFFERENCE):
            self._gather(self.before, self.variables)
        self.begun = piece
        return True

    def next(self):
        """The slice of this step, begun once, whoever asks first: callback or data. None, until the
        next epoch begins: this one has no more."""
        if self.drained:
            return None
        piece = self.begun or self.stream.begin()
        self.drained = piece is None
        return piece

    def exchange(self, flat, loss):
        """Gradients of this rank; returns what the optimizer steps with."""
        piece = self.begun
        if piece is None:
            raise Error("optimizer.apply() outside fit(): only fit() takes part in a run")
        self.grads[:] = flat if piece.count else 0
        rate = float(keras.ops.convert_to_numpy(self.optimizer.learning_rate))
        loss = float(loss) / max(piece.count, 1) if self.sums else float(loss)
        if math.isnan(loss) and self.tells and piece.count:
            loss = math.inf  # to the rank NaN is a loss that nobody knows
        self.seen += piece.count
        self.answer = self.kind = self.run.gradients(piece.count, loss, rate)
        self.begun, self.idle = None, 0
        if self.kind != STEP and self.model.steps_per_execution != 1:
            raise Error(
                "under this strategy the parameters change after every step: compile() with "
                "steps_per_execution=1"
            )
        # TensorFlow keeps the array that it is given, and the rank writes to the block
        return self.grads.copy() if self.answer == STEP else np.array(flat, np.float32)

    def shadow(self, apply, program):
        """In place of optimizer.apply."""

        def apply_summed(grads, trainable_variables=None):
            variables = self.variables if trainable_variables is None else trainable_variables
            if [id(v) for v in variables] != [id(v) for v in self.variables]:
                raise Error(
                    "the optimizer steps other variables than the model's: freeze layers before "
                    "fit()"
                )
            self.tells = program.loss is not None and not _scales(self.optimizer)
            backend = _tensorflow if keras.backend.backend() == "tensorflow" else _torch
            summed = backend(self.exchange, grads, variables, program.loss)
            back = [None if g is None else s for g, s in zip(grads, summed)]
            return apply(back, trainable_variables)

        return apply_summed

    def mean_over_ranks(self, figures):
        """What this rank's samples of the epoch gave, as a mean over those of all ranks: the same
        numbers on each of them. Where gradients are summed only, before the epoch's end; elsewhere
        the figures stay this rank's."""
        each, means = len(self.grads) - 1, []
        if self.kind != STEP or self.run.workers == 1 or each == 0:
            return figures
        for first in range(0, len(figures), each):
            part = figures[first : first + each]
            self.run.again()
            self.run.weight(self.seen)
            self.grads[:] = 0
            self.grads[0], self.grads[1 : 1 + len(part)] = 1, part
            self.run.gradients()
            means += [float(v) for v in self.grads[1 : 1 + len(part)] / self.grads[0]]
        return means

    def untouched(self):
        """The slice that has begun, if the optimizer has not stepped on it."""
        return self.begun

    def _count_idle(self):
        self.idle += 1
        never = self.kind is None and self.begun.epoch_last
        if not self.run.over and (never or self.idle >= IDLE_MOST):
            raise Error(
                "no gradients of %d batches in a row reached optimizer.apply(): each step is to "
                "have one, with the optimizer that was prepared" % self.idle
            )

    def finish_step(self):
        """After the train function: the difference that the optimizer made, if the rank wants it,
        and what a server or other ranks' statistics change."""
        if self.begun is not None:
            self._count_idle()
            self.run.abort()
            self.begun = None
        answer, self.answer = self.answer, STEP
        if answer == DIFFERENCE:
            self._gather(self.grads, self.variables)
            np.subtract(self.before, self.grads, out=self.grads)
            self.run.difference()
        if answer != STEP:
            self.take_over()
        if self.merged is not None:
            self._merge_statistics()

    def _merge_statistics(self):
        """A moving mean m became k m + …; the other ranks' part of m comes after, as k (merged -
        m)."""
        at, merged = 0, self.stats - self.merged
        for layer, v, _ in self.norms:
            n = int(np.prod(v.shape))
            correction = layer.momentum * merged[at : at + n].reshape(v.shape)
            if np.any(correction):
                v.assign(keras.ops.convert_to_numpy(v) + correction)
            at += n
        self.merged = None

    # ---- state

    def save(self):
        other = [v for v in self.model.non_trainable_variables]
        return pickle.dumps(
            {
                "optimizer": [np.asarray(_any(v)) for v in self.optimizer.variables],
                "variables": [np.asarray(_any(v)) for v in other],
            }
        )

    def load(self, state):
        if not self.optimizer.built:
            self.optimizer.build(self.variables)
        for v, value in zip(self.optimizer.variables, state["optimizer"]):
            v.assign(value)
        for v, value in zip(self.model.non_trainable_variables, state["variables"]):
            v.assign(value)


def _any(variable):
    return keras.ops.convert_to_numpy(variable)


def _tensorflow(exchange, grads, variables, loss):
    import tensorflow as tf

    dense = [
        tf.zeros(v.shape, tf.float32) if g is None else tf.cast(tf.convert_to_tensor(g), tf.float32)
        for g, v in zip(grads, variables)
    ]
    flat = tf.concat([tf.reshape(g, [-1]) for g in dense], 0)
    told = math.nan if loss is None else loss  # a train_step of the user's tells none
    summed = tf.numpy_function(exchange, [flat, tf.cast(told, tf.float32)], tf.float32)
    summed.set_shape(flat.shape)
    parts = tf.split(summed, _sizes(variables))
    return [tf.cast(tf.reshape(p, v.shape), v.dtype) for p, v in zip(parts, variables)]


def _torch(exchange, grads, variables, loss):
    import torch

    flat = np.concatenate(
        [
            np.zeros(n, np.float32) if g is None else g.detach().float().cpu().numpy().reshape(-1)
            for g, n in zip(grads, _sizes(variables))
        ]
    )
    told = math.nan if loss is None else float(loss.detach())  # a train_step may tell none
    summed = torch.from_numpy(exchange(flat, told))
    parts = torch.split(summed, _sizes(variables))
    return [
        p.reshape(tuple(v.shape)).to(v.value.device, v.value.dtype)
        for p, v in zip(parts, variables)
    ]


class _AsTheyCome(int):
    """Batches of an epoch with a server, where each node makes steps of its own: as many as there
    are slices, at most one for each sample. Keras asks before each step whether it has seen so
    many; a step on data that have run out would count in the optimizer's iterations."""

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
