"""Tries the program's own code on a few rows before the run begins: a loss function, a
compute_loss(), losses of add_loss(), a train_step().

A node computes with its own part of each batch. The mean over nodes equals that of the whole batch
only if the batch's loss is the mean of its samples' losses. So the rows are taken together, and one
by one:

    together   loss(rows 0…7)         each   mean of loss(row 0), …, loss(row 7)

Where the two differ the program is told, and trains on. Code that draws at random gives another
value each time, and is passed over. A train_step() is judged by the gradients that it hands to
apply(), which steps nothing meanwhile.
"""

import random

import keras
import numpy as np
from keras import losses, ops, tree
from keras.src.losses.loss import squeeze_or_expand_to_same_rank

from .weight import KERAS_OWN

TRIED = 8  # rows
KERAS_STEP = keras.Model.train_step
ONE_NUMBER = (
    "the loss '%s' gives one number for a batch, which is not the mean over its samples: each node "
    "has that of its own samples, and their mean is not the loss of the whole batch. Let it give a "
    "loss for each sample, and fit(sample_weight=…) say what each counts"
)
COMPARED = (
    "the loss '%s' of a sample depends on the other samples of its batch: each node compares those "
    "of its own minibatch alone, which is not the loss of the whole batch"
)
ADDED = (
    "what a layer adds by add_loss() is not the mean over the samples of a batch: each node adds "
    "that of its own samples, and their mean is not that of the whole batch. Let it add a mean"
)
GRADIENTS = (
    "the gradients that train_step() gives to apply() are not the mean of those of each sample, so "
    "the mean over nodes is not the gradient of the whole batch: a sum, a mean over what a mask "
    "leaves, a comparison of samples, or clipping by hand does so. Take means over samples, and "
    "let the optimizer clip (global_clipnorm=…)"
)
NEAR = dict(rtol=1e-3, atol=1e-6, equal_nan=True)


def what_to_tell(program, rows):
    """Sentences."""
    model, batch = program.model, rows.rows(np.arange(min(TRIED, rows.count)))
    told = _tell(_of_losses, model, batch) if len(batch) > 1 else []
    if type(model).train_step is not KERAS_STEP:
        return told or _tell(_of_gradients, program, batch)
    return told + _tell(_of_added, model, batch)


def _tell(of, *given):
    try:
        return [said for said in of(*given) if said]
    except Exception:  # it takes other arguments, so it is no function of a row
        return []


def _rows_of(values, at):
    return tree.map_structure(lambda a: a[at], values)


def _each(values):
    n = len(tree.flatten(values)[0])
    return [_rows_of(values, slice(i, i + 1)) for i in range(n)]


# ---- losses


def _own(loss):
    """The loss function that the program wrote; None: it is one of Keras'."""
    call = loss.call if isinstance(loss, losses.Loss) else loss
    call = getattr(loss, "fn", call)  # a function that Keras has wrapped
    own = callable(call) and not getattr(call, "__module__", "keras.").startswith("keras.")
    return call if own else None


def _by_output(model, y, made):
    """(loss, right, made) of each output."""
    loss = model.loss
    if isinstance(loss, dict):
        names = list(made) if isinstance(made, dict) else model.output_names
        y, made = (
            part if isinstance(part, dict) else dict(zip(names, tree.flatten(part)))
            for part in (y, made)
        )
        return [(loss[name], y[name], made[name]) for name in names if name in loss]
    if isinstance(loss, (list, tuple)):
        return list(zip(loss, tree.flatten(y), tree.flatten(made)))
    return [(loss, y, made)]


def _of_losses(model, batch):
    """The functions that compile() was given, or the model's own compute_loss()."""
    compute = type(model).compute_loss
    if compute is KERAS_OWN and not any(map(_own, tree.flatten(model.loss))):
        return
    x, y = tree.map_structure(ops.convert_to_tensor, tuple(batch[:2]))
    made = model(x)
    if compute is not KERAS_OWN:
        if hasattr(made, "dtype"):
            y = ops.cast(y, made.dtype)
        loss = lambda x, y, made: compute(model, x=x, y=y, y_pred=made)
        yield _what_it_is("compute_loss", loss, (x, y, made))
        return
    for given, right, part in _by_output(model, y, made):
        if (loss := _own(given)) is not None:
            name = getattr(given, "fn", given)
            name = getattr(name, "__name__", type(name).__name__)
            right = ops.cast(right, part.dtype)
            if not isinstance(given, losses.Loss):  # Keras does so itself for functions
                right, part = squeeze_or_expand_to_same_rank(right, part)
            yield _what_it_is(name, loss, (right, part))


def _what_it_is(name, loss, given):
    """What to tell the user about a loss, from its values for a batch and for single rows, or
    None."""
    whole, again = (ops.convert_to_numpy(loss(*given)) for _ in range(2))
    if not np.array_equal(whole, again, equal_nan=True):
        return None
    each = [ops.convert_to_numpy(loss(*row)) for row in _each(given)]
    if whole.ndim == 0:
        return None if np.isclose(whole, np.mean(each), **NEAR) else ONE_NUMBER % name
    if whole.shape[0] != len(each) or np.allclose(whole, np.concatenate(each), **NEAR):
        return None
    return COMPARED % name


def _of_added(model, batch):
    """The same for losses of add_loss(). Regularizers are among them, and give the same for each
    single row."""
    def added(x):
        model(x)
        return [float(ops.convert_to_numpy(loss)) for loss in model.losses]

    x = tree.map_structure(ops.convert_to_tensor, batch[0])
    whole = added(x)
    if not whole or whole != added(x):
        return
    each = np.mean([added(row) for row in _each(x)], axis=0)
    yield None if np.allclose(whole, each, **NEAR) else ADDED


# ---- gradients


class _Kept:
    """Restores after the block what trying a train_step() changes: variables of the model and its
    metrics, counters in attributes, random numbers."""

    def __init__(self, model):
        self.model = model

    def __enter__(self):
        model = self.model
        variables = [*model.variables, *(v for m in model.metrics for v in m.variables)]
        self.variables = [(v, ops.convert_to_numpy(v).copy()) for v in variables]
        self.counts = {k: v for k, v in vars(model).items() if isinstance(v, (bool, int, float))}
        self.drawn = random.getstate(), np.random.get_state()
        if keras.backend.backend() == "torch":
            import torch

            self.drawn += (torch.get_rng_state(),)

    def __exit__(self, *_):
        for v, value in self.variables:
            v.assign(value)
        for name, value in self.counts.items():
            object.__setattr__(self.model, name, value)
        random.setstate(self.drawn[0])
        np.random.set_state(self.drawn[1])
        if keras.backend.backend() == "torch":
            import torch

            torch.set_rng_state(self.drawn[2])


def _flat(grads):
    given = [ops.convert_to_numpy(ops.convert_to_tensor(g)) for g in grads if g is not None]
    return np.concatenate([g.astype(np.float64).reshape(-1) for g in given] or [np.zeros(0)])


def _of_gradients(program, batch):
    from .describe import norms_of, optimizers_of  # imported here, since it needs the run

    model, given = program.model, []
    if any(layer.trainable for layer, _, _ in norms_of(model)):
        return  # a batch norm compares samples, as is known

    def keep(grads, trainable_variables=None):
        given.append(_flat(grads))

    def gradients_of(rows):
        given.clear()
        program.weight = None
        model.train_step(tree.map_structure(ops.convert_to_tensor, tuple(rows)))
        weight = len(tree.flatten(rows)[0]) if program.weight is None else float(program.weight)
        return np.concatenate(given), weight

    optimizers = optimizers_of(model)
    with _Kept(model):
        for optimizer in optimizers:
            object.__setattr__(optimizer, "apply", keep)
        try:
            (whole, _), (again, _) = gradients_of(batch), gradients_of(batch)
            same = np.array_equal(whole, again)
            each = [gradients_of(row) for row in _each(batch)] if same else []
        finally:
            for optimizer in optimizers:
                object.__delattr__(optimizer, "apply")
            program.loss = program.weight = None
    yield _what_they_are(whole, each)


def _what_they_are(whole, each):
    weights = [weight for _, weight in each]
    if not each or not np.isfinite(whole).all() or sum(weights) <= 0:
        return None
    mean = sum(weight * flat for flat, weight in each if weight) / sum(weights)
    return GRADIENTS if np.abs(whole - mean).max() > 0.02 * np.abs(whole).max() else None
