"""Words are tagged and the text as a whole is classified: the tags' loss is the mean over the words
that the mask leaves, that of the texts is the mean over texts."""
import keras
import numpy as np
from keras import layers

import evenstep

keras.utils.set_random_seed(16)
draw = np.random.RandomState(16)
lengths = draw.randint(1, 10, 96)
words = draw.randint(1, 20, (96, 10)) * (np.arange(10) < lengths[:, None])
tags, kinds = words % 3, words[:, 0] % 4
entry = keras.Input((10,), dtype="int32")
h = layers.GRU(8, return_sequences=True)(layers.Embedding(20, 8, mask_zero=True)(entry))
model = keras.Model(entry, {"tags": layers.Dense(3, name="tags")(h),
                            "kind": layers.Dense(4, name="kind")(layers.GRU(8)(h))})
model = evenstep.prepare(model)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.SGD(0.2), {"tags": loss, "kind": loss})
model.fit(words, {"tags": tags, "kind": kinds}, batch_size=32, epochs=3, shuffle=False, verbose=0)
