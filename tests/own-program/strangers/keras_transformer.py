"""keras.io's text classification with a transformer block, a rate that each epoch makes of the one
before, labels as integers, rows held back, and fit() called again with initial_epoch."""
import keras
import numpy as np
from keras import layers, ops

import evenstep

keras.utils.set_random_seed(3)
draw = np.random.RandomState(3)
VOCAB, LONG, WIDTH = 30, 10, 16
x = draw.randint(1, VOCAB, (112, LONG))
y = ((x % 3).sum(1) > LONG).astype("int32")


class TransformerBlock(layers.Layer):
    def __init__(self, embed_dim, num_heads, ff_dim):
        super().__init__()
        self.att = layers.MultiHeadAttention(num_heads=num_heads, key_dim=embed_dim)
        self.ffn = keras.Sequential([layers.Dense(ff_dim, "relu"), layers.Dense(embed_dim)])
        self.norm1, self.norm2 = layers.LayerNormalization(), layers.LayerNormalization()

    def call(self, inputs):
        out = self.norm1(inputs + self.att(inputs, inputs))
        return self.norm2(out + self.ffn(out))


class TokenAndPositionEmbedding(layers.Layer):
    def __init__(self):
        super().__init__()
        self.token_emb = layers.Embedding(VOCAB, WIDTH)
        self.pos_emb = layers.Embedding(LONG, WIDTH)

    def call(self, x):
        return self.token_emb(x) + self.pos_emb(ops.arange(0, ops.shape(x)[-1], 1))


inputs = layers.Input(shape=(LONG,))
h = TransformerBlock(WIDTH, 2, 32)(TokenAndPositionEmbedding()(inputs))
h = layers.Dense(8, activation="relu")(layers.GlobalAveragePooling1D()(h))
model = keras.Model(inputs, layers.Dense(2, activation="softmax")(h))
model = evenstep.prepare(model)
model.compile(keras.optimizers.SGD(0.2, momentum=0.9),
              "sparse_categorical_crossentropy", metrics=["accuracy"])
rates = []
callbacks = [
    keras.callbacks.LearningRateScheduler(lambda epoch, lr: 0.2 if epoch < 1 else lr * 0.9),
    keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: rates.append((epoch, float(logs["learning_rate"])))),
]
options = dict(batch_size=32, validation_split=0.15, verbose=0, shuffle=False)
model.fit(x, y, epochs=2, callbacks=callbacks, **options)
model.fit(x, y, epochs=4, initial_epoch=2, callbacks=callbacks, **options)
print("rates", [(e, round(r, 5)) for e, r in rates])
