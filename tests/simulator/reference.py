"""The rules of training once more, in NumPy and double precision: what evenstep-simulate is
compared with.

Written from SEMANTICS.md and ALGORITHMS.md alone, never from the C. A job and a cluster go in as
the same JSON that the program reads; out come parameters, updates, staleness histograms and virtual
seconds. Time is exact (no jitter) and events at one instant would go to the lower rank, but cases
should have none. A newcomer would get wrong: the network is always dense, relu, dense, softmax;
minibatches never change (what dynamic batching did is replayed from the run's own history by
`replay`); evaluation costs nothing and changes nothing."""
import heapq
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
        """The job's figures, SEMANTICS.md 5."""
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
        self.decays = np.ones(self.net.count)   # every parameter: job/network.h

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


# ---- all workers in step -------------------------------------------------------------------------


def exchange_seconds(link, members, floats):
    """An all-reduce among equal links: recursive doubling where it is short (two rounds more where
    members are no power of two), else a ring."""
    bandwidth = link.get("bytes_per_second", 0)
    cost = lambda n: link.get("latency_seconds", 0) + (4 * n / bandwidth if bandwidth else 0)
    if floats < 4096:
        rounds = int(math.log2(len(members)))
        return (rounds + (0 if 2 ** rounds == len(members) else 2)) * cost(floats)
    return 2 * (len(members) - 1) * cost(math.ceil(floats / len(members)))


def exchange_ends(j, starts, members, floats):
    """When each member has the sum, if member m starts at starts[m]. Unequal links: only a short
    vector among a power of two of members."""
    links = j.cluster.get("links", {})
    inside = j.cluster.get("group_links", links) if "groups" in j.cluster else links
    group = {i: g for g, ranks in enumerate(j.cluster_groups()) for i in ranks}
    link = lambda a, b: inside if group and group[a] == group[b] else links
    if len({id(link(a, b)) for a in members for b in members if a != b}) < 2:
        end = max(starts[m] for m in members) + (
            exchange_seconds(link(*members[:2]), members, floats) if len(members) > 1 else 0.0)
        return {m: end for m in members}
    assert floats < 4096 and len(members) & (len(members) - 1) == 0
    now = [starts[m] for m in members]
    for bit in range(len(members).bit_length() - 1):
        cost = [exchange_seconds(link(m, members[i ^ 1 << bit]), members[:2], floats)
                for i, m in enumerate(members)]
        now = [max(now[i], now[i ^ 1 << bit]) + cost[i] for i in range(len(members))]
    return dict(zip(members, now))


def sync(j):
    w, v, now, t = j.init, np.zeros_like(j.init), 0.0, 0
    trace = []
    for epoch, first, parts in j.steps():
        g, at = np.zeros_like(w), first
        for i, n in enumerate(parts):
            if n:
                g += n / sum(parts) * j.gradient(w, at, n)
            at += n
        w, v = j.step(w, v, j.clipped(g), j.rate(epoch))
        now += max(j.seconds(i, n) for i, n in enumerate(parts))
        now += exchange_seconds(j.cluster.get("links", {}), range(j.W), j.net.count)
        t += 1
        trace += [(now, i, n, 0, t) for i, n in enumerate(parts) if n]
    return finish(j, w, t, now, trace)


def groups_of(j):
    size = j.strategy.get("group_size", 0)
    if j.cluster_groups():
        return j.cluster_groups()
    # every virtual node is a host
    return [list(range(at, min(at + size, j.W))) for at in range(0, j.W, size)] if size else [
        [i] for i in range(j.W)]


def averaging(j):
    kind = j.strategy["type"]
    k2 = j.strategy.get("k", 8) if kind == "local-sgd" else j.strategy.get("k2", 8)
    k1 = k2 if kind == "local-sgd" else j.strategy.get("k1", 1)
    w = [j.init.copy() for _ in range(j.W)]
    v = [np.zeros_like(j.init) for _ in range(j.W)]
    now, t, trace = [0.0] * j.W, 0, []
    steps = list(j.steps())

    # samples since the last average of the group, of all: what a replica weighs
    in_group, in_all = [0] * j.W, [0] * j.W

    # the velocity is averaged with the parameters, at global averages only
    blocks = j.net.count * (2 if j.momentum else 1)

    def average(members, counts, both):
        shares = np.array([counts[i] for i in members]) / sum(counts[i] for i in members)
        merged = sum(s * w[i] for s, i in zip(shares, members))
        velocity = sum(s * v[i] for s, i in zip(shares, members))
        end = exchange_ends(j, now, sorted(members), blocks if both else j.net.count)
        for i in members:
            w[i], now[i] = merged.copy(), end[i]
            in_group[i] = 0
            if both:
                v[i], in_all[i] = velocity.copy(), 0

    for epoch, first, parts in steps:
        t, at = t + 1, first
        for i, n in enumerate(parts):
            if n:
                w[i], v[i] = j.step(w[i], v[i], j.clipped(j.gradient(w[i], at, n)), j.rate(epoch))
                now[i] += j.seconds(i, n)
                trace.append((now[i], i, n, 0, t))
            at, in_group[i], in_all[i] = at + n, in_group[i] + n, in_all[i] + n
        if t % k2 == 0 or t == len(steps):
            average(range(j.W), in_all, True)
        elif t % k1 == 0:
            for group in groups_of(j):
                average(group, in_group, False)
    return finish(j, w[0], t, max(now), trace)


def hpsgd(j):
    """Round r trains a replica from w^r; meanwhile the gradients of round r-1 are summed; w^{r+1} =
    w^r - eta * that sum."""
    fixed = j.strategy.get("k", "auto")
    steps = list(j.steps())
    w, at, r, t = j.init.copy(), 0, 0, 0
    # flying: eta * sum of the round before; start: of the round, per worker
    flying, start, trace = None, [0.0] * j.W, []
    K, took, longest = 1, None, 0.0                # longest: the slowest worker's last step
    duration = exchange_seconds(j.cluster.get("links", {}), range(j.W), j.net.count)
    most = math.ceil(j.N / j.B)   # an automatic round is no longer than an epoch
    while at < len(steps):
        # of the reduction that starts with this round
        over = max(start) + duration if flying is not None else None
        told = (took, longest)                                         # what this reduction carries
        k = min(fixed if fixed != "auto" else K, len(steps) - at)
        replica = [w.copy() for _ in range(j.W)]
        total, end = np.zeros_like(w), list(start)
        for epoch, first, parts in steps[at:at + k]:
            here, t = first, t + 1
            for i, n in enumerate(parts):
                if n:
                    g = j.clipped(j.gradient(replica[i], here, n)) + j.decay * j.decays * replica[i]
                    replica[i] = replica[i] - j.rate(epoch) * g
                    total += j.rate(epoch) * n / sum(parts) * g
                    end[i] += j.seconds(i, n)
                    trace.append((end[i], i, n, 1, t))
                here += n
            longest = max(j.seconds(i, n) for i, n in enumerate(parts))
        if flying is not None:
            w = w - flying
            took = min(over - s for s in start)   # of the worker that joined last
            start = [max(e, over) for e in end]
            if told[0] is not None:
                K = min(max(1, math.ceil(told[0] / told[1] - 0.001)), most)
        else:
            start = end
        flying, at, r = total, at + k, r + 1
    return finish(j, w - flying, t, max(start) + duration, trace)


# ---- a server ------------------------------------------------------------------------------------

class Link:
    """Transfers that share one link fairly, none faster than its own end allows."""

    def __init__(self, shared, own):
        self.shared, self.own, self.flows, self.now = shared, own, {}, 0.0

    def speed(self):
        limits = [self.own or math.inf, (self.shared or math.inf) / max(1, len(self.flows))]
        return min(limits)

    def advance(self, t):
        moved = (t - self.now) * self.speed() if self.flows and self.speed() < math.inf else 0.0
        for key in self.flows:
            self.flows[key] -= moved
        self.now = t

    def add(self, t, key, n_bytes):
        self.advance(t)
        self.flows[key] = float(n_bytes)

    def next(self):
        if not self.flows:
            return math.inf, None
        key = min(self.flows, key=lambda k: (self.flows[k], k))
        return self.now + (max(0.0, self.flows[key]) / self.speed() if self.speed() < math.inf
                           else 0.0), key


class Rule:
    """What the server does with one gradient, or with a group of them."""

    def __init__(self, j):
        self.j, self.kind = j, j.strategy["type"]
        self.w, self.version = j.init.copy(), 0
        self.v = np.zeros_like(self.w)
        self.ms = np.zeros_like(self.w)

    def factor(self, n, c):
        s = self.j.strategy
        scale = 1 / self.j.W if s["scale"] == "global" else 1 / c
        return scale * (self.j.W * n / self.j.B if s["weighting"] == "sample" else 1.0)

    def apply(self, group, c):
        """group: (gradient, samples, version pulled, weights pulled, epoch)."""
        j, s = self.j, self.j.strategy
        taus = [self.version - pulled for _, _, pulled, _, _ in group]
        total = np.zeros_like(self.w)
        eta = j.rate(group[-1][4])
        for (g, n, pulled, base, epoch), tau in zip(group, taus):
            f = self.factor(n, c)
            g = j.clipped(g)
            eta_i = j.rate(epoch)
            if self.kind in ("softsync", "dbs-sgd"):
                rate = s.get("rate", "fixed")
                f /= s.get("n", 1) if rate == "n" else max(tau, 1) if rate == "tau" else 1
            elif self.kind == "dc-asgd":
                strength = s.get("lambda", 0.04)
                if s.get("adaptive"):
                    m = s.get("m", 0.95)
                    self.ms = m * self.ms + (1 - m) * g * g
                    strength = strength / np.sqrt(self.ms + s.get("eps", 1e-7))
                g = g + strength * g * g * (self.w - base)
            elif self.kind in ("dc-asgdk", "ddc-asgd"):
                q = 1 / (1 - s["mu"]) if s.get("mu", -1) >= 0 else max(1, j.W - 1)
                keep = 1 - 1 / j.W if self.kind == "dc-asgdk" else tau / (tau + q)
                take = 1 / j.W if self.kind == "dc-asgdk" else q / (tau + q)
                self.v = keep * self.v - take * eta_i * f * (g + j.decay * j.decays * self.w)
                self.w = self.w + self.v
                self.version += 1
                return taus
            total += eta_i / eta * f * (g + j.decay * j.decays * self.w)
        self.v = j.momentum * self.v + total
        self.w = self.w - eta * (total + j.momentum * self.v if j.nesterov else self.v)
        self.version += 1
        return taus


class Server:
    def __init__(self, j):
        self.j, self.s, self.rule = j, j.strategy, Rule(j)
        kind = self.s["type"]
        self.c = {"softsync": lambda: max(1, j.W // self.s.get("n", 1)),
                  "dbs-sgd": lambda: max(1, j.W // self.s["n"]) if self.s.get("n")
                  else self.s.get("c", 1)}.get(kind, lambda: 1)()
        self.blocking = self.s.get("pull", "free") == "blocking"
        link, server = j.cluster.get("links", {}), j.cluster.get("server", {})
        self.latency = link.get("latency_seconds", 0.0) + server.get("latency_seconds", 0.0)
        self.bytes = 4 * j.net.count
        own, shared = link.get("bytes_per_second", 0), server.get("bytes_per_second", 0)
        self.up, self.down = Link(shared, own), Link(shared, own)
        self.events, self.serial = [], 0
        self.epoch = self.first = 0
        self.clock, self.ended, self.waiting = [0] * j.W, [False] * j.W, []
        self.group, self.holds, self.trace, self.out, self.last = [], {}, [], 0, 0.0
        self.gap = math.inf

    def at(self, t, what, rank):
        self.serial += 1
        heapq.heappush(self.events, (t, rank, self.serial, what))

    def take(self, rank):
        if self.epoch >= self.j.epochs:
            return None
        n = min(self.j.sizes[rank], self.j.N - self.first)
        got = (self.epoch, self.first, n)
        self.first += n
        if self.first == self.j.N:
            self.epoch, self.first = self.epoch + 1, 0
        return got

    def pull(self, t, rank):
        """The server answers: newest weights and a slice, or the end."""
        got = self.take(rank)
        if got is None:
            self.ended[rank] = True
            return
        self.out += 1
        epoch, first, n = got
        self.holds[rank] = (epoch, first, n, self.rule.version, self.rule.w.copy())
        self.at(t + self.latency, "down", rank)

    def push(self, t, rank):
        """A gradient is here."""
        epoch, first, n, pulled, base = self.holds.pop(rank)
        g = self.j.gradient(base, first, n)
        self.group.append((rank, (g, n, pulled, base, epoch)))
        self.out -= 1
        self.clock[rank] += 1
        if len(self.group) == self.c:
            self.update(t)
            if not self.blocking:
                self.answer(t, rank)
        elif not self.blocking:
            self.answer(t, rank)
        if self.epoch >= self.j.epochs and self.out == 0 and self.group:
            self.update(t)

    def update(self, t):
        taus = self.rule.apply([g for _, g in self.group], self.c)
        for (rank, g), tau in zip(self.group, taus):
            self.trace.append((t, rank, g[1], tau, self.rule.version))
        ranks, self.group, self.last = [r for r, _ in self.group], [], t
        if self.blocking:
            for r in sorted(ranks):   # released at one instant: by rank
                self.pull(t, r)

    def answer(self, t, rank):
        if self.s["type"] != "ssp":
            return self.pull(t, rank)
        self.waiting.append(rank)
        while True:
            least = min((c for c, e in zip(self.clock, self.ended) if not e), default=0)
            free = [r for r in sorted(self.waiting) if self.clock[r] - least <= self.s.get("s", 3)]
            if not free:
                return None
            self.waiting = [r for r in self.waiting if r not in free]
            for r in free:
                self.pull(t, r)

    def run(self):
        j, last = self.j, None
        for rank in range(j.W):
            self.pull(0.0, rank)
        while True:
            times = [(self.events[0][0], 2) if self.events else (math.inf, 2),
                     (self.up.next()[0], 0), (self.down.next()[0], 1)]
            t, which = min(times)
            if t == math.inf:
                break
            self.up.advance(t), self.down.advance(t)
            if which == 2:
                _, rank, _, what = heapq.heappop(self.events)
                if what == "down":
                    self.down.add(t, rank, self.bytes)
                elif what == "computed":
                    self.at(t + self.latency, "up", rank)
                else:
                    self.up.add(t, rank, self.bytes)
            elif which == 1:
                rank = self.down.next()[1]
                del self.down.flows[rank]
                self.at(t + j.seconds(rank, self.holds[rank][2]), "computed", rank)
            else:
                rank = self.up.next()[1]
                del self.up.flows[rank]
                self.gap = min(self.gap, t - last if last is not None else math.inf)
                last = t
                self.push(t, rank)
        return finish(j, self.rule.w, self.rule.version, self.last, self.trace, self.gap)


def finish(j, w, updates, seconds, trace, gap=math.inf):
    return Result(w, updates, seconds,
                  [histogram([t[3] for t in trace if t[1] == i]) for i in range(j.W)], j.sizes,
                  trace, gap)


def simulate(job, cluster, data, init):
    """job, cluster: as the program reads them; data: {"x", "y"}; init: tensors by name."""
    j = Job(job, cluster, data, init)
    kind = job["strategy"]["type"]
    if kind == "sync":
        return sync(j)
    if kind in ("local-sgd", "hier-sgd"):
        return averaging(j)
    if kind == "hpsgd":
        return hpsgd(j)
    return Server(j).run()


def replay(job, cluster, data, init, rows):
    """Parameters of a server strategy (c = 1) out of the order that a run wrote: rows of (rank,
    samples, staleness), in order of application; every sample must be the same one, for the order
    of slices is not in the rows."""
    j = Job(job, cluster, data, init)
    rule, past = Rule(j), [j.init.copy()]
    done = 0
    for rank, n, tau in rows:
        pulled = rule.version - tau
        base = past[pulled]
        rule.apply([(j.gradient(base, 0, 1), n, pulled, base, done // j.N)], 1)
        done += n
        past.append(rule.w.copy())
    return rule.w
