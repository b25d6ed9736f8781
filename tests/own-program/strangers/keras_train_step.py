"""The guide's custom train_step, with metrics of its own and test_step; weights by sample; clipping
and a schedule object."""
import keras
import numpy as np
from keras import layers

import evenstep

keras.utils.set_random_seed(3)
draw = np.random.RandomState(3)
x = draw.randn(90, 16).astype("float32")
y = (x[:, :2].sum(1, keepdims=True)).astype("float32")
sw = draw.rand(90).astype("float32")
loss_tracker = keras.metrics.Mean(name="loss")
mae_metric = keras.metrics.MeanAbsoluteError(name="mae")


class CustomModel(keras.Model):
    if keras.backend.backend() == "tensorflow":
        def train_step(self, data):
            import tensorflow as tf
            x, y, w = keras.utils.unpack_x_y_sample_weight(data)
            with tf.GradientTape() as tape:
                y_pred = self(x, training=True)
                loss = self.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=w)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            loss_tracker.update_state(loss)
            mae_metric.update_state(y, y_pred, sample_weight=w)
            return {"loss": loss_tracker.result(), "mae": mae_metric.result()}
    else:
        def train_step(self, data):
            import torch
            x, y, w = keras.utils.unpack_x_y_sample_weight(data)
            self.zero_grad()
            y_pred = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=w)
            loss.backward()
            trainable_weights = [v for v in self.trainable_weights]
            gradients = [v.value.grad for v in trainable_weights]
            with torch.no_grad():
                self.optimizer.apply(gradients, trainable_weights)
            loss_tracker.update_state(loss.detach())
            mae_metric.update_state(y, y_pred, sample_weight=w)
            return {"loss": loss_tracker.result(), "mae": mae_metric.result()}

    @property
    def metrics(self):
        return [loss_tracker, mae_metric]


inputs = keras.Input(shape=(16,))
outputs = layers.Dense(1)(layers.Dense(8, activation="relu")(inputs))
model = evenstep.prepare(CustomModel(inputs, outputs))
rate = keras.optimizers.schedules.ExponentialDecay(0.05, decay_steps=4, decay_rate=0.9)
model.compile(optimizer=keras.optimizers.SGD(rate, momentum=0.9, clipnorm=1.0), loss="mse")
model.fit(x, y, sample_weight=sw, epochs=3, batch_size=32, shuffle=False, verbose=0)
