"""A loss that is left as one number for each sample, which TensorFlow's tape adds up:
TEST_VECTOR=fit, a loss with reduction="none"; =loop, a loss function of keras.losses in a loop;
=global, their mean by the batch of all nodes, as programs of tf.distribute have it; =sum, their sum
by a constant."""
import os

import keras
import numpy as np

import evenstep

keras.utils.set_random_seed(6)
draw = np.random.RandomState(6)
x = draw.randn(96, 5).astype("float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.002)
HOW = os.environ["TEST_VECTOR"]
if HOW == "fit":
    model = evenstep.prepare(model)
    model.compile(optimizer, keras.losses.MeanSquaredError(reduction="none"))
    model.fit(x, y, batch_size=32, epochs=3, shuffle=False, verbose=0)
else:
    import tensorflow as tf

    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
    model, optimizer, data = evenstep.prepare(model, optimizer, data)

    @tf.function
    def train_step(rows, right):
        with tf.GradientTape() as tape:
            loss = keras.losses.mean_squared_error(right, model(rows, training=True))
            if HOW == "global":
                loss = tf.nn.compute_average_loss(loss, global_batch_size=32)
            if HOW == "sum":
                loss = tf.reduce_sum(loss) * (1 / 32)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    for epoch in evenstep.epochs(3):
        for rows, right in data:
            train_step(rows, right)
