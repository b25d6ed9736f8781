"""The diffusion example's network beside its moving average: a copy (clone_model) with weights that
could train, which no optimizer steps and train_step assigns. Noise comes with the data."""
import keras
import numpy as np
from keras import layers, ops

import evenstep

keras.utils.set_random_seed(5)
draw = np.random.RandomState(5)
images = (3 + 2 * draw.rand(90, 6)).astype("float32")
noises, times = draw.randn(90, 6).astype("float32"), draw.rand(90, 1).astype("float32")


class DiffusionModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.normalizer = layers.Normalization()
        self.network = keras.Sequential(
            [keras.Input((7,)), layers.Dense(16, "swish"), layers.Dense(6)])
        self.ema_network = keras.models.clone_model(self.network)
        self.noise_loss_tracker = keras.metrics.Mean(name="n_loss")
        self.built = True

    @property
    def metrics(self):
        return [self.noise_loss_tracker]

    def noise_loss(self, images, noises, times):
        noisy = ops.cos(times) * self.normalizer(images) + ops.sin(times) * noises
        made = self.network(ops.concatenate([noisy, times], axis=1), training=True)
        return ops.mean(ops.abs(noises - made))

    def train_step(self, data):
        weights = self.network.trainable_weights
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            with tf.GradientTape() as tape:
                loss = self.noise_loss(*data[0])
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        else:
            import torch

            self.zero_grad()
            loss = self.noise_loss(*data[0])
            loss.backward()
            with torch.no_grad():
                self.optimizer.apply([v.value.grad for v in weights], weights)
            loss = loss.detach()
        self.noise_loss_tracker.update_state(loss)
        for weight, average in zip(self.network.weights, self.ema_network.weights):
            average.assign(0.9 * average + 0.1 * weight)
        return {"n_loss": self.noise_loss_tracker.result()}


model = DiffusionModel()
model.normalizer.adapt(images)
model = evenstep.prepare(model)
model.compile(optimizer=keras.optimizers.SGD(0.05))
model.fit((images, noises, times), batch_size=32, epochs=4, shuffle=False, verbose=0)
apart = sum(np.abs(ops.convert_to_numpy(weight - average)).sum()
            for weight, average in zip(model.network.weights, model.ema_network.weights))
print("the average is %.4f away" % apart)
