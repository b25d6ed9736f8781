"""Programs with Keras 3: model.fit as a user writes it, and one line. KERAS_BACKEND names the
backend."""

import numpy as np


def data(samples=600):
    draw = np.random.RandomState(3)
    x = draw.randn(samples, 20).astype(np.float32)
    return x, (x @ draw.randn(20, 5)).argmax(1)


def network(norm=False):
    import keras

    keras.utils.set_random_seed(1)
    layers = [keras.Input((20,)), keras.layers.Dense(32, activation="tanh")]
    layers += [keras.layers.BatchNormalization()] if norm else []
    return keras.Sequential([*layers, keras.layers.Dense(5)])


def train(output, optimizer, norm=False, **options):
    import keras

    import evenstep

    x, y = data()
    model = evenstep.prepare(network(norm))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    test = data(200)
    history = model.fit(
        x, y, batch_size=64, epochs=3, shuffle=False, verbose=0, validation_data=test, **options
    )
    values = {v.path.replace("/", "."): np.array(v) for v in model.trainable_variables}
    np.savez(output + ".npz", **values, val_loss=history.history["val_loss"])
    model.save(output + ".keras")


def sgd(output):
    import keras

    train(output, keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.5))


def adam_weighted(output):
    import keras

    train(output, keras.optimizers.Adam(1e-2, epsilon=1e-3), class_weight={0: 2.0, 1: 0.5})


def adam(output):
    import keras

    train(output, keras.optimizers.Adam(1e-2, epsilon=1e-3))


def fits_twice(output):
    import evenstep

    model = evenstep.prepare(network())
    model.compile("sgd", "mse")
    x = data()[0]
    for _ in range(2):
        model.fit(x, x[:, :5], batch_size=64, epochs=1, verbose=0)


def executes_two_steps_at_once(output):
    import keras

    import evenstep

    model = evenstep.prepare(network())
    model.compile(keras.optimizers.Adam(), "mse", steps_per_execution=2)
    x = data()[0]
    model.fit(x, x[:, :5], batch_size=64, epochs=1, verbose=0)


def batch_norm(output):
    import keras

    train(output, keras.optimizers.SGD(0.1), norm=True)
