"""What fit() calls between two steps, and between two epochs."""

import keras
import numpy as np


class Between(keras.callbacks.Callback):
    """Begins a slice before the train function, and finishes its step after it.

    It is the first of the callbacks. At an epoch's end it replaces this rank's training figures by
    the means over all ranks. So callbacks that decide by them (EarlyStopping, ReduceLROnPlateau)
    decide alike on all ranks."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps
        self.means = {}  # the epoch's figures over all ranks

    def on_train_begin(self, logs=None):
        self.steps.training = True

    def on_train_end(self, logs=None):
        self.steps.training = False

    def on_epoch_begin(self, epoch, logs=None):
        self.steps.drained = False
        self.steps.state.scheduled = True
        self.steps.seen = 0
        self.means = {}

    def on_train_batch_begin(self, batch, logs=None):
        piece = self.steps.next()
        self.steps.state.keep_rates(piece)
        self.steps.state.give_counters()
        if piece is None and self.steps.run.over:
            self.model.stop_training = True

    def on_train_batch_end(self, batch, logs=None):
        self.steps.finish_step()
        if self.steps.stream.is_ending():
            self.steps.state.scheduled = False
            named = {k: float(v) for k, v in (logs or {}).items() if np.ndim(v) == 0}
            self.means = dict(zip(named, self.steps.mean_over_ranks(list(named.values()))))
        self.steps.drained = self.steps.stream.close_epoch_if_over()
        if not self.steps.drained and self.steps.stream.at_end():
            self.steps.next()

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            logs.update(self.means)
        if self.steps.run.rank == 0:
            self.tell(logs or {})

    def tell(self, logs):
        """Logs the epoch's figures. The training loss is in the rows of the run."""
        shown = {
            "test_" + name[4:] if name.startswith("val_") else name: float(value)
            for name, value in logs.items()
            if name != "loss" and np.ndim(value) == 0
        }
        if shown:
            self.steps.run.log(shown)
