"""What a batch's gradient counts in the mean over nodes, where it is not its samples.

Keras divides the loss of masked outputs (Embedding(mask_zero=True)) by the entries that the mask
leaves, and one with reduction="mean_with_sample_weight" by the weights' sum. Nodes have different
numbers of these, so the mean over nodes counts them in place of samples. Of several outputs each
has a divisor of its own: they count samples.
"""

import inspect

import numpy as np
from keras import Model, losses, ops, tree
from keras.src import backend

from ..run import Error

KERAS_OWN = Model.compute_loss
TRIED = 8  # rows
ONE_NUMBER = (
    "the loss '%s' gives one number for a batch, which is not the mean over its samples: each node "
    "has that of its own samples, and their mean is not the loss of the whole batch. Let it give a "
    "loss for each sample, and fit(sample_weight=…) say what each counts"
)
COMPARED = (
    "the loss '%s' of a sample depends on the other samples of its batch: each node compares those "
    "of its own minibatch alone, which is not the loss of the whole batch"
)
INSTEAD = {
    "no_sync": "is of PyTorch programs: Keras adds up the gradients of several batches by "
    "Adam(gradient_accumulation_steps=N)",
    "state_dict": "is of PyTorch programs: model.save() keeps a Keras model with its optimizer",
    "weight": "belongs into a loop of your own, between a batch and apply_gradients(): fit() "
    "weighs by samples, or by the entries of a mask",
}


def of_batch(model, compute_loss, args, kwargs):
    """From the arguments of compute_loss(); None: its samples."""
    reduction = getattr(model.loss, "reduction", None)
    if model.loss is None or reduction == "sum" or type(model).compute_loss is not KERAS_OWN:
        return None
    given = inspect.signature(compute_loss).bind(*args, **kwargs).arguments
    outputs = tree.flatten(given.get("y_pred"))
    if len(outputs) != 1:
        return None
    mask, weights = backend.get_keras_mask(outputs[0]), given.get("sample_weight")
    if reduction != "mean_with_sample_weight":
        return None if mask is None else ops.sum(ops.cast(mask, "float32"))
    given = [ops.cast(t, "float32") for t in (mask, weights) if t is not None]
    if len(given) == 2:
        while len(given[1].shape) < len(given[0].shape):
            given[1] = ops.expand_dims(given[1], -1)
        given = [given[0] * given[1]]
    return ops.sum(given[0]) if given else None


def _own_loss(model):
    """The loss function that the program wrote, of a model with one; None: there is none."""
    loss = model.loss
    call = loss.call if isinstance(loss, losses.Loss) else loss
    call = getattr(loss, "fn", call)  # that of a function which Keras has wrapped
    own = callable(call) and not getattr(call, "__module__", "keras.").startswith("keras.")
    return call if own and type(model).compute_loss is KERAS_OWN else None


def _tried(model):
    """(name, function of x, y and what the model makes of x) of a loss that the program wrote: the
    function that compile() was given, or the model's own compute_loss(); None: there is none."""
    loss = _own_loss(model)
    if loss is not None:
        given = getattr(model.loss, "fn", model.loss)
        name = getattr(given, "__name__", type(given).__name__)
        return name, lambda x, y, made: loss(y, made)
    compute = type(model).compute_loss
    if compute is KERAS_OWN:
        return None
    return "compute_loss", lambda x, y, made: compute(model, x=x, y=y, y_pred=made)


def _rows_of(values, at):
    return tree.map_structure(lambda a: a[at], values)


def _what_it_is(loss, given):
    """The sentence that belongs to a loss by what it gives for a batch and for its rows alone;
    None: there is nothing to say, or it draws at random."""
    whole, again = (ops.convert_to_numpy(loss(*given)) for _ in range(2))
    if not np.array_equal(whole, again, equal_nan=True):
        return None
    n = len(tree.flatten(given)[0])
    each = [ops.convert_to_numpy(loss(*_rows_of(given, slice(i, i + 1)))) for i in range(n)]
    near = dict(rtol=1e-3, atol=1e-6, equal_nan=True)
    if whole.ndim == 0:
        return None if np.isclose(whole, np.mean(each), **near) else ONE_NUMBER
    if whole.shape[0] != n or np.allclose(whole, np.concatenate(each), **near):
        return None
    return COMPARED


def what_to_tell(model, rows):
    """A loss of the program's own that is not the mean of what each sample gives is another one on
    a part of the batch. It is tried on the first rows; None: there is nothing to tell."""
    batch = rows.rows(np.arange(min(TRIED, rows.count)))
    if (tried := _tried(model)) is None or len(batch) < 2:
        return None
    name, loss = tried
    try:
        x, y = tree.map_structure(ops.convert_to_tensor, tuple(batch[:2]))
        made = model(x)
        if hasattr(made, "dtype"):
            y = ops.cast(y, made.dtype)
        said = _what_it_is(loss, (x, y, made))
    except Exception:  # it takes something else, and so is no function of a row and what is made
        return None
    return said and said % name


class Calls:
    """evenstep.weight(), no_sync() and state_dict() of a Keras program."""

    def __init__(self, steps=None):
        self.steps = steps  # of a loop of the user's own

    def weight(self, n):
        if self.steps is None:
            self._refuse("weight")
        self.steps.told_weight = float(n)

    def no_sync(self):
        self._refuse("no_sync")

    def state_dict(self):
        self._refuse("state_dict")

    @staticmethod
    def _refuse(call):
        raise Error("%s() %s" % (call, INSTEAD[call]))
