"""The functional way: two inputs, two outputs with losses and weights of their own, a masked
embedding before a GRU, and a metric that is no mean."""
import keras
import numpy as np

import evenstep

keras.utils.set_random_seed(5)
draw = np.random.RandomState(5)
words = draw.randint(1, 30, (96, 7)) * (np.arange(7) < draw.randint(2, 8, (96, 1)))
about = draw.randn(96, 3).astype("float32")
urgent = (about[:, :1] + words.mean(1, keepdims=True) > 14).astype("float32")
kind = words[:, 0] % 4

text = keras.Input((7,), dtype="int32", name="text")
form = keras.Input((3,), name="form")
read = keras.layers.GRU(8)(keras.layers.Embedding(30, 6, mask_zero=True)(text))
both = keras.layers.concatenate([read, form])
outputs = {"urgent": keras.layers.Dense(1, "sigmoid", name="urgent")(both),
           "kind": keras.layers.Dense(4, "softmax", name="kind")(both)}
model = keras.Model({"text": text, "form": form}, outputs)
model.compile(
    # not Adam: of a word that comes twice, Keras on TensorFlow squares each gradient by itself
    keras.optimizers.SGD(0.1, momentum=0.9),
    loss={"urgent": "binary_crossentropy", "kind": "sparse_categorical_crossentropy"},
    loss_weights={"urgent": 1.0, "kind": 0.5},
    metrics={"urgent": [keras.metrics.AUC(name="auc")], "kind": ["accuracy"]},
)
model = evenstep.prepare(model)
model.fit({"text": words, "form": about}, {"urgent": urgent, "kind": kind}, batch_size=32, epochs=3,
          verbose=0, shuffle=False)
