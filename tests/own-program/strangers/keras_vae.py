"""A variational autoencoder whose sampling layer adds its divergence by add_loss(); noise comes
with the data. TEST_KL=mean, or =sum over the batch, as some write it."""
import os

import keras
import numpy as np
from keras import layers, ops

import evenstep

keras.utils.set_random_seed(4)
draw = np.random.RandomState(4)
x, noise = draw.rand(96, 10).astype("float32"), draw.randn(96, 2).astype("float32")
KL = os.environ.get("TEST_KL", "mean")


class Sampling(layers.Layer):
    def call(self, inputs):
        mean, log_var, noise = inputs
        kl = -0.5 * ops.sum(1 + log_var - ops.square(mean) - ops.exp(log_var), axis=-1)
        self.add_loss(0.1 * (ops.mean(kl) if KL == "mean" else ops.sum(kl)))
        return mean + ops.exp(0.5 * log_var) * noise


picture, drawn = keras.Input((10,)), keras.Input((2,))
h = layers.Dense(8, activation="tanh")(picture)
z = Sampling()([layers.Dense(2)(h), layers.Dense(2)(h), drawn])
out = layers.Dense(10, activation="sigmoid")(layers.Dense(8, activation="tanh")(z))
model = keras.Model([picture, drawn], out)
model = evenstep.prepare(model)
model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "binary_crossentropy")
model.fit([x, noise], x, batch_size=32, epochs=4, shuffle=False, verbose=0)
