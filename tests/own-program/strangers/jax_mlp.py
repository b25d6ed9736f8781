"""A JAX program: jit, value_and_grad, an Adam of its own over pytrees."""
import jax
import jax.numpy as jnp
import numpy as np

import evenstep
import evenstep.arrays

X = np.array(jax.random.normal(jax.random.PRNGKey(0), (96, 12)))
Y = np.sin(X).sum(1, keepdims=True)


def init(sizes, key):
    keys = jax.random.split(key, len(sizes))
    return [{"w": jax.random.normal(k, (m, n)) / m**0.5, "b": jnp.zeros(n)}
            for k, m, n in zip(keys, sizes, sizes[1:])]


def loss_fn(params, x, y):
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return jnp.mean((x @ params[-1]["w"] + params[-1]["b"] - y) ** 2)


value_and_grad = jax.jit(jax.value_and_grad(loss_fn))


@jax.jit
def adam(params, grads, m, v, t):
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, grads)
    new = jax.tree.map(lambda p, m, v: p - 0.02 * (m / (1 - 0.9**t)) / (
        jnp.sqrt(v / (1 - 0.99**t)) + 1e-2), params, m, v)
    return new, m, v


params = init([12, 16, 16, 1], jax.random.PRNGKey(1))
m = v = jax.tree.map(jnp.zeros_like, params)
run = evenstep.arrays.join(params, samples=96, batch_size=32, shuffle=False,
                           framework="jax " + jax.__version__)
step = 0
for epoch in range(4):
    for rows in run:
        loss, grads = value_and_grad(run.params, X[rows], Y[rows])
        grads = run.sum(grads, loss)
        if grads is not None:
            step += 1
            run.params, m, v = adam(run.params, grads, m, v, step)
    print("epoch", epoch, "loss", float(loss_fn(run.params, X, Y)))
