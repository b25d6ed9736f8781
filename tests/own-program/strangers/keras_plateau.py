"""A validation loss that never gets better by what is asked: a rate that falls on the plateau, a
file of the best weights, an end that comes early."""
import os
import tempfile

import keras
import numpy as np
from keras import layers

import evenstep

keras.utils.set_random_seed(5)
draw = np.random.RandomState(5)
x, y = draw.rand(128, 6).astype("float32"), draw.randint(0, 3, 128)
model = keras.Sequential([keras.Input(shape=(6,)), layers.Dense(8, activation="relu"),
                          layers.Dense(3)])
model.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9),
              loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model = evenstep.prepare(model)
best = os.path.join(tempfile.mkdtemp(), "best.weights.h5")
callbacks = [
    keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=2, min_delta=0.5),
    keras.callbacks.EarlyStopping(monitor="val_loss", patience=5, min_delta=0.5),
    keras.callbacks.ModelCheckpoint(best, monitor="val_loss", save_best_only=True,
                                    save_weights_only=True),
    keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: print(
        "epoch", epoch, "val", logs["val_loss"], "rate", float(model.optimizer.learning_rate),
        flush=True)),
]
model.fit(x[:96], y[:96], batch_size=32, epochs=8, verbose=0, shuffle=False,
          validation_data=(x[96:], y[96:]), callbacks=callbacks)
