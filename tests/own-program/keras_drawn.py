"""As drawn.py, for Keras: models, compile() and fit(), or a loop of one's own, drawn from a seed.

    python3 keras_drawn.py 17        # prints the program of a seed
"""

import random
import sys

# what a sample is, and from `inputs` to `h`
NETWORKS = {
    "layers": ("draw.normal(size=(N, 10))",
               ["h = layers.Dense(16, activation='tanh')(inputs)",
                "h = layers.LayerNormalization()(h)"]),
    "branches": ("draw.normal(size=(N, 10))",
                 ["shared, negated = layers.Dense(8, activation='gelu'), layers.Rescaling(-1.0)",
                  "h = layers.Concatenate()([shared(inputs), shared(negated(inputs))])",
                  "h = layers.Dense(12, activation='silu')(h)"]),
    "pictures": ("draw.normal(size=(N, 8, 8, 1))",
                 ["h = layers.Conv2D(4, 3, activation='swish')(inputs)",
                  "h = layers.AveragePooling2D(2)(h)",
                  "h = layers.Flatten()(h)"]),
    "recurrent": ("draw.normal(size=(N, 5, 6))",
                  ["h = layers.GRU(8)(inputs)"]),
    "words": ("draw.integers(0, 30, size=(N, 7))",
              ["h = layers.Embedding(30, 8, mask_zero=True)(inputs)",
               "h = layers.LSTM(8)(h)"]),
    "attention": ("draw.normal(size=(N, 5, 8))",
                  ["h = layers.Add()([inputs, layers.MultiHeadAttention(2, 4)(inputs, inputs)])",
                   "h = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(h))"]),
    "nested": ("draw.normal(size=(N, 10))",
               ["part = keras.Sequential([layers.Dense(8), layers.UnitNormalization()])",
                "h = layers.Dense(10, activation='softplus')(part(inputs))"]),
}

LOSSES = {  # the loss, what y is, and the output's activation
    "sparse": ("keras.losses.SparseCategoricalCrossentropy(from_logits=True)", "Y", None),
    "by name": ("'sparse_categorical_crossentropy'", "Y", "softmax"),
    "smoothed": ("keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)",
                 "keras.utils.to_categorical(Y, 4)", None),
    "focal": ("keras.losses.CategoricalFocalCrossentropy(from_logits=True)",
              "keras.utils.to_categorical(Y, 4)", None),
    "squares": ("'mse'", "keras.utils.to_categorical(Y, 4)", None),
    "huber": ("keras.losses.Huber(0.3)", "keras.utils.to_categorical(Y, 4)", "sigmoid"),
    "binary": ("'binary_crossentropy'", "keras.utils.to_categorical(Y, 4)", "sigmoid"),
    "logcosh": ("keras.losses.log_cosh", "keras.utils.to_categorical(Y, 4)", None),
    "own": ("lambda t, p: ops.mean(ops.square(t - p) * (1.0 + t), axis=-1)",
            "keras.utils.to_categorical(Y, 4)", None),
    "own class": ("Own()", "keras.utils.to_categorical(Y, 4)", None),
    "cosine": ("keras.losses.CosineSimilarity()", "keras.utils.to_categorical(Y, 4)", None),
}

# eps keeps small differences of gradients small
OPTIMIZERS = [
    ("SGD", 0.1, ""),
    ("SGD", 0.05, "momentum=0.9"),
    ("SGD", 0.05, "momentum=0.9, nesterov=True"),
    ("Adam", 0.01, "epsilon=1e-3"),
    ("AdamW", 0.01, "epsilon=1e-3, weight_decay=0.05"),
    ("RMSprop", 0.003, "epsilon=1e-2"),
    ("Adagrad", 0.05, "epsilon=1e-2"),
    ("Nadam", 0.005, "epsilon=1e-3"),
]
CHANGES = ["", "", "", "clipnorm=0.1", "global_clipnorm=0.5", "clipvalue=0.02"]
RATES = [
    "RATE", "RATE", "RATE",
    "keras.optimizers.schedules.ExponentialDecay(RATE, 3, 0.8)",
    "keras.optimizers.schedules.PiecewiseConstantDecay([4, 8], [RATE, RATE / 2, RATE / 4])",
    "keras.optimizers.schedules.CosineDecay(0.0, 10, warmup_target=RATE, warmup_steps=3)",
]
CALLBACKS = {
    "by epoch": "keras.callbacks.LearningRateScheduler(lambda e, rate: rate * 0.7)",
    "plateau": "keras.callbacks.ReduceLROnPlateau('val_loss', factor=0.5, patience=0, "
               "min_delta=0.05)",
    "best": "keras.callbacks.EarlyStopping('val_loss', patience=9, restore_best_weights=True)",
    "own": "Own rate",
}

HEAD = """\
import keras
import numpy as np
from keras import layers, ops

import evenstep

keras.utils.set_random_seed(%(seed)d)
draw = np.random.default_rng(%(seed)d)
N = %(samples)d


class Own(keras.losses.Loss):
    def call(self, t, p):
        return ops.sum(ops.abs(t - ops.tanh(p)) ** 1.5, axis=-1)


class Falls(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        self.model.optimizer.learning_rate = %(rate)s / (1 + 0.1 * batch)


"""


class Drawn:
    """The program of a seed. text; batch: what its nodes take together."""

    def __init__(self, seed):
        draw = self.draw = random.Random(f"{seed} keras program")
        self.batch = draw.choice([16, 24, 32])
        self.samples = draw.choice([72, 88, 96, 100, 104])
        self.loss = draw.choice(list(LOSSES))
        self.network = draw.choice(list(NETWORKS))
        # others square each use of an embedding's row by itself, on TensorFlow
        some = OPTIMIZERS[:3] if self.network == "words" else OPTIMIZERS
        self.kind, self.rate, self.more = draw.choice(some)
        self.weighs = draw.choice([None, None, None, "samples", "classes"])
        if LOSSES[self.loss][1] != "Y" and self.weighs == "classes":
            self.weighs = "samples"
        self.loop = draw.random() < 0.25
        head = HEAD % {"seed": seed, "samples": self.samples, "rate": self.rate}
        parts = [self.data(), self.model(), self.loops() if self.loop else self.fits()]
        self.text = head + "\n".join("\n".join(part) for part in parts) + "\n"

    def data(self):
        samples, self.layers = NETWORKS[self.network]
        kind = "int32" if self.network == "words" else "float32"
        yield f"X = {samples}.astype('{kind}')"
        if self.network == "words":
            yield "X[:, 0] = 1"
        yield "Y = draw.integers(0, 4, size=N)"
        yield f"T = {LOSSES[self.loss][1]}"
        yield "W = draw.uniform(0.2, 2.0, size=N).astype('float32')"

    def model(self):
        draw = self.draw
        penalty = draw.choice(["", "", "", ", kernel_regularizer=keras.regularizers.L2(0.01)"])
        yield "inputs = keras.Input(X.shape[1:], dtype=X.dtype.name)"
        yield from self.layers
        if draw.random() < 0.15:
            yield "h = layers.ActivityRegularization(l2=0.01)(h)"
            self.loop = False
        yield f"outputs = layers.Dense(4, activation={LOSSES[self.loss][2]!r}{penalty})(h)"
        self.loop &= not penalty
        yield "model = keras.Model(inputs, outputs)"
        if draw.random() < 0.15:
            yield "model.layers[-2].trainable = False"
        self.scheduled = draw.choice(RATES)
        options = [self.scheduled.replace("RATE", str(self.rate)), self.more, draw.choice(CHANGES)]
        if draw.random() < 0.15:
            options.append("use_ema=True, ema_momentum=0.7")
        if draw.random() < 0.25 and not self.loop:
            options.append(f"gradient_accumulation_steps={draw.choice([2, 3])}")
        yield f"optimizer = keras.optimizers.{self.kind}({', '.join(filter(None, options))})"

    def fits(self):
        draw = self.draw
        late = draw.random() < 0.3
        if not late:
            yield "model = evenstep.prepare(model)"
        metrics = draw.choice(["", ", metrics=['accuracy']", ", metrics=['mae']"])
        if LOSSES[self.loss][1] == "Y":
            metrics = metrics.replace("'mae'", "'sparse_top_k_categorical_accuracy'")
        eagerly = ", run_eagerly=True" if draw.random() < 0.2 else ""
        yield f"model.compile(optimizer, {LOSSES[self.loss][0]}{metrics}{eagerly})"
        if late:
            yield "model = evenstep.prepare(model)"
        told, watch = draw.choice([
            ("", False), ("validation_split=0.2, ", True),
            ("validation_data=(X[:30], T[:30]), ", True)])
        callbacks = self.callbacks(watch)
        epochs = draw.choice([3, 4])
        call = (f"batch_size={self.batch}, shuffle=False, verbose=0, {told}"
                f"callbacks=[{', '.join(callbacks)}]")
        weighs = {None: "", "samples": ", sample_weight=W",
                  "classes": ", class_weight={0: 1.0, 1: 2.0, 2: 0.5, 3: 1.5}"}[self.weighs]
        form = draw.choice(["arrays", "arrays", "pipeline"])
        if form == "pipeline" and self.weighs != "classes":
            rows = "X, T, W" if self.weighs else "X, T"
            yield from self.pipeline(rows)
            call = call.replace(f"batch_size={self.batch}, shuffle=False, ", "")
            call = call.replace("validation_split=0.2", "validation_data=(X[:30], T[:30])")
            yield f"history = model.fit(rows, epochs={epochs}, {call})"
        elif draw.random() < 0.15 and not callbacks:
            yield f"model.fit(X, T, epochs=2, {call}{weighs})"
            yield f"history = model.fit(X, T, epochs=2, {call}{weighs})"
        else:
            yield f"history = model.fit(X, T, epochs={epochs}, {call}{weighs})"

    def pipeline(self, rows):
        yield "if keras.backend.backend() == 'tensorflow':"
        yield "    import tensorflow as tf"
        ending = self.draw.choice(["", ".prefetch(2)", ".cache()"])
        yield f"    rows = tf.data.Dataset.from_tensor_slices(({rows})).batch({self.batch}){ending}"
        yield "else:"
        yield "    import torch"
        yield "    from torch.utils.data import DataLoader, TensorDataset"
        tensors = ", ".join(f"torch.from_numpy({a})" for a in rows.split(", "))
        yield f"    rows = DataLoader(TensorDataset({tensors}), batch_size={self.batch})"

    def callbacks(self, watches):
        some = [name for name in CALLBACKS if watches or name in ("by epoch", "own")]
        if self.scheduled != "RATE":
            some = ["best"] if watches else []
        chosen = [c for c in some if self.draw.random() < 0.2]
        return ["Falls()" if c == "own" else CALLBACKS[c] for c in chosen]

    def loops(self):
        """A loop of one's own, over whole batches."""
        yield f"loss_fn = {LOSSES[self.loss][0]}"
        if LOSSES[self.loss][0][0] == "'":
            yield "loss_fn = keras.losses.get(loss_fn)"
        value = "loss_fn(t, model(x, training=True))"
        if self.loss in ("by name", "squares", "binary", "logcosh", "own"):
            value = f"ops.mean({value})"  # functions give one for each row
        yield from self.pipeline("X, T")
        yield from STEPS.replace("VALUE", value).replace(
            "FUNCTION", self.draw.choice(["    @tf.function\n", ""])).split("\n")
        yield "model, optimizer, rows = evenstep.prepare(model, optimizer, rows)"
        yield f"for epoch in {self.draw.choice(['range(3)', 'evenstep.epochs(3)'])}:"
        yield "    for x, t in rows:"
        yield "        step(x, t)"


STEPS = """\
if keras.backend.backend() == 'tensorflow':
FUNCTION    def step(x, t):
        with tf.GradientTape() as tape:
            loss = VALUE
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
else:
    def step(x, t):
        model.zero_grad()
        VALUE.backward()
        gradients = [v.value.grad for v in model.trainable_variables]
        with torch.no_grad():
            optimizer.apply(gradients, model.trainable_variables)"""


if __name__ == "__main__":
    print(Drawn(int(sys.argv[1])).text)
