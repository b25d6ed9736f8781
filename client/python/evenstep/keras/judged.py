"""Losses of a training loop of the user's own: what a loss is a mean over, which is the batch's
weight, and whether it is a mean at all. On PyTorch this is read from autograd's graph (torch/loss),
in a tf.function from its graph (summed.py), and in other TensorFlow code from the operations that
run (recorded.py). Where outputs are masked, Keras' divisor is taken when its losses are called.
"""

import keras

from . import weight
from .summed import NUMBER, TENSOR, Function, parts_of

SUM = (
    "the loss that tape.gradient() was given is a sum over the rows of the batch, perhaps divided "
    "by a constant: each node has that of its own rows, and the mean over nodes is not the loss of "
    'the whole batch: take tf.reduce_mean, or say prepare(…, reduction="sum")'
)
SEVERAL = (
    "the step's losses are means over several numbers (what a mask leaves, weights, rows), and the "
    "batch counts as its rows: the mean over nodes is near the loss of the whole batch, but not "
    "equal to it; evenstep.weight(n) before apply_gradients() says what a batch counts"
)
_ALIKE = 3  # batches in a row with the same divisor
_WHATEVER = object()


def judge_of(run):
    """The judge for a loop whose losses are means."""
    return (_OfTorch if keras.backend.backend() == "torch" else _OfTensorFlow)(run)


class _Judge:
    def __init__(self, run):
        self.run, self.rows = run, 0
        self._told = set()
        self._weight, self._was_read = None, True
        self._masked = []  # the divisors of Keras' losses that were called in this batch
        self._watch_losses()

    def _watch_losses(self):
        call = keras.losses.Loss.__call__

        def called(loss, y_true, y_pred, sample_weight=None):
            mask = getattr(y_pred, "_keras_mask", None)
            by = None if mask is None else weight.divisor(loss.reduction, mask, sample_weight)
            self._masked.append(by)
            return call(loss, y_true, y_pred, sample_weight)

        keras.losses.Loss.__call__ = called

    def batch_begins(self, rows):
        self.rows, self._masked = rows, []
        self._weight, self._was_read = None, True

    def look_at(self, loss):
        """Judges a loss when its backward pass begins."""
        masked, self._masked = self._masked, []
        if any(by is not None for by in masked):
            found = masked[0] if len(masked) == 1 else _WHATEVER
        else:
            found = self.over(loss)
        if not self._was_read and found is not self._weight:
            found = _WHATEVER
        if found is _WHATEVER:
            self.tell(SEVERAL)
        self._weight, self._was_read = None if found is _WHATEVER else found, False

    def over(self, loss):
        """What the loss is a mean over; None: rows."""

    def pass_begins(self):
        """From now on no computation is part of a loss."""

    def pass_ends(self):
        """From now on computations may be part of a loss."""

    def weight(self):
        """The batch's weight for apply(); None: its rows."""
        self._was_read = True
        return self._weight

    def tell(self, sentence):
        if sentence not in self._told:
            self._told.add(sentence)
            self.run.say(sentence)


class _OfTensorFlow(_Judge):
    def __init__(self, run):
        from .recorded import Recorder

        self.recorder, self._numbers = Recorder(), []
        super().__init__(run)

    def batch_begins(self, rows):
        super().batch_begins(rows)
        self.recorder.batch_begins(rows)

    def over(self, loss):
        import tensorflow as tf

        if tf.is_symbolic_tensor(loss):
            parts = parts_of(Function, loss)
            if any(kind is NUMBER for kind, _ in parts):
                self.tell(SUM)
            return self._over(parts)
        made = self.recorder.made(loss)
        parts = parts_of(self.recorder, made) if made else []
        self._look_for_sums(parts)
        found = self._over([(kind, by.tensor if kind is TENSOR else by) for kind, by in parts])
        self.recorder.looks += found is not None  # looks at each batch
        return found

    def _over(self, parts):
        kinds = {kind for kind, _ in parts} - {NUMBER}
        tensors = [by for kind, by in parts if kind is TENSOR]
        numbers = {by for kind, by in parts if kind is NUMBER}
        if TENSOR not in kinds:
            return numbers.pop() if len(numbers) == 1 and not kinds else None
        alike = all(by is tensors[0] for by in tensors)
        return _number_of(tensors[0]) if alike and kinds == {TENSOR} and not numbers else _WHATEVER

    def _look_for_sums(self, parts):
        """Whether nothing of the batch divides the loss, in several batches in a row."""
        numbers = {by for kind, by in parts if kind is NUMBER and not self._may_be_a_mean(by)}
        self._numbers = [*self._numbers[1 - _ALIKE :], numbers]
        alike = len(self._numbers) == _ALIKE and all(one == numbers for one in self._numbers)
        if numbers and alike:
            self.tell(SUM)

    def _may_be_a_mean(self, divisor):
        """Whether the divisor is a whole number for each row."""
        each = divisor / self.rows
        whole = each > 0.5 and abs(each - round(each)) < 1e-5 * each
        return whole and divisor != self.run.global_batch

    def pass_begins(self):
        self.recorder.pause(True)

    def pass_ends(self):
        self.recorder.pause(False)

    def weight(self):
        """A graph's tensor has no value outside its graph."""
        import tensorflow as tf

        found = super().weight()
        if not tf.is_symbolic_tensor(found):
            return found
        if found.graph is tf.compat.v1.get_default_graph():
            return found
        self.tell(SEVERAL)
        return None


def _number_of(tensor):
    """The number of chosen rows, or the divisor."""
    import tensorflow as tf

    if tensor.shape.rank == 0:
        return tf.cast(tensor, tf.float32)
    return tf.cast(tf.shape(tensor)[0], tf.float32)


class _OfTorch(_Judge):
    """Refuses a sum. It does not look for compared samples, since Keras' own means and norms would
    look like them."""

    def __init__(self, run):
        from ..torch.loss.divisor import Divisor

        self._divisor = Divisor(run, looks=0)
        super().__init__(run)

    def over(self, loss):
        return self._divisor.of(loss, self.rows) if self.rows and loss.numel() == 1 else None
