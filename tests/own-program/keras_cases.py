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


def values(model):
    return {v.path.replace("/", "."): np.array(v) for v in model.trainable_variables}


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
    moving = {v.path.replace("/", "."): np.array(v) for v in model.non_trainable_variables}
    np.savez(output + ".npz", **values(model), **moving, val_loss=history.history["val_loss"])
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


def transfer(output):
    """The head is trained, then all of it, by another optimizer; then once more as it stands, with
    other labels."""
    import keras

    import evenstep

    x, y = data()
    model = evenstep.prepare(network(norm=True))
    base = model.layers[:-1]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for layer in base:
        layer.trainable = False
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss)
    first = model.fit(x, y, batch_size=64, epochs=2, shuffle=False, verbose=0)
    before = values(model)
    base[0].trainable = True  # a batch norm that trains has statistics of its own
    model.compile(keras.optimizers.Adam(1e-2, epsilon=1e-3), loss)
    second = model.fit(x, y, batch_size=64, epochs=2, shuffle=False, verbose=0)
    third = model.fit(x, 4 - y, batch_size=64, epochs=3, initial_epoch=2, shuffle=False, verbose=0)
    told = [len(h.history["loss"]) for h in (first, second, third)]
    assert len(before) == 2 and len(values(model)) == 4
    np.savez(output + ".npz", **values(model), told=told)


def fits_on_less(output):
    import evenstep

    model = evenstep.prepare(network())
    model.compile("sgd", "mse")
    x = data()[0]
    for part in x, x[:300]:
        model.fit(part, part[:, :5], batch_size=64, epochs=1, verbose=0)


def adds_a_layer(output):
    """What a later fit() trains has to be there in the first one."""
    import evenstep

    x = data()[0]
    model = network()
    model.layers[0].trainable = False
    model = evenstep.prepare(model, unfreezes=False)
    for trainable in False, True:
        model.layers[0].trainable = trainable
        model.compile("sgd", "mse")
        model.fit(x, x[:, :5], batch_size=64, epochs=1, verbose=0)


def changes_the_rule(output):
    import keras

    import evenstep

    x = data()[0]
    model = evenstep.prepare(network())
    for optimizer in keras.optimizers.SGD(0.1), keras.optimizers.SGD(0.01), "adam":
        model.compile(optimizer, "mse")
        model.fit(x, x[:, :5], batch_size=64, epochs=1, verbose=0)


class OwnStep:
    """A train_step as Keras' guide writes it, without compute_loss; of both backends."""

    def train_step(self, *given):
        import keras

        x, y = given[-1]  # TensorFlow gives the data alone, as PyTorch does
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        variables = self.trainable_variables
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            with tf.GradientTape() as tape:
                loss = loss_of(y, self(x, training=True))
            self.optimizer.apply(tape.gradient(loss, variables), variables)
        else:
            self.zero_grad()
            loss = loss_of(y, self(x, training=True))
            loss.backward()
            self.optimizer.apply([v.value.grad for v in variables], variables)
        return {"loss": loss}


def own_train_step(output):
    import keras

    import evenstep

    network()  # its seed
    x = keras.Input((20,))
    y = keras.layers.Dense(5)(keras.layers.Dense(32, activation="tanh")(x))
    model = evenstep.prepare(type("Own", (OwnStep, keras.Model), {})(x, y))
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9))
    x, y = data()
    model.fit(x, y, batch_size=64, epochs=3, shuffle=False, verbose=0)
    np.savez(output + ".npz", **values(model))


def built_by_hand(output):
    """A subclass whose build(shape) says that it is built, and makes no weights."""
    import keras

    import evenstep

    class Network(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden = keras.layers.Dense(32, activation="tanh")
            self.last = keras.layers.Dense(5)

        def build(self, shape):
            self.built = True

        def call(self, x):
            return self.last(self.hidden(x))

    network()  # its seed
    model = Network()
    model.build((None, 20))
    model = evenstep.prepare(model)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss)
    x, y = data()
    model.fit(x, y, batch_size=64, epochs=3, shuffle=False, verbose=0)
    np.savez(output + ".npz", **values(model))


def pipeline(output):
    """A tf.data.Dataset, or a DataLoader, in place of arrays."""
    import keras

    import evenstep

    x, y = data()
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(64).prefetch(2)
    else:
        import torch

        pairs = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
        batches = torch.utils.data.DataLoader(pairs, batch_size=64)
    model = evenstep.prepare(network())
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss)
    model.fit(batches, epochs=3, verbose=0)
    np.savez(output + ".npz", **values(model))


class Batches:
    def __init__(self):
        super().__init__()

    def __len__(self):
        return 10

    def __getitem__(self, i):
        x, y = data()
        return x[64 * i : 64 * i + 64], y[64 * i : 64 * i + 64]


def sequence(output):
    import keras

    import evenstep

    model = evenstep.prepare(network())
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss)
    model.fit(type("Pairs", (Batches, keras.utils.PyDataset), {})(), epochs=3, verbose=0)
    np.savez(output + ".npz", **values(model))


class Drawn:
    """Each process draws an order of its own."""

    def __init__(self):
        super().__init__()
        self.x = np.random.default_rng().permutation(600).astype(np.float32)[:, None]

    def __len__(self):
        return 10

    def __getitem__(self, i):
        return (self.x[60 * i : 60 * i + 60],)


def drawn(output):
    """Which samples this rank has in an epoch."""
    import keras

    import evenstep

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    data = type("Shuffled", (Drawn, keras.utils.PyDataset), {})()
    model, optimizer, data = evenstep.keras.prepare(model, keras.optimizers.SGD(), data)
    seen = []
    for x in data:
        seen += [float(number) for number in x[:, 0]]
        weights = model.trainable_variables
        optimizer.apply([keras.ops.zeros(v.shape) for v in weights], weights)
    np.savez(output + ".npz", seen=seen)


def batch_norm(output):
    import keras

    train(output, keras.optimizers.SGD(0.1), norm=True)


def never_applies(output):
    import keras
    from torch.utils.data import DataLoader

    import evenstep

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    data = DataLoader(np.ones((12, 3), np.float32), 4)
    model, _, data = evenstep.prepare(model, keras.optimizers.SGD(), data)
    for batch in data:
        model(batch)


def _of_one_size(batch_shape, *layers):
    import keras

    import evenstep

    made = given = keras.Input(batch_shape=batch_shape)
    for layer in [*layers, keras.layers.Dense(1)]:
        made = layer(made)
    model = evenstep.prepare(keras.Model(given, made))
    model.compile("sgd", "mse")
    x, y = np.ones((8, *batch_shape[1:]), np.float32), np.ones((8, 1), np.float32)
    model.fit(x, y, batch_size=4, verbose=0)


def keeps_a_state(output):
    import keras

    _of_one_size((4, 5, 3), keras.layers.LSTM(2, stateful=True))


def has_a_number_of_rows(output):
    _of_one_size((4, 3))


def trains_on_batches(output):
    """What the program is told; the sentence goes to the log."""
    import os

    import evenstep

    os.environ["EVENSTEP_SOCKET"] = "of a rank"
    try:
        evenstep.prepare(network()).train_on_batch(*data(8))
    except evenstep.Error as e:
        print(e)
    del os.environ["EVENSTEP_SOCKET"]
    np.savez(output + ".npz")
