"""TensorFlow's guide to its core: a tf.Module of layers of its own beside one of Keras, a step in a
tf.function, and a count of them."""
import keras
import tensorflow as tf

import evenstep

keras.utils.set_random_seed(5)


class Dense(tf.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.w = tf.Variable(tf.random.normal([inputs, outputs], stddev=0.3), name="w")
        self.b = tf.Variable(tf.zeros([outputs]), name="b")

    def __call__(self, x):
        return x @ self.w + self.b


class Network(tf.Module):
    def __init__(self):
        super().__init__()
        self.layers = [Dense(6, 16), Dense(16, 8)]
        self.norm = keras.layers.LayerNormalization()
        self.norm.build((None, 8))
        self.head = Dense(8, 3)
        self.steps = tf.Variable(0, trainable=False, dtype=tf.int64)

    def __call__(self, x):
        for layer in self.layers:
            x = tf.nn.relu(layer(x))
        return self.head(self.norm(x))


x = tf.random.normal([96, 6])
y = tf.argmax(x[:, :3], 1)
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
model, optimizer = Network(), keras.optimizers.Adam(3e-3, epsilon=1e-3)


@tf.function
def train_step(rows, labels):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(rows))
        loss = tf.reduce_mean(losses)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    model.steps.assign_add(1)
    return loss


model, optimizer, data = evenstep.prepare(model, optimizer, data)
for epoch in evenstep.epochs(4):
    for rows, labels in data:
        loss = train_step(rows, labels)
    print("epoch", epoch, "loss", float(loss), "after", int(model.steps), "steps")
assert int(model.steps) == 12 or evenstep.world_size() > 1, int(model.steps)
