"""The strategies of the reference (reference.py) that have a parameter server: its link, its rules,
and the events of pulls, computing and pushes."""
import heapq
import math

import numpy as np

from reference_job import finish


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
