"""A run that may be interrupted, as Keras' guide has it: BackupAndRestore in a folder, and the best
weights, which are restored at the end."""
import os
import tempfile

import keras
import numpy as np
from keras import layers

import evenstep

keras.utils.set_random_seed(10)
draw = np.random.RandomState(10)
x = draw.randn(120, 6).astype("float32")
y = (x[:, :3].sum(1) > x[:, 3:].sum(1)).astype("int32")
folder = os.environ.get("TEST_FOLDER") or tempfile.mkdtemp()
model = keras.Sequential([keras.Input((6,)), layers.Dense(12, "relu"), layers.Dense(2)])
model.compile(keras.optimizers.SGD(0.1, momentum=0.9),
              keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model = evenstep.prepare(model)
model.fit(x[:96], y[:96], batch_size=32, epochs=5, shuffle=False, verbose=0,
          validation_data=(x[96:], y[96:]),
          callbacks=[keras.callbacks.BackupAndRestore(os.path.join(folder, "backup")),
                     keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)])
