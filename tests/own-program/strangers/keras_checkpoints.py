"""The usual callbacks around a small convolutional network: the best weights are kept and restored,
a schedule by the epoch, a log as CSV, figures for TensorBoard, a file for a later run."""
import os
import tempfile

import keras
import numpy as np
from keras import layers

import evenstep

keras.utils.set_random_seed(11)
draw = np.random.RandomState(11)
images = draw.rand(128, 8, 8, 1).astype("float32")
labels = keras.utils.to_categorical((images[:, :4].mean((1, 2, 3)) > 0.5).astype(int), 2)
x_train, y_train, x_test, y_test = images[:96], labels[:96], images[96:], labels[96:]
folder = os.environ.get("EVENSTEP_OUTPUT") or tempfile.mkdtemp()
if not evenstep.is_main():
    folder = tempfile.mkdtemp()

model = keras.Sequential([
    keras.Input(shape=(8, 8, 1)),
    layers.Conv2D(4, kernel_size=(3, 3), activation="relu"),
    layers.MaxPooling2D(pool_size=(2, 2)),
    layers.Flatten(),
    layers.Dense(2, activation="softmax", kernel_regularizer=keras.regularizers.L2(1e-3)),
])
model.compile(loss="categorical_crossentropy", optimizer=keras.optimizers.SGD(0.2, momentum=0.9),
              metrics=["accuracy"])
model = evenstep.prepare(model)


def schedule(epoch, lr):
    return lr if epoch < 3 else lr * 0.8


callbacks = [
    keras.callbacks.ModelCheckpoint(os.path.join(folder, "best.keras"), monitor="val_accuracy",
                                    save_best_only=True),
    keras.callbacks.ModelCheckpoint(os.path.join(folder, "w{epoch:02d}.weights.h5"),
                                    save_weights_only=True),
    keras.callbacks.EarlyStopping(monitor="val_loss", patience=3, restore_best_weights=True),
    keras.callbacks.LearningRateScheduler(schedule),
    keras.callbacks.CSVLogger(os.path.join(folder, "log.csv")),
    keras.callbacks.TerminateOnNaN(),
    keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: print(epoch, sorted(logs))),
]
model.fit(x_train, y_train, batch_size=32, epochs=6, verbose=2, shuffle=False,
          validation_data=(x_test, y_test), callbacks=callbacks)
score = model.evaluate(x_test, y_test, verbose=0)
print("Test loss:", score[0], "Test accuracy:", score[1])
again = keras.models.load_model(os.path.join(folder, "best.keras"))
print(again.predict(x_test, verbose=0).shape)
