"""JAX as its tutorials have it: nested dicts as flax makes them, named tuples, Adam as optax has
it (an init and an update, its state a pytree), a jitted step, gradients clipped by their norm, a
decaying rate, an evaluation after each epoch."""
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np

import evenstep
import evenstep.arrays

AdamState = namedtuple("AdamState", "count mu nu")
TrainState = namedtuple("TrainState", "params opt_state")


def adam(rate, b1=0.9, b2=0.999, eps=1e-3):
    def init(params):
        zeros = jax.tree.map(jnp.zeros_like, params)
        return AdamState(jnp.zeros([], jnp.int32), zeros, zeros)

    def update(grads, state):
        count = state.count + 1
        mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mu, grads)
        nu = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state.nu, grads)
        c1, c2 = 1 - b1 ** count.astype("float32"), 1 - b2 ** count.astype("float32")
        updates = jax.tree.map(
            lambda m, v: -rate(count) * (m / c1) / (jnp.sqrt(v / c2) + eps), mu, nu)
        return updates, AdamState(count, mu, nu)

    return init, update


def dense(key, n, m):
    return {"kernel": jax.random.normal(key, (n, m)) / np.sqrt(n), "bias": jnp.zeros((m,))}


keys = jax.random.split(jax.random.PRNGKey(0), 3)
variables = {"params": {"Dense_0": dense(keys[0], 8, 16), "Dense_1": dense(keys[1], 16, 3)}}


def apply(variables, x):
    p = variables["params"]
    h = jax.nn.relu(x @ p["Dense_0"]["kernel"] + p["Dense_0"]["bias"])
    return h @ p["Dense_1"]["kernel"] + p["Dense_1"]["bias"]


def loss_fn(variables, x, y):
    logp = jax.nn.log_softmax(apply(variables, x))
    return -jnp.mean(jnp.take_along_axis(logp, y[:, None], axis=1))


grad_fn = jax.jit(jax.value_and_grad(loss_fn))
init, update = adam(lambda count: 0.02 * 0.95 ** count)


@jax.jit
def step(state, grads):
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, 1.0 / (norm + 1e-6)), grads)
    updates, opt_state = update(grads, state.opt_state)
    return TrainState(jax.tree.map(jnp.add, state.params, updates), opt_state)


draw = np.random.RandomState(0)
x = draw.randn(90, 8).astype("float32")
y = x[:, :3].argmax(1)
run = evenstep.arrays.join(variables, len(x), 32, shuffle=False)
state = TrainState(variables, init(variables))
for epoch in evenstep.epochs(3):
    for rows in run:
        loss, grads = grad_fn(run.params, x[rows], y[rows])
        grads = run.sum(grads, loss)
        if grads is not None:
            state = step(TrainState(run.params, state.opt_state), grads)
            run.params = state.params
    accuracy = float(jnp.mean(apply(run.params, x).argmax(1) == y))
    evenstep.log(test_accuracy=accuracy)
