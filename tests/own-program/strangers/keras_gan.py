"""The guide's GAN: a model without a call(), of two networks with an optimizer each, which its
train_step has as attributes. Noise comes with the data, so that each node draws the same."""
import keras
import numpy as np
from keras import layers, ops

import evenstep

keras.utils.set_random_seed(5)
draw = np.random.RandomState(5)
real, noise = draw.rand(90, 6).astype("float32"), draw.randn(90, 2, 4).astype("float32")
critic = keras.Sequential([keras.Input((6,)), layers.Dense(8), layers.LeakyReLU(), layers.Dense(1)])
maker = keras.Sequential([keras.Input((4,)), layers.Dense(8), layers.LeakyReLU(), layers.Dense(6)])


class GAN(keras.Model):
    def __init__(self, discriminator, generator):
        super().__init__()
        self.discriminator, self.generator = discriminator, generator
        self.d_loss_tracker = keras.metrics.Mean(name="d_loss")
        self.built = keras.backend.backend() == "torch"  # there Keras would ask for a call()

    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super().compile()
        self.d_optimizer, self.g_optimizer, self.loss_fn = d_optimizer, g_optimizer, loss_fn

    @property
    def metrics(self):
        return [self.d_loss_tracker]

    def minimize(self, loss_of, optimizer, weights):
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            with tf.GradientTape() as tape:
                loss = loss_of()
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
            return loss
        import torch

        self.zero_grad()
        loss = loss_of()
        loss.backward()
        with torch.no_grad():
            optimizer.apply([v.value.grad for v in weights], weights)
        return loss.detach()

    def train_step(self, data):
        real, noise = data
        n = ops.shape(real)[0]
        both = ops.concatenate([self.generator(noise[:, 0]), real], axis=0)
        labels = ops.concatenate([ops.ones((n, 1)), ops.zeros((n, 1))], axis=0)
        d_loss = self.minimize(lambda: self.loss_fn(labels, self.discriminator(both)),
                               self.d_optimizer, self.discriminator.trainable_weights)
        self.minimize(
            lambda: self.loss_fn(labels[n:], self.discriminator(self.generator(noise[:, 1]))),
            self.g_optimizer, self.generator.trainable_weights)
        self.d_loss_tracker.update_state(d_loss)
        return {"d_loss": self.d_loss_tracker.result()}


gan = evenstep.prepare(GAN(critic, maker))
gan.compile(keras.optimizers.SGD(0.05, momentum=0.5), keras.optimizers.SGD(0.1),
            keras.losses.BinaryCrossentropy(from_logits=True))
gan.fit(real, noise, batch_size=32, epochs=4, shuffle=False, verbose=0)
