"""Two outputs with losses of the program's own, of which one is a sum over the batch."""
import keras
import numpy as np
from keras import layers, ops

import evenstep

keras.utils.set_random_seed(17)
draw = np.random.RandomState(17)
x = draw.randn(96, 6).astype("float32")


def near(y, made):
    return ops.sum(ops.square(y - made)) / 32


def far(y, made):
    return ops.mean(ops.abs(y - made), axis=-1)


entry = keras.Input((6,))
h = layers.Dense(8, "tanh")(entry)
model = keras.Model(entry, [layers.Dense(2, name="a")(h), layers.Dense(1, name="b")(h)])
model = evenstep.prepare(model)
model.compile(keras.optimizers.SGD(0.05), [near, far])
model.fit(x, [x[:, :2], x[:, 2:3]], batch_size=32, epochs=3, shuffle=False, verbose=0)
