"""A functional convolutional network in mixed_bfloat16, read from a pipeline of batches that
shuffles, with a validation pipeline."""
import keras
import numpy as np

import evenstep

keras.utils.set_random_seed(4)
keras.mixed_precision.set_global_policy("mixed_bfloat16")
draw = np.random.RandomState(4)
x = draw.rand(96, 8, 8, 1).astype("float32")
y = keras.utils.to_categorical((x.mean((1, 2, 3)) * 20).astype(int) % 3, 3)


class Batches(keras.utils.PyDataset):
    def __init__(self, x, y, size, **kwargs):
        super().__init__(**kwargs)
        self.x, self.y, self.size = x, y, size

    def __len__(self):
        return len(self.x) // self.size

    def __getitem__(self, i):
        part = slice(i * self.size, (i + 1) * self.size)
        return self.x[part], self.y[part]


inputs = keras.Input((8, 8, 1))
h = keras.layers.Conv2D(4, 3, activation="relu")(inputs)
h = keras.layers.GlobalAveragePooling2D()(h)
model = keras.Model(inputs, keras.layers.Dense(3, dtype="float32", activation="softmax")(h))
model = evenstep.prepare(model)
model.compile(keras.optimizers.SGD(0.1), keras.losses.CategoricalCrossentropy(label_smoothing=0.1),
              metrics=[keras.metrics.CategoricalAccuracy(), keras.metrics.AUC()])
model.fit(Batches(x, y, 96), epochs=3, validation_data=Batches(x, y, 32), verbose=2)
keras.mixed_precision.set_global_policy("float32")
