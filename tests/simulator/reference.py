"""The rules of training once more, in NumPy and double precision: what evenstep-simulate is
compared with.

Written from the rules alone, which docs/semantics.md has, never from the C. A job and a cluster go
in as the same JSON that the program reads; out come parameters, updates, staleness histograms and
virtual seconds. Time is exact (no jitter) and events at one instant would go to the lower rank, but
cases should have none. The network is always dense, relu, dense, softmax; minibatches never change
(what dynamic batching did is replayed from the run's own history by `replay`); evaluation costs
nothing and changes nothing. The job itself is in reference_job.py, the parameter server in
reference_server.py; here are the strategies whose workers go in step."""
import math

import numpy as np

from reference_job import Job, Network, finish
from reference_server import Rule, Server

__all__ = ["Job", "Network", "Rule", "replay", "simulate"]


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
