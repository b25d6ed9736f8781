"""A loss that adds up its samples', in a model that is a class, with a schedule of rates, and the
best weights kept in a file."""
import os

import keras
import numpy as np

import evenstep


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.body = keras.layers.Dense(16, "relu")
        self.head = keras.layers.Dense(5)

    def call(self, x):
        return self.head(self.body(x))


keras.utils.set_random_seed(6)
draw = np.random.RandomState(6)
x = draw.randn(96, 12).astype("float32")
y = (x @ draw.randn(12, 5)).argmax(1)
model = evenstep.prepare(Net())
folder = os.environ.get("EVENSTEP_OUTPUT", ".")
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
model.compile(keras.optimizers.SGD(0.003, momentum=0.9), loss, metrics=["accuracy"])
model.fit(
    x, y, batch_size=32, epochs=4, verbose=0, shuffle=False, validation_split=0.25,
    callbacks=[
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.8),
        keras.callbacks.ModelCheckpoint(
            os.path.join(folder, "best-of-%s.weights.h5" % evenstep.rank()),
            monitor="val_loss", save_best_only=True, save_weights_only=True),
    ],
)
