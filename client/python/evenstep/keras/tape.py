"""Watches what a loop or a train_step of the user's own does with gradients before apply() sums
them over the nodes.

Before apply() the gradients are this node's own. Code that clips or normalizes them by hand sees
only this node's part of the batch, and changes the sum. On TensorFlow each gradient that apply()
gets must be one that a tape gave. On PyTorch gradients are changed in place, and their versions
since the end of the backward pass count the changes. A tape that gets one loss for each sample
takes their sum, which is no mean over nodes.
"""

import weakref

import keras
from keras import tree

from ..run import Error

CHANGED = (
    "gradients are changed before they reach apply(), where they are summed over the nodes: "
    "clipping and normalizing by hand see this node's own. Let the optimizer clip them "
    "(clipnorm=…, global_clipnorm=…, clipvalue=…); a factor, or a sum of several passes, is the "
    "same anywhere"
)
FOR_EACH_SAMPLE = (
    "tape.gradient() was given a loss of one number for each sample, and takes the gradient of "
    "their sum, which is another one on a node's part of the batch: take tf.reduce_mean(loss)"
)
GLOBAL = (
    "compute_average_loss(global_batch_size=…) divides by the samples of all nodes, and the mean "
    "over nodes would divide once more: leave global_batch_size out"
)


class Tapes:
    """The tapes of this process, and the gradients that they gave."""

    def __init__(self):
        self.given = {}  # weak references by id
        self.weights = set()  # ids of the variables that train
        # the same variables, and on PyTorch the versions of their gradients by id
        self.variables = []
        self.versions = {}
        self.watching = False
        self.judge = None  # judges a loop's loss; None: a train_step

    def watch(self, variables, judge):
        """Watches these variables from now on."""
        self.judge = judge
        self.weights |= {id(one) for v in variables for one in (v, getattr(v, "_value", v))}
        self.variables += variables
        if not self.watching and keras.backend.backend() == "tensorflow":
            self._shadow_tapes()
        elif not self.watching:
            self._shadow_backward()
        self.watching = True

    def _shadow_backward(self):
        import torch

        backward = torch.Tensor.backward

        def watched(loss, *args, **kwargs):
            if self.judge:
                self.judge.look_at(loss)
            backward(loss, *args, **kwargs)
            grads = [v.value.grad for v in self.variables]
            self.versions = {id(g): g._version for g in grads if g is not None}

        torch.Tensor.backward = watched

    def _shadow_tapes(self):
        import tensorflow as tf

        gradient, average = tf.GradientTape.gradient, tf.nn.compute_average_loss

        @tf.autograph.experimental.do_not_convert
        def watched(tape, target, sources, *args, **kwargs):
            judge = self.judge if self._trains(sources) else None
            if self._trains(sources):
                _check_is_one_number(target)
            for loss in tree.flatten(target) if judge else ():
                judge.look_at(loss)
            if judge:
                judge.pass_begins()
            given = gradient(tape, target, sources, *args, **kwargs)
            if judge:
                judge.pass_ends()
            self._keep(given)
            return given

        @tf.autograph.experimental.do_not_convert
        def averaged(per_example_loss, sample_weight=None, global_batch_size=None):
            if global_batch_size is not None:
                raise Error(GLOBAL)
            return average(per_example_loss, sample_weight)

        tf.GradientTape.gradient, tf.nn.compute_average_loss = watched, averaged

    def _trains(self, sources):
        return any(id(one) in self.weights for one in tree.flatten(sources))

    def _keep(self, given):
        self.given = {at: ref for at, ref in self.given.items() if ref() is not None}
        self.given.update((id(g), weakref.ref(g)) for g in tree.flatten(given) if g is not None)

    def changed(self, gradient):
        if keras.backend.backend() == "torch":
            version = getattr(gradient, "_version", 0)
            return self.versions.get(id(gradient), version) != version
        ref = self.given.get(id(gradient))
        return bool(self.given) and (ref is None or ref() is not gradient)


_tapes = Tapes()


def watch(variables, judge=None):
    """judge: judges a loop's losses (judged.py). A train_step has none, since it has been tried
    (tried.py)."""
    _tapes.watch(variables, judge)


def what_to_tell(grads):
    """What to tell the user about the gradients that apply() got, or None."""
    return CHANGED if any(_tapes.changed(g) for g in grads if g is not None) else None


def _check_is_one_number(target):
    for one in tree.flatten(target):
        rank = one.shape.rank
        if rank and any(size != 1 for size in one.shape):
            raise Error(FOR_EACH_SAMPLE)
