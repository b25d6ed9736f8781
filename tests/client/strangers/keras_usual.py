"""What Keras' guides do around fit(): a subclassed model with a residual block and dropout,
callbacks that save, log, set the rate and stop, a validation split, evaluation and prediction
afterwards, the best model loaded again."""
import os

import keras
import numpy as np

import evenstep

keras.utils.set_random_seed(4)
draw = np.random.RandomState(4)
x = draw.randn(120, 8).astype("float32")
y = (x[:, 0] * x[:, 1] > 0).astype("int64")
out = os.environ.get("EVENSTEP_OUTPUT", ".")


@keras.saving.register_keras_serializable()
class Block(keras.layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.dense, self.drop = keras.layers.Dense(units, "relu"), keras.layers.Dropout(0.0)

    def build(self, shape):
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")
        self.dense.build(shape)

    def call(self, inputs, training=False):
        return inputs + self.scale * self.drop(self.dense(inputs), training=training)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable()
class Classifier(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.block, self.top = Block(8), keras.layers.Dense(2)

    def call(self, inputs, training=False):
        return self.top(self.block(inputs, training=training))


def main():
    model = Classifier()
    model.compile(optimizer=keras.optimizers.Adam(1e-2, epsilon=1e-2),
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    model = evenstep.prepare(model)
    best = os.path.join(out, "best.keras")
    callbacks = [
        keras.callbacks.ModelCheckpoint(best, monitor="val_loss", save_best_only=True),
        keras.callbacks.ModelCheckpoint(os.path.join(out, "last.weights.h5"),
                                        save_weights_only=True),
        keras.callbacks.CSVLogger(os.path.join(out, "log.csv")),
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
        keras.callbacks.EarlyStopping(monitor="val_loss", patience=3, restore_best_weights=True),
        keras.callbacks.TerminateOnNaN(),
    ]
    history = model.fit(x, y, batch_size=32, epochs=6, validation_split=0.2, shuffle=False,
                        callbacks=callbacks, class_weight={0: 1.0, 1: 1.5}, verbose=2)
    loss, accuracy = model.evaluate(x, y, verbose=0)
    probabilities = model.predict(x, verbose=0)
    assert probabilities.shape == (120, 2) and len(history.history["loss"]) <= 6
    again = keras.models.load_model(best)
    print("evaluated", loss, accuracy, again.evaluate(x, y, verbose=0)[0])
    assert len(open(os.path.join(out, "log.csv")).readlines()) > 2


if __name__ == "__main__":
    main()
