"""A model that is saved, loaded and trained on."""
import os
import tempfile

import keras
import numpy as np
from keras import layers

import evenstep

keras.utils.set_random_seed(19)
draw = np.random.RandomState(19)
x = draw.randn(96, 6).astype("float32")
y = x[:, :1] * x[:, 1:2]
model = keras.Sequential([keras.Input((6,)), layers.Dense(16, "tanh"), layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
model = evenstep.prepare(model)
model.fit(x, y, batch_size=32, epochs=2, shuffle=False, verbose=0)
file = os.path.join(tempfile.mkdtemp(), "model.keras")
model.save(file)
model = keras.models.load_model(file)
model = evenstep.prepare(model)
model.fit(x, y, batch_size=32, epochs=2, shuffle=False, verbose=0)
