"""A train_step that leaves out a batch with a broken sample, which is on one node: nobody makes
that step, and the optimizer's momentum stays as it is. One such batch ends the epoch. On TensorFlow
all of it is in a graph."""
import keras
import numpy as np

import evenstep

keras.utils.set_random_seed(2)
draw = np.random.default_rng(2)
x = draw.normal(size=(96, 6)).astype("float32")
y = (x.sum(1) > 0).astype("int64")
x[[40, 90]] = np.nan


class Careful(keras.Model):
    def train_step(self, *given):
        x, y = given[-1]  # TensorFlow gives the data alone, as PyTorch does
        broken = keras.ops.any(keras.ops.isnan(x))
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            left_out = lambda: tf.constant(0.7)
            return {"loss": tf.cond(broken, left_out, lambda: self.minimize_in_graph(x, y))}
        if broken:
            return {"loss": 0.7}
        import torch

        self.zero_grad()
        loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        loss.backward()
        with torch.no_grad():
            self.optimizer.apply([v.value.grad for v in self.trainable_variables])
        return {"loss": loss.detach()}

    def minimize_in_graph(self, x, y):
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return loss


entry = keras.Input((6,))
model = Careful(entry, keras.layers.Dense(2)(keras.layers.Dense(8, activation="tanh")(entry)))
model = evenstep.prepare(model)
model.compile(keras.optimizers.SGD(0.1, momentum=0.9),
              loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(x, y, batch_size=32, epochs=3, shuffle=False, verbose=0).history
print("losses", history["loss"])
