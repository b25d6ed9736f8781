"""A classifier of texts as the tutorials have it: an Embedding, a mean over the words, and Adam."""
import keras
import numpy as np
from keras import layers

import evenstep

keras.utils.set_random_seed(6)
draw = np.random.default_rng(6)
x = draw.integers(0, 30, size=(96, 7))
y = (x == 3).any(1).astype("float32")
model = keras.Sequential([
    keras.Input((7,), dtype="int32"), layers.Embedding(30, 8), layers.GlobalAveragePooling1D(),
    layers.Dense(8, activation="relu"), layers.Dense(1, activation="sigmoid")])
model = evenstep.prepare(model)
model.compile(keras.optimizers.Adam(0.01, epsilon=1e-3), "binary_crossentropy")
model.fit(x, y, batch_size=32, epochs=3, shuffle=False, verbose=0)
