"""The first program of every tutorial: layers without an input, which are built by the first batch;
the model is evaluated and saved. On TensorFlow two steps are one call, as people do it for speed;
an epoch has three."""
import os
import tempfile

import keras
import numpy as np
from keras import layers

import evenstep

keras.utils.set_random_seed(7)
draw = np.random.RandomState(7)
x = draw.randn(96, 4, 3).astype("float32")
y = (x.sum((1, 2)) > 0).astype("int64")
model = keras.Sequential([
    layers.Flatten(),
    layers.Dense(16, activation="relu"),
    layers.Dense(2, activation="softmax"),
])
model = evenstep.prepare(model)
model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"],
              steps_per_execution=2 if keras.backend.backend() == "tensorflow" else 1)
model.fit(x, y, batch_size=32, epochs=3, verbose=0, shuffle=False, validation_data=(x[:7], y[:7]))
print(model.predict(x[:5], verbose=0).argmax(1), model.evaluate(x[:9], y[:9], verbose=0))
with tempfile.TemporaryDirectory() as folder:
    model.save(os.path.join(folder, "model.keras"))
