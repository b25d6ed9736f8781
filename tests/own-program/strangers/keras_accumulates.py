"""Gradients of three batches make a step, in an epoch of four; an average of the weights that is
taken over at the end; rates by a schedule with a warm-up, decoupled decay."""
import keras
import numpy as np

import evenstep

keras.utils.set_random_seed(9)
draw = np.random.RandomState(9)
x = draw.randn(120, 7).astype("float32")
y = np.abs(x).argmax(1)
model = keras.Sequential([keras.Input((7,)), keras.layers.Dense(16), keras.layers.LeakyReLU(0.1),
                          keras.layers.Dense(7)])
model = evenstep.prepare(model)
schedule = keras.optimizers.schedules.CosineDecay(0.0, 12, warmup_target=0.02, warmup_steps=2)
model.compile(
    keras.optimizers.AdamW(schedule, weight_decay=0.01, epsilon=1e-2, global_clipnorm=1.0,
                           use_ema=True, ema_momentum=0.7, gradient_accumulation_steps=3),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, batch_size=32, epochs=5, shuffle=False, verbose=0)
