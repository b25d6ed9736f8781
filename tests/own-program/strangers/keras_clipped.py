"""A language model's loop with gradients that are clipped by hand."""
import keras
import numpy as np

import evenstep

keras.utils.set_random_seed(7)
draw = np.random.RandomState(7)
x = draw.randint(0, 12, (90, 9))
x[:, 4] = x[:, 2]
model = keras.Sequential([keras.Input((8,), dtype="int32"), keras.layers.Embedding(12, 8),
                          keras.layers.GRU(12, return_sequences=True), keras.layers.Dense(12)])
optimizer = keras.optimizers.SGD(1.0)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    data = tf.data.Dataset.from_tensor_slices((x[:, :-1], x[:, 1:])).batch(32)

    @tf.function
    def train_step(rows, following):
        with tf.GradientTape() as tape:
            loss = loss_fn(following, model(rows, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 0.1)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss
else:
    import torch

    data = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.tensor(x[:, :-1]), torch.tensor(x[:, 1:])), 32)

    def train_step(rows, following):
        model.zero_grad()
        loss = loss_fn(following, model(rows, training=True))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        with torch.no_grad():
            optimizer.apply([v.value.grad for v in model.trainable_variables],
                            model.trainable_variables)
        return loss

model, optimizer, data = evenstep.prepare(model, optimizer, data)
for epoch in evenstep.epochs(4):
    for batch in data:
        loss = train_step(*batch)
    print("epoch", epoch, "loss", float(loss))
