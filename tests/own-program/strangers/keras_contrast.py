"""A train_step that compares the samples of a batch with each other."""
import keras
import numpy as np
from keras import layers, ops

import evenstep

keras.utils.set_random_seed(20)
draw = np.random.RandomState(20)
x = draw.randn(96, 6).astype("float32")
views = np.stack([x + draw.randn(96, 6) / 4, x + draw.randn(96, 6) / 4], 1).astype("float32")


class Contrastive(keras.Model):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.built = True

    def call(self, x):
        return self.encoder(x)

    def contrast(self, data):
        a, b = (ops.normalize(self.encoder(data[:, i])) for i in range(2))
        like = ops.matmul(a, ops.transpose(b)) / 0.1
        right = ops.arange(ops.shape(data)[0])
        return ops.mean(keras.losses.sparse_categorical_crossentropy(right, like, from_logits=True))

    if keras.backend.backend() == "tensorflow":
        def train_step(self, data):
            import tensorflow as tf
            with tf.GradientTape() as tape:
                loss = self.contrast(data[0] if isinstance(data, tuple) else data)
            weights = self.encoder.trainable_weights
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
            return {"loss": loss}
    else:
        def train_step(self, data):
            self.zero_grad()
            loss = self.contrast(data[0] if isinstance(data, tuple) else data)
            loss.backward()
            weights = self.encoder.trainable_weights
            self.optimizer.apply([v.value.grad for v in weights], weights)
            return {"loss": loss.detach()}


model = Contrastive(keras.Sequential([keras.Input((6,)), layers.Dense(8, "tanh"), layers.Dense(4)]))
model = evenstep.prepare(model)
model.compile(keras.optimizers.SGD(0.1))
model.fit(views, batch_size=32, epochs=3, shuffle=False, verbose=0)
