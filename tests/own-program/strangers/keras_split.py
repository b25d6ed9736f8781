"""Arrays as programs have them: float64, labels as a column, a split that does not divide, weights
of classes, a model with a train_step of its own that is of its dtype."""
import keras
import numpy as np

import evenstep

keras.utils.set_random_seed(6)
draw = np.random.RandomState(6)
x = draw.randn(107, 12)  # float64
y = (x.sum(1, keepdims=True) > 0).astype("float64")
WEIGHTS = {0: 3.0, 1: 0.5}


class Centred(keras.Model):
    """Its loss takes the batch as it comes."""

    def __init__(self):
        super().__init__()
        self.hidden, self.out = keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)

    def call(self, x):
        return self.out(self.hidden(x)) + keras.ops.mean(x, axis=1, keepdims=True)

    def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
        assert keras.backend.standardize_dtype(y.dtype) == "float32", y.dtype
        return super().compute_loss(x, y, y_pred, sample_weight)


model = evenstep.prepare(Centred())
model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
history = model.fit(x, y, batch_size=32, epochs=4, verbose=0, shuffle=False, validation_split=0.15,
                    class_weight=WEIGHTS)
for epoch, told in enumerate(zip(history.history["val_loss"], history.history["loss"])):
    print("epoch %d loss %.5f rate %.6f" % (epoch, *told))
