"""Weights that are held: none negative in the last layer, of bounded norm in the first."""
import keras
import numpy as np
from keras import layers

import evenstep

keras.utils.set_random_seed(12)
draw = np.random.RandomState(12)
x = draw.rand(96, 6).astype("float32")
y = (3 * x[:, :1] - 4 * x[:, 1:2]).astype("float32")
model = keras.Sequential([
    keras.Input((6,)),
    layers.Dense(8, "relu", kernel_constraint=keras.constraints.MaxNorm(0.5)),
    layers.Dense(1, kernel_constraint=keras.constraints.NonNeg()),
])
model = evenstep.prepare(model)
model.compile(keras.optimizers.SGD(0.1), "mse")
model.fit(x, y, batch_size=32, epochs=4, shuffle=False, verbose=0)
last, first = (keras.ops.convert_to_numpy(layer.kernel) for layer in model.layers[::-1])
print("least %.6f norm %.6f" % (last.min(), np.sqrt((first ** 2).sum(0)).max()))
