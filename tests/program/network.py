"""The network of a job of ours as a program in NumPy: 8 inputs, a hidden layer with ReLU, 4
classes. It begins with the same parameters and reads the same samples, so what a strategy makes of
either can be compared step by step.

    network.py FOLDER [--momentum M] [--in-order]          FOLDER: x.npy, y.npy, first.npz"""
import argparse
import pathlib

import numpy as np

import wire

SHAPES = {"fc1.weight": (16, 8), "fc1.bias": (16,), "fc2.weight": (4, 16), "fc2.bias": (4,)}
BATCH, RATE = 64, 0.1


def parts(flat):
    """Views of the flat block by name."""
    out, first = {}, 0
    for name, shape in SHAPES.items():
        n = int(np.prod(shape))
        out[name] = flat[first:first + n].reshape(shape)
        first += n
    return out


def gradient(params, grads, x, y):
    """The gradient of the mean cross entropy; returns the sum of the losses."""
    p, g = parts(params), parts(grads)
    hidden = np.maximum(x @ p["fc1.weight"].T + p["fc1.bias"], 0)
    out = hidden @ p["fc2.weight"].T + p["fc2.bias"]
    odds = np.exp(out - out.max(1, keepdims=True))
    odds /= odds.sum(1, keepdims=True)
    losses = -np.log(odds[np.arange(len(y)), y])
    odds[np.arange(len(y)), y] -= 1
    odds /= len(y)
    back = (odds @ p["fc2.weight"]) * (hidden > 0)
    g["fc2.weight"][:], g["fc2.bias"][:] = odds.T @ hidden, odds.sum(0)
    g["fc1.weight"][:], g["fc1.bias"][:] = back.T @ x, back.sum(0)
    return float(losses.mean())


def step(w, s, x, y, velocity, momentum):
    w.grads[:] = 0
    loss = gradient(w.params, w.grads, x[s.indices], y[s.indices]) if s.count else float("nan")
    for bucket in range(len(w.buckets)):
        w.bucket(bucket, float(s.count))
    go = w.gradients(s, loss, RATE)
    if not go & wire.SKIP_STEP:
        velocity *= np.float32(momentum)
        velocity += w.grads
        w.params -= np.float32(RATE) * velocity


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--momentum", type=float, default=0)
    parser.add_argument("--in-order", action="store_true")
    args = parser.parse_args()
    x, y, first = (np.load(args.folder / name) for name in ("x.npy", "y.npy", "first.npz"))
    optimizer = {"type": "sgd", "name": "SGD", "learning_rate": RATE, "momentum": args.momentum,
                 "nesterov": False, "weight_decay": 0}
    w = wire.Wire({"framework": "plain", "samples": len(x), "global_batch": BATCH, "ahead": 1,
                   "shuffle": not args.in_order, "epochs": None, "state": False,
                   "reduction": "mean", "optimizer": optimizer, "statistics": [],
                   "parameters": [{"name": k, "shape": list(s), "decay": True}
                                  for k, s in SHAPES.items()]})
    w.params[:] = np.concatenate([first[name].ravel() for name in SHAPES])
    w.start()
    velocity = np.zeros_like(w.params)
    while True:
        s = w.next()
        if not s.flags & wire.NO_STEP:
            if s.flags & wire.STOP or not w.begin(s):
                break
            step(w, s, x, y, velocity, args.momentum)
        if s.flags & wire.STOP or (s.flags & wire.EPOCH_LAST
                                   and not w.epoch_end(s.epoch)) or s.flags & wire.RUN_LAST:
            break
    w.leave()


if __name__ == "__main__":
    main()
