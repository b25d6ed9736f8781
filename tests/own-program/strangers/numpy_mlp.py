"""A network of two layers in NumPy, its gradients by hand, with momentum of its own."""
import pickle

import numpy as np

import evenstep
import evenstep.arrays

rng = np.random.RandomState(0)
X = rng.randn(96, 12).astype(np.float32)
Y = np.eye(3, dtype=np.float32)[(X @ rng.randn(12, 3)).argmax(1)]


def value_and_grad(p, x, y):
    h = np.tanh(x @ p["hidden"]["w"] + p["hidden"]["b"])
    z = h @ p["out"][0] + p["out"][1]
    e = np.exp(z - z.max(1, keepdims=True))
    q = e / e.sum(1, keepdims=True)
    loss = -np.mean(np.sum(y * np.log(q + 1e-9), 1))
    dz = (q - y) / len(x)
    dh = (dz @ p["out"][0].T) * (1 - h**2)
    # keys in another order than those of the parameters, as JAX would give them
    return loss, {"hidden": {"b": dh.sum(0), "w": x.T @ dh}, "out": [h.T @ dz, dz.sum(0)]}


def tree_map(f, *trees):
    if isinstance(trees[0], dict):
        return {k: tree_map(f, *(t[k] for t in trees)) for k in trees[0]}
    if isinstance(trees[0], list):
        return [tree_map(f, *ts) for ts in zip(*trees)]
    return f(*trees)


params = {"hidden": {"w": 0.3 * rng.randn(12, 20), "b": np.zeros(20)},
          "out": [0.3 * rng.randn(20, 3), np.zeros(3)]}
velocity = tree_map(np.zeros_like, params)
run = evenstep.arrays.join(params, samples=96, batch_size=32, shuffle=False,
                           save=lambda: pickle.dumps(velocity))
if run.state:
    velocity = pickle.loads(run.state)
for epoch in evenstep.epochs(4):
    for rows in run:
        loss, grads = value_and_grad(run.params, X[rows], Y[rows])
        grads = run.sum(grads, loss)
        if grads is not None:
            velocity = tree_map(lambda v, g: 0.9 * v + g, velocity, grads)
            run.params = tree_map(lambda p, v: p - 0.2 * v, run.params, velocity)
    loss, _ = value_and_grad(run.params, X, Y)
    evenstep.log(test_loss=loss)
    print("epoch", epoch, "loss", loss)
