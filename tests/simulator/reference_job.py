"""What the reference (reference.py) knows of a job: its network with gradients, the order of its
samples, minibatches and their times, and what a run leaves."""
import math
from dataclasses import dataclass, field

import numpy as np


class Network:
    """dense(hidden), relu, dense(out), softmax cross-entropy: one flat vector of parameters."""

    def __init__(self, inputs, hidden, outputs):
        self.shapes = {"hidden.weight": (hidden, inputs), "hidden.bias": (hidden,),
                       "out.weight": (outputs, hidden), "out.bias": (outputs,)}
        self.count = sum(int(np.prod(s)) for s in self.shapes.values())
        self.is_bias = np.concatenate(
            [np.full(int(np.prod(s)), name.endswith("bias")) for name, s in self.shapes.items()])

    def split(self, w):
        out, at = {}, 0
        for name, shape in self.shapes.items():
            n = int(np.prod(shape))
            out[name] = w[at:at + n].reshape(shape)
            at += n
        return out

    def join(self, tensors):
        return np.concatenate(
            [np.asarray(tensors[name], dtype=float).reshape(-1) for name in self.shapes])

    def test(self, w, x, y):
        """Mean loss and accuracy over the samples."""
        p = self.split(w)
        h = np.maximum(x @ p["hidden.weight"].T + p["hidden.bias"], 0)
        o = h @ p["out.weight"].T + p["out.bias"]
        logs = o - o.max(axis=1, keepdims=True)
        logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
        return -logs[np.arange(len(y)), y].mean(), (o.argmax(axis=1) == y).mean()

    def gradient(self, w, x, y):
        """Mean gradient over the samples."""
        p = self.split(w)
        z = x @ p["hidden.weight"].T + p["hidden.bias"]
        h = np.maximum(z, 0)
        o = h @ p["out.weight"].T + p["out.bias"]
        e = np.exp(o - o.max(axis=1, keepdims=True))
        d = e / e.sum(axis=1, keepdims=True)
        d[np.arange(len(y)), y] -= 1
        d /= len(y)
        dz = (d @ p["out.weight"]) * (z > 0)
        return np.concatenate(
            [(dz.T @ x).ravel(), dz.sum(axis=0), (d.T @ h).ravel(), d.sum(axis=0)])


@dataclass
class Result:
    params: np.ndarray
    updates: int
    seconds: float
    histograms: list                                   # per worker
    sizes: list
    # (time, rank, samples, staleness, version after) of every gradient
    trace: list = field(default_factory=list)
    smallest_gap: float = math.inf                     # between two events that could change places

    def staleness(self):
        """The job's figures (docs/semantics.md#staleness)."""
        every = sorted(t[3] for t in self.trace)
        samples = sum(t[2] for t in self.trace)
        rank = lambda q: every[max(0, math.ceil(q * len(every)) - 1)]
        means = [mean(h) for h in self.histograms if sum(h)]
        return {"update_mean": sum(every) / len(every), "node_mean": sum(means) / len(means),
                "sample_mean": sum(t[2] * t[3] for t in self.trace) / samples,
                "p50": rank(0.5), "p95": rank(0.95), "p99": rank(0.99), "max": every[-1]}


def mean(histogram):
    return sum(t * n for t, n in enumerate(histogram)) / max(1, sum(histogram))


def histogram(values):
    out = [0] * (max(values) + 1 if values else 0)
    for v in values:
        out[v] += 1
    return out


def minibatches(batching, workers):
    if batching.get("policy", "equal") == "static":
        return list(batching["sizes"])
    B = batching["global_batch"]
    return [B // workers + (i < B % workers) for i in range(workers)]


def in_proportion(count, sizes):
    """`count` samples in proportion of sizes: largest remainder, ties to the lower rank."""
    B = sum(sizes)
    out = [count * s // B for s in sizes]
    order = sorted(range(len(sizes)), key=lambda i: (-(count * sizes[i] % B), i))
    for i in order[:count - sum(out)]:
        out[i] += 1
    return out


class Job:
    """What both families share: the spec's numbers, data in file order, rate, optimizer."""

    def __init__(self, job, cluster, data, init):
        self.job, self.cluster = job, cluster
        self.strategy = {"weighting": "sample", "scale": "global", **job["strategy"]}
        self.W, self.B, self.epochs = job["workers"], job["batching"]["global_batch"], job["epochs"]
        self.sizes = minibatches(job["batching"], self.W)
        x, y = data["x"], data["y"]
        self.x = x.astype(float) / 255 if x.dtype == np.uint8 else x.astype(float)
        self.y, self.N = y, len(y)
        self.net = Network(x.shape[1], init["hidden.bias"].shape[0], init["out.bias"].shape[0])
        self.init = self.net.join(init)
        self.nodes = [dict(n) for n in cluster["nodes"] for _ in range(n.get("count", 1))]
        o = job["optimizer"]
        self.momentum, self.decay, self.clip = o.get("momentum", 0.0), o.get(
            "weight_decay", 0.0), o.get("clip_norm", 0.0)
        self.nesterov = o.get("nesterov", False)
        self.decays = np.ones(self.net.count)   # every parameter: job/network/network.h

    def cluster_groups(self):
        names = []
        for n in self.cluster["nodes"]:
            names += [f"{n['name']}-{k + 1}" for k in range(n["count"])] if "count" in n else [
                n["name"]]
        return [sorted(names.index(name) for name in group)
                for group in self.cluster.get("groups", [])]

    def rate(self, epoch):
        o = self.job["optimizer"]
        s = o.get("schedule", {"type": "constant"})
        passed = sum(1 for at in s.get("at_epochs", [])
                     if epoch >= at) if s["type"] == "step" else 0
        return o["learning_rate"] * s.get("factor", 0.1) ** passed

    def clipped(self, g):
        n = np.linalg.norm(g)
        return g * (self.clip / n) if self.clip and n > self.clip else g

    def gradient(self, w, first, count):
        return self.net.gradient(w, self.x[first:first + count], self.y[first:first + count])

    def seconds(self, i, count):
        n = self.nodes[i]
        return n.get("fixed_seconds", 0.0) + n.get("seconds_per_sample",
                                                   0.0) * count if count else 0.0

    def step(self, w, v, g, eta):
        """Plain SGD with momentum, PyTorch's form; returns new parameters and velocity."""
        g = g + self.decay * self.decays * w
        v = self.momentum * v + g
        return w - eta * (g + self.momentum * v if self.nesterov else v), v

    def steps(self):
        """(epoch, first, parts): one minibatch on every worker, cut by the assignment."""
        for epoch in range(self.epochs):
            for first in range(0, self.N, self.B):
                count = min(self.B, self.N - first)
                yield epoch, first, self.sizes if count == self.B else in_proportion(
                    count, self.sizes)


def finish(j, w, updates, seconds, trace, gap=math.inf):
    return Result(w, updates, seconds,
                  [histogram([t[3] for t in trace if t[1] == i]) for i in range(j.W)], j.sizes,
                  trace, gap)
