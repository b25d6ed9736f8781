"""A loss of the program's own: TEST_LOSS=mean, one number for a batch, the mean over its values, or
=masked, over those that a mask leaves, of which rows have different numbers; =rows, one for each
sample, or =compared, which the other samples have a part in; =own_mean and =own_masked, a model's
compute_loss()."""
import os

import keras
import numpy as np
from keras import layers, ops

import evenstep

keras.utils.set_random_seed(7)
draw = np.random.RandomState(7)
x = draw.randn(96, 6).astype("float32")
there = (draw.rand(96, 3) < draw.rand(96, 1)).astype("float32")


def mean(y, made):
    return ops.mean(ops.square(y[:, :3] - made))


def masked(y, made):
    mask = y[:, 3:]
    return ops.sum(mask * ops.square(y[:, :3] - made)) / ops.maximum(ops.sum(mask), 1.0)


def rows(y, made):
    return ops.mean(ops.square(y[:, :3] - made), axis=1)


def compared(y, made):
    return rows(y, made) / ops.mean(ops.abs(made))


class Own(keras.Model):
    """What compile() was given as `loss` is called by compute_loss() of its own."""

    def __init__(self, inner, loss_of):
        super().__init__()
        self.inner, self.loss_of = inner, loss_of

    def call(self, x):
        return self.inner(x)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return self.loss_of(y, y_pred)


which = os.environ["TEST_LOSS"]
loss = {"mean": mean, "masked": masked, "rows": rows, "compared": compared}[which.split("_")[-1]]
model = keras.Sequential([layers.Dense(8, "tanh"), layers.Dense(3)])
model = evenstep.prepare(Own(model, loss) if which.startswith("own_") else model)
model.compile("sgd", None if which.startswith("own_") else loss)
model.fit(x, np.concatenate([x[:, :3], there], 1), batch_size=32, epochs=1, verbose=0)
