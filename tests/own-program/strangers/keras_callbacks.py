"""Callbacks that decide by the training's own figures: a lower rate on a plateau, an early stop."""
import keras
import numpy as np

import evenstep

keras.utils.set_random_seed(4)
draw = np.random.RandomState(4)
x = draw.randn(96, 12).astype("float32")
y = (x @ draw.randn(12, 1) + 3 * draw.randn(96, 1)).astype("float32")

model = keras.Sequential([keras.Input((12,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model = evenstep.prepare(model)
model.compile(keras.optimizers.SGD(0.3), "mse", metrics=["mae"])
history = model.fit(
    x, y, batch_size=96, epochs=40, verbose=0, shuffle=False,
    callbacks=[
        keras.callbacks.ReduceLROnPlateau("loss", factor=0.3, patience=0, min_delta=0.3),
        keras.callbacks.EarlyStopping("loss", patience=4, min_delta=0.2),
    ],
)
told = zip(history.history["loss"], history.history["learning_rate"])
for epoch, (loss, rate) in enumerate(told):
    print("epoch %d loss %.5f rate %.6f" % (epoch, loss, rate))
