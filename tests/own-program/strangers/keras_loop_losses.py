"""A loop over a Keras model, whose loss is a sum, a mean or something between (TEST_LOSS); on
TensorFlow step by step, or a tf.function (TEST_FUNCTION)."""
import os

import keras
import numpy as np
from keras import ops

import evenstep

BATCH = 32
keras.utils.set_random_seed(8)
draw = np.random.RandomState(8)
x = draw.randn(96, 5).astype("float32")
y = x.sum(1, keepdims=True)
tokens = draw.randint(1, 9, (96, 6))
tokens[np.arange(6)[None] >= draw.randint(2, 7, (96, 1))] = 0
model = keras.Sequential([
    keras.Input((5,)), keras.layers.Dense(8, "tanh", kernel_regularizer="l2"),
    keras.layers.BatchNormalization(trainable=False), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.002)
HOW = os.environ.get("TEST_LOSS", "mean")
if HOW == "padded":
    x = tokens
    y = np.stack([tokens % 2] * 1, -1).astype("float32")
    model = keras.Sequential([keras.Input((6,)), keras.layers.Embedding(9, 4, mask_zero=True),
                              keras.layers.Dense(1)])


def loss_of(right, made):
    error = ops.square(made - right)
    if HOW == "padded":
        return keras.losses.MeanSquaredError()(right, made)
    if HOW == "chosen":
        return ops.mean(error[right > 0])
    if HOW == "two":
        mask = ops.cast(right > 0, "float32")
        return ops.sum(error * mask) / ops.sum(mask) + ops.mean(ops.abs(made))
    if HOW == "own":
        return keras.losses.MeanSquaredError()(right, made) + sum(model.losses)
    if HOW == "own sum":
        return keras.losses.MeanSquaredError(reduction="sum")(right, made)
    if HOW == "masked":
        mask = ops.cast(right > 0, "float32")
        return ops.sum(error * mask) / ops.sum(mask)
    if HOW == "counted":
        mask = ops.cast(right > 0, "float32")
        return ops.sum(error * mask) / float(ops.convert_to_numpy(mask).sum())
    return {"mean": ops.mean, "rows": lambda e: ops.sum(e) / len(e), "sum": ops.sum,
            "batch": lambda e: ops.sum(e) / BATCH, "half": lambda e: 0.5 * ops.sum(e),
            "said": ops.sum}[HOW](error)


if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)

    @tf.function if os.environ.get("TEST_FUNCTION") else lambda step: step
    def train_step(rows, right):
        with tf.GradientTape() as tape:
            loss = loss_of(right, model(rows, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
else:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=BATCH)

    def train_step(rows, right):
        model.zero_grad()
        loss_of(right, model(rows, training=True)).backward()
        gradients = [v.value.grad for v in model.trainable_variables]
        with torch.no_grad():
            optimizer.apply(gradients, model.trainable_variables)


options = {"reduction": "sum"} if HOW == "said" else {}
model, optimizer, data = evenstep.prepare(model, optimizer, data, **options)
for epoch in evenstep.epochs(3):
    for rows, right in data:
        train_step(rows, right)
