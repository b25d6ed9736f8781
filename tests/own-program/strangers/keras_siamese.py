"""Pairs of samples that are alike or not: one tower for both, the contrastive loss of keras.io as a
closure, the distance as a Lambda; activities are kept small."""
import keras
import numpy as np
from keras import layers, ops

import evenstep

keras.utils.set_random_seed(5)
draw = np.random.RandomState(5)
points, kinds = draw.randn(104, 2, 6).astype("float32"), draw.randint(0, 2, (104, 2))
points += 2 * kinds[..., None]
alike = (kinds[:, 0] != kinds[:, 1]).astype("float32")
points[80:] += 1


def loss(margin=1):
    def contrastive_loss(y_true, y_pred):
        square_pred = ops.square(y_pred)
        margin_square = ops.square(ops.maximum(margin - (y_pred), 0))
        return ops.mean((1 - y_true) * square_pred + (y_true) * margin_square)

    return contrastive_loss


entry = keras.Input((6,))
h = layers.Dense(8, activation="tanh", activity_regularizer=keras.regularizers.L2(1e-2))(entry)
tower = keras.Model(entry, layers.Dense(4, activation="tanh")(h))
left, right = keras.Input((6,)), keras.Input((6,))
distance = layers.Lambda(
    lambda pair: ops.sqrt(ops.maximum(ops.sum(ops.square(pair[0] - pair[1]), axis=1, keepdims=True),
                                      keras.config.epsilon())),
    output_shape=(1,))
model = keras.Model([left, right],
                    layers.Dense(1, activation="sigmoid")(distance([tower(left), tower(right)])))
model = evenstep.prepare(model)
model.compile(loss=loss(margin=1), optimizer=keras.optimizers.RMSprop(0.01, epsilon=1e-2),
              metrics=["accuracy"])
model.fit([points[:, 0], points[:, 1]], alike, batch_size=32, epochs=4, shuffle=False, verbose=0,
          validation_split=0.1)
