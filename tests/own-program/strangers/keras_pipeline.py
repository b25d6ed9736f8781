"""The usual input pipeline: records are parsed, cached, shuffled, batched, prefetched; features by
name, one of them a category of text; weights of classes, and the number of steps that everybody
passes along."""
import keras
import numpy as np
from keras import layers

import evenstep

BATCH, ROWS = 32, 110
keras.utils.set_random_seed(8)
draw = np.random.RandomState(8)
ages = draw.randint(18, 80, ROWS)
wages = draw.lognormal(3, 1, ROWS).astype("float32")
kinds = draw.choice(["red", "green", "blue"], ROWS)
y = ((ages > 40) ^ (kinds == "red")).astype("float32")

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    def parse(row, label):
        return {"age": tf.cast(row["age"], tf.float32) / 80.0, "wage": tf.math.log1p(row["wage"]),
                "kind": row["kind"]}, label

    table = {"age": ages, "wage": wages, "kind": kinds}
    train = (tf.data.Dataset.from_tensor_slices((table, y))
             .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
             .cache().batch(BATCH).prefetch(tf.data.AUTOTUNE))
    test = tf.data.Dataset.from_tensor_slices((table, y)).map(parse).take(32).batch(16)
    lookup = layers.StringLookup(vocabulary=["red", "green", "blue"], output_mode="one_hot")
    kind = keras.Input((), dtype="string", name="kind")
    coded = lookup(kind)
else:
    import torch

    words = np.array([["red", "green", "blue"].index(k) for k in kinds])
    table = {"age": (ages / 80).astype("float32"), "wage": np.log1p(wages), "kind": words}

    class Table(torch.utils.data.Dataset):
        def __len__(self):
            return ROWS

        def __getitem__(self, i):
            weight = 2.5 if y[i] else 1.0  # Keras takes no class_weight beside a DataLoader
            return {name: column[i] for name, column in table.items()}, y[i], weight

    train = torch.utils.data.DataLoader(Table(), batch_size=BATCH)
    test = torch.utils.data.DataLoader(torch.utils.data.Subset(Table(), range(32)), batch_size=16)
    kind = keras.Input((), dtype="int32", name="kind")
    coded = layers.CategoryEncoding(3, output_mode="one_hot")(kind)

age, wage = keras.Input((), name="age"), keras.Input((), name="wage")
column = layers.Reshape((1,))
h = layers.Concatenate()([column(age), column(wage), coded])
out = layers.Dense(1, activation="sigmoid")(layers.Dense(16, activation="relu")(h))
model = keras.Model({"age": age, "wage": wage, "kind": kind}, out)
model = evenstep.prepare(model)
model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "binary_crossentropy", metrics=["accuracy"])
weights = {0: 1.0, 1: 2.5} if keras.backend.backend() == "tensorflow" else None
model.fit(train, epochs=4, class_weight=weights, validation_data=test, verbose=0,
          steps_per_epoch=len(train))
