"""Batch norm across workers (docs/semantics.md#networks-across-workers): each uses its own
minibatch; running statistics are merged with weights b_i/B, in `sync` with each step, in server
strategies with each push, in averaging strategies with each average. Against one process in NumPy
that uses the same sub-batches.

Merging is that of means and of second moments: variance + mean² - merged mean². Running variance is
the unbiased one, as PyTorch's."""
import json
import os

import numpy as np
import pytest

from harness import UNEQUAL, Case, read_safetensors

UNITS, CLASSES, B, SIZES = 6, 4, 96, [40, 28, 16, 12]
MODEL = {"layers": [{"type": "dense", "name": "in", "units": UNITS},
                    {"type": "batch_norm", "name": "norm"}, {"type": "tanh"},
                    {"type": "dense", "name": "out", "units": CLASSES}]}
SHAPES = {"in.weight": (UNITS, 5), "in.bias": (UNITS,), "norm.weight": (UNITS,),
          "norm.bias": (UNITS,), "out.weight": (CLASSES, UNITS), "out.bias": (CLASSES,)}
STATS = ("norm.running_mean", "norm.running_var")


def gradient(p, stats, x, y):
    """Mean gradient of a minibatch, and the running statistics after it."""
    n = len(x)
    a = x @ p["in.weight"].T + p["in.bias"]
    mean, var = a.mean(axis=0), a.var(axis=0)
    inverse = 1 / np.sqrt(var + 1e-5)
    z = (a - mean) * inverse
    h = np.tanh(p["norm.weight"] * z + p["norm.bias"])
    o = h @ p["out.weight"].T + p["out.bias"]
    d = np.exp(o - o.max(axis=1, keepdims=True))
    d /= d.sum(axis=1, keepdims=True)
    d[np.arange(n), y] -= 1
    d /= n
    dh = d @ p["out.weight"] * (1 - h * h)
    dz = dh * p["norm.weight"]
    da = inverse * (dz - dz.mean(axis=0) - z * (dz * z).mean(axis=0))
    g = {"in.weight": da.T @ x, "in.bias": da.sum(axis=0), "norm.weight": (dh * z).sum(axis=0),
         "norm.bias": dh.sum(axis=0), "out.weight": d.T @ h, "out.bias": d.sum(axis=0)}
    return g, (0.9 * stats[0] + 0.1 * mean, 0.9 * stats[1] + 0.1 * var * n / (n - 1))


def merged(parts):
    """parts: (weight, (mean, variance))."""
    mean = sum(w * m for w, (m, _) in parts)
    return mean, sum(w * (v + m * m) for w, (m, v) in parts) - mean * mean


def moved(p, g, eta):
    return {k: p[k] - eta * g[k] for k in p}


def in_step(case, p, stats, k):
    """sync (k = 0), or local-sgd that averages every k steps and at the end."""
    eta, x, y = case.job["optimizer"]["learning_rate"], case.data["x"] / 255, case.data["y"]
    each = [(p, stats)] * len(SIZES)
    share = [b / B for b in SIZES]
    for step in range(len(y) // B):
        at, new = step * B, []
        for (w, s), b in zip(each, SIZES):
            g, s = gradient(w, s, x[at:at + b], y[at:at + b])
            new.append((g if k == 0 else moved(w, g, eta), s))
            at += b
        if k == 0 or (step + 1) % k == 0 or step + 1 == len(y) // B:
            mean = {n: sum(q * w[n] for q, (w, _) in zip(share, new)) for n in p}
            new = [(moved(each[0][0], mean, eta) if k == 0 else mean,
                    merged([(q, s) for q, (_, s) in zip(share, new)]))] * len(SIZES)
        each = new
    return each[0]


def by_events(case, p, stats, rows):
    """asgd, in the order in which the run's gradients came: who, how many samples, how stale."""
    eta, x, y = case.job["optimizer"]["learning_rate"], case.data["x"] / 255, case.data["y"]
    versions, at, out = [(p, stats)], 0, {}
    for rank, b in enumerate(SIZES):
        out[rank], at = (0, at, b), at + b
    for rank, batch, tau in rows:
        version, first, b = out[rank]
        assert batch == b and tau == len(versions) - 1 - version
        g, s = gradient(*versions[version], x[first:first + b], y[first:first + b])
        w, now = versions[-1]
        versions.append((moved(w, g, eta * b / B), merged([(1 - b / B, now), (b / B, s)])))
        out[rank], at = (len(versions) - 1, at, min(SIZES[rank], len(y) - at)), at + SIZES[rank]
    return versions[-1]


@pytest.mark.parametrize("strategy",
                         [{"type": "sync"}, {"type": "local-sgd", "k": 1},
                          {"type": "local-sgd", "k": 4}, {"type": "asgd"},
                          {"type": "asgd", "servers": 3}],
                         ids=lambda s: "-".join(str(v) for v in s.values()))
def test_parameters_and_running_statistics_are_those_of_one_process_with_the_same_sub_batches(
        tmp_path, strategy):
    r = np.random.RandomState(5)
    p = {k: r.normal(0, 0.5, s).astype(np.float32).astype(float) + (k == "norm.weight")
         for k, s in SHAPES.items()}
    stats = np.zeros(UNITS), np.ones(UNITS)
    case = Case(tmp_path, strategy, cluster=UNEQUAL, same=False, steps=60,
                init={**p, **dict(zip(STATS, stats))}, model=MODEL,
                optimizer={"learning_rate": 0.3},
                batching={"global_batch": B, "policy": "static", "sizes": SIZES})
    ran = case.run()
    if strategy["type"] == "asgd":
        w, s = by_events(case, p, stats,
                         [(int(x["rank"]), int(x["batch"]), int(x["staleness"]))
                          for x in ran.all_rows()])
    else:
        w, s = in_step(case, p, stats, 0 if strategy["type"] == "sync" else strategy["k"])
    got = read_safetensors(os.path.join(ran.out, "model.safetensors"))
    way = max(np.abs(w[k] - p[k]).max() for k in p)
    assert json.load(open(os.path.join(ran.out, "summary.json")))["updates"] >= 60 and way > 0.1
    for k in p:
        assert np.abs(got[k] - w[k]).max() < 1e-4 * way, k
    for k, want in zip(STATS, s):
        assert np.abs(got[k] - want).max() < 1e-5 * np.abs(want).max(), k
