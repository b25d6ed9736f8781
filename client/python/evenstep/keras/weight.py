"""The weight of a batch's gradient in the mean over nodes, where it is not the number of samples.

Keras divides the loss of masked outputs (Embedding(mask_zero=True)) by the number of entries that
the mask leaves. With reduction="mean_with_sample_weight" it divides by the sum of the weights.
These differ among nodes, so the mean over nodes counts them in place of samples. With several
outputs each has its own divisor; then samples count, and the program is told.
"""

import inspect

from keras import Model, ops, tree

from ..run import Error

KERAS_OWN = Model.compute_loss
BY_WEIGHTS = "mean_with_sample_weight"
SEVERAL = (
    "of the losses of several outputs each is divided by a number of its own (the entries that a "
    "mask leaves, or its weights' sum), and nodes are weighed by samples: their mean is near the "
    "loss of the whole batch, but not equal to it"
)
INSTEAD = {
    "no_sync": "is of PyTorch programs: Keras adds up the gradients of several batches by "
    "Adam(gradient_accumulation_steps=N)",
    "state_dict": "is of PyTorch programs: model.save() keeps a Keras model with its optimizer",
    "weight": "belongs into a loop of your own, between a batch and apply_gradients(): fit() "
    "weighs by samples, or by the entries of a mask",
}


def _reductions(model):
    return [getattr(loss, "reduction", None) for loss in tree.flatten(model.loss)
            if loss is not None]


def of_batch(model, compute_loss, args, kwargs):
    """(weight, sentence) from the arguments of compute_loss(). weight None: the batch's samples;
    sentence: what to tell the user, or None."""
    reductions = _reductions(model)
    if not reductions or "sum" in reductions or type(model).compute_loss is not KERAS_OWN:
        return None, None
    given = inspect.signature(compute_loss).bind(*args, **kwargs).arguments
    outputs = tree.flatten(given.get("y_pred"))
    masks = [getattr(output, "_keras_mask", None) for output in outputs]
    if len(outputs) != 1:
        divided = any(mask is not None for mask in masks) or BY_WEIGHTS in reductions
        return None, SEVERAL if divided else None
    return divisor(reductions[0], masks[0], given.get("sample_weight")), None


def divisor(reduction, mask, weights):
    """The divisor of an output's loss in Keras; None: its samples."""
    if reduction != BY_WEIGHTS:
        return None if mask is None else ops.sum(ops.cast(mask, "float32"))
    given = [ops.cast(t, "float32") for t in (mask, weights) if t is not None]
    if len(given) == 2:
        while len(given[1].shape) < len(given[0].shape):
            given[1] = ops.expand_dims(given[1], -1)
        given = [given[0] * given[1]]
    return ops.sum(given[0]) if given else None


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
