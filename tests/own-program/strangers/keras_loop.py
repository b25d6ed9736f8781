"""The quickstart for experts: a subclassed model, a loop of one's own, metrics; on TensorFlow with
GradientTape and tf.function."""
import keras
import numpy as np

import evenstep

BATCH = 24
keras.utils.set_random_seed(0)
X = np.random.default_rng(0).normal(size=(90, 6)).astype("float32")
Y = (X.sum(1) > 0).astype("int64")


class MyModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.d1 = keras.layers.Dense(16, activation="relu")
        self.norm = keras.layers.LayerNormalization()
        self.d2 = keras.layers.Dense(2)

    def call(self, x):
        return self.d2(self.norm(self.d1(x)))


model = MyModel()
model(X[:1])
loss_object = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
train_loss = keras.metrics.Mean()

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH).prefetch(2)

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_object(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        train_loss(loss)
else:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), batch_size=BATCH)

    def train_step(x, y):
        model.zero_grad()
        loss = loss_object(y, model(x, training=True))
        loss.backward()
        gradients = [v.value.grad for v in model.trainable_variables]
        with torch.no_grad():
            optimizer.apply(gradients, model.trainable_variables)
        train_loss.update_state(loss.detach())

model, optimizer, data = evenstep.prepare(model, optimizer, data)
for epoch in evenstep.epochs(3):
    train_loss.reset_state()
    for images, labels in data:
        train_step(images, labels)
    print(f"epoch {epoch} of {len(data)} steps: loss {float(train_loss.result()):.4f}")
