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


def _is_mean(loss, y, made):
    """Whether what it gives for a batch is the mean of what it gives for its rows."""
    whole = ops.convert_to_numpy(loss(y, made))
    if whole.ndim > 0:
        return True
    rows = [slice(i, i + 1) for i in range(len(y))]
    each = [ops.convert_to_numpy(loss(y[row], made[row])) for row in rows]
    return bool(np.isclose(whole, np.mean(each), rtol=1e-3, equal_nan=True))


def what_to_tell(model, rows):
    """A loss function of the program's own that gives one number for a batch, and not the mean over
    its samples, is another one on a part of the batch. It is tried on the first rows; None: there
    is nothing to tell."""
    loss, batch = _own_loss(model), rows.rows(np.arange(min(TRIED, rows.count)))
    if loss is None or len(batch) < 2:
        return None
    try:
        made = model(tree.map_structure(ops.convert_to_tensor, batch[0]))
        if _is_mean(loss, ops.cast(batch[1], made.dtype), made):
            return None
    except Exception:  # it takes something else, and so is no function of a row and what is made
        return None
    return ONE_NUMBER % getattr(loss, "__name__", type(loss).__name__)


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
