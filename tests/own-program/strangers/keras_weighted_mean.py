"""A loss that is divided by the samples' weights, as torch's weighted cross-entropy is."""
import keras
import numpy as np

import evenstep

keras.utils.set_random_seed(3)
draw = np.random.RandomState(3)
x = draw.randn(96, 6).astype("float32")
y = x.sum(1, keepdims=True)
weights = draw.rand(96) ** 3
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model = evenstep.prepare(model)
model.compile(keras.optimizers.SGD(0.1), keras.losses.MeanSquaredError("mean_with_sample_weight"))
model.fit(x, y, sample_weight=weights, batch_size=32, epochs=3, verbose=2, shuffle=False)
