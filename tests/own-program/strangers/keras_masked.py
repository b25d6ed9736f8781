"""Texts of different lengths: an Embedding with mask_zero, so that Keras takes the mean over the
words that are there, a class for each of them."""
import keras
import numpy as np

import evenstep

keras.utils.set_random_seed(3)
draw = np.random.RandomState(3)
lengths = draw.randint(1, 12, 96)
x = draw.randint(1, 20, (96, 12)) * (np.arange(12) < lengths[:, None])
y = (x % 4)[..., None]

inputs = keras.Input((12,), dtype="int32")
h = keras.layers.Embedding(20, 8, mask_zero=True)(inputs)
h = keras.layers.SimpleRNN(8, return_sequences=True)(h)
model = keras.Model(inputs, keras.layers.Dense(4)(h))
model = evenstep.prepare(model)
model.compile(keras.optimizers.SGD(0.3, momentum=0.9),
              keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, batch_size=32, epochs=3, verbose=2, shuffle=False)
