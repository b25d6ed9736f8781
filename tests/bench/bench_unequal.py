"""bench-unequal: what the whole cluster trains per second when its nodes' speeds are 1, 1, 1/2,
1/4; LeNet, global minibatch 256 unless said.

First with emulated slowdowns: equal minibatches, dynamic ones with the first profiling inside the
clock, dynamic ones with the profiles of an earlier job, each over the ideal, which is the sum of
the nodes' speeds as one of them alone has it in the same turn. Then with CPU quotas (control
groups) instead of sleeps, beside PyTorch's DistributedDataParallel under the same quotas: samples
per second, and seconds to an accuracy; and with a node whose quota changes."""
import bisect
import os
import pathlib
import socket
import subprocess
import sys

from bench import PEERS, ROOT, TORCH, TURNS, Report, have_torch, median, spread
import quota

sys.path.insert(0, str(ROOT / "tests" / "integration"))
from agents import Agent  # noqa: E402
from service import Service, until  # noqa: E402

SPEEDS = {"fast-1": 1, "fast-2": 1, "mid": 1 / 2, "slow": 1 / 4}
SUM = sum(SPEEDS.values())
BATCH, FIRST, LAST = 256, 20, 60
WANTED = 0.985


def job(policy, strategy="sync", batch=BATCH, **changes):
    return {"name": f"{strategy}-{policy}", "model": "lenet5",
            "data": {"format": "glyphs", "samples": 20480, "test_samples": 100}, "epochs": 1000,
            "optimizer": {"type": "sgd", "learning_rate": 0.01, "momentum": 0.9},
            "strategy": {"type": strategy}, "workers": 4,
            "batching": {"global_batch": batch, "policy": policy},
            "evaluate": {"every_epochs": 1000}, **changes}


class Clock:
    """How many samples were trained when, of a job that runs, by the rows of all its nodes."""

    def __init__(self, service, id):
        self.service, self.id = service, id

    def read(self):
        series = self.service.get(
            f"jobs/{self.id}/series?names=batch&x=time&points=20000").json()["series"]
        # later than that the rows of some node may not have come
        known = min((s["x"][-1] for s in series if s["x"]), default=0)
        rows = sorted((t, n) for s in series for t, n in zip(s["x"], s["mean"]) if t <= known)
        self.time, self.samples, sum_ = [], [], 0
        for t, n in rows:
            sum_ += n
            self.time.append(t)
            self.samples.append(sum_)
        return sum_

    def wait(self, samples):
        until(f"{samples} samples are trained", lambda: self.read() >= samples, 900, every=0.5)

    def at(self, samples):
        return self.time[min(bisect.bisect_left(self.samples, samples), len(self.time) - 1)]

    def rate(self, first, last):
        return (last - first) / (self.at(last) - self.at(first))


def run(service, spec, batch=BATCH, first=FIRST, last=LAST):
    """Samples per second of steps first to last of a job, which is cancelled then; and its
    minibatches."""
    id = service.submit(spec)
    clock = Clock(service, id)
    clock.wait(batch * (last + 1))
    batches = [w["batch"] for w in service.job(id)["workers"]]
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")
    return clock.rate(batch * first, batch * last), batches


def alone(service, node, batch=BATCH):
    """What one fast node trains alone, with the minibatch that it has among the others."""
    own = round(batch / SUM / 4) * 4
    return run(service,
               job("equal", workers=1, nodes=[node],
                   batching={"global_batch": own, "policy": "equal"}), own, 5, 25)[0]


def emulated(report):
    """With minibatches in multiples of 4, 256 samples cannot be cut nearer than 3 % to these
    speeds, 512 nearer than 1 %."""
    batch = 2 * BATCH
    nodes = [f"{name}=cpu:1,slowdown={4 / speed:g}" for name, speed in SPEEDS.items()]
    rates, batches = {"ideal": [], "equal": [], "dynamic": [], "again": []}, {}
    for _ in range(TURNS):
        with Service(nodes=nodes) as s:  # fresh: no profile is known
            rates["dynamic"].append(run(s, job("dynamic", batch=batch), batch)[0])
            again, batches["again"] = run(s, job("dynamic", batch=batch), batch)
            rates["again"].append(again)
            rates["ideal"].append(SUM * alone(s, "fast-1", batch))
            rates["equal"].append(run(s, job("equal", batch=batch), batch, first=5, last=20)[0])
    names = (("equal", "equal minibatches", ", ".join(4 * [str(batch // 4)])),
             ("dynamic", "dynamic, nothing known before", ""),
             ("again", "dynamic, profiles of the job before",
              ", ".join(map(str, batches["again"]))))
    ideal = median(rates["ideal"])
    report.add("",
               f"Ideal: {SUM:g} times one fast node alone, {ideal:.0f} samples/s. Global "
               f"minibatch {batch}.")
    report.table("Emulated slowdowns 4, 4, 8, 16",
                 ["sync", "samples/s", "over equal", "over the ideal", "minibatches"],
                 [[title, spread(rates[k], "{:.0f}"),
                   spread([a / b for a, b in zip(rates[k], rates["equal"])]),
                   spread([a / b for a, b in zip(rates[k], rates["ideal"])]), b]
                  for k, title, b in names])


class Cluster:
    """A service whose nodes are hosts of their own, each under a quota."""
    CORES = 0.6

    def __init__(self, data=None, cores=CORES):
        self.data, self.cores = data, cores

    def __enter__(self):
        self.quotas = {name: quota.Quota(name, self.cores * speed)
                       for name, speed in SPEEDS.items()}
        self.service = Service(nodes=(), options=("--no-local-node",), data=self.data).__enter__()
        self.agents = []
        for name, q in self.quotas.items():
            agent = Agent(self.service, name, f"{name}=cpu:1", env={"EVENSTEP_DATA": str(self.data)}
                          if self.data else None)
            agent.command = q.command(*agent.command)
            self.agents.append(agent.start())
        until("the nodes are there",
              lambda: len(
                  [n for n in self.service.get("nodes").json()["nodes"] if n["state"] == "ready"])
              == len(SPEEDS))
        return self

    def __exit__(self, *why):
        for agent in self.agents:
            agent.stop()
        self.service.__exit__(*why)
        for q in self.quotas.values():
            q.remove()


def ddp(quotas, *what):
    """What PyTorch's rank 0 answers under these quotas, minibatches of 64."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    ranks = [subprocess.Popen(q.command(TORCH, "-W", "ignore", PEERS / "torch_ddp.py", rank,
                                        len(quotas), port, BATCH // len(quotas), *what),
                              stdout=subprocess.PIPE, text=True) for rank, q in enumerate(quotas)]
    answer = ranks[0].communicate()[0]
    for r in ranks[1:]:
        r.communicate()
    return [float(x) for x in answer.split()]


def ddp_rate(quotas):
    steps = FIRST + 15
    return BATCH * (steps - FIRST) / ddp(quotas, "steps", steps)[0]


def with_quotas(report):
    ours, theirs = {"sync": [], "asgd": []}, []
    for _ in range(TURNS):
        with Cluster() as c:
            for strategy, rates in ours.items():
                rates.append(run(c.service, job("dynamic", strategy))[0])
            if have_torch():
                theirs.append(ddp_rate(c.quotas.values()))
    rows = [[f"{k}, dynamic", spread(v, "{:.0f}"), spread([a / b for a, b in zip(v, theirs)])
             if theirs else ""] for k, v in ours.items()]
    if theirs:
        rows.append(["PyTorch DDP, gloo, equal", spread(theirs, "{:.0f}"), "1"])
    report.table(
        f"CPU quotas {', '.join(f'{Cluster.CORES * s:g}' for s in SPEEDS.values())} of a core, no "
        "sleeps", ["strategy", "samples/s", "over DDP"], rows)


def changed(batch, cores):
    """A node halves its quota in the middle, and gets it back: the share of the ideal that the 20
    steps have that begin 20 steps after each change."""
    shares = {}
    with Cluster(cores=cores) as c:
        one = alone(c.service, "fast-1", batch)
        id = c.service.submit(job("dynamic", batch=batch))
        clock = Clock(c.service, id)
        done = FIRST
        for name, speed in (("before", 1), ("halved", 1 / 2), ("back", 1)):
            clock.wait(batch * done)
            c.quotas["fast-2"].set(cores * speed)
            done = clock.samples[-1] / batch + 20
            clock.wait(batch * (done + 21))
            shares[name] = clock.rate(batch * done, batch * (done + 20)) / (one * (SUM - 1 + speed))
            done += 21
        c.service.post(f"jobs/{id}/cancel")
        c.service.wait(id, "cancelled")
    return shares


def changing(report):
    """With the minibatch of the other tables an exchange of 6.6 MB, which the quotas pay for too,
    is a large part of a step; with eight times as many it is a small one."""
    cases = ((BATCH, Cluster.CORES), (8 * BATCH, 0.4))
    turns = [[changed(*case) for case in cases] for _ in range(TURNS)]
    report.table(
        "A fast node halves its quota, and gets it back: 20 steps that begin 20 steps after the "
        "change, over the ideal",
        ["sync, dynamic",
         *(f"global minibatch {batch}, {cores:g} of a core" for batch, cores in cases)],
        [[name, *(spread([turn[i][name] for turn in turns]) for i in range(len(cases)))]
         for name in turns[0][0]])


def in_steps(service, id):
    """Seconds of training without evaluation, of the worker that has most: its steps, and what lay
    between two of them as it mostly does."""
    def values(name):
        found = service.get(f"jobs/{id}/series?names={name}&x=time&points=20000").json()["series"]
        return {s["node"]: (s["x"], s["mean"]) for s in found}
    parts, most = [values(f"{name}_seconds") for name in ("compute", "exchange", "wait")], 0
    for node, (ends, _) in parts[0].items():
        lasted = [sum(step) for step in zip(*(p[node][1] for p in parts))]
        between = median([end - before - s for before, end, s in zip(ends, ends[1:], lasted[1:])])
        most = max(most, sum(lasted) + between * len(lasted))
    return most


def to_accuracy(report):
    """Seconds of training until an evaluation, every 50 steps and outside the clock, finds 98.5 %
    of MNIST's test set."""
    data = pathlib.Path(os.environ.get("EVENSTEP_DATA", ROOT.parent / "shared" / "data"))
    if not (data / "mnist").exists():
        report.add("", f"No time to {WANTED:.1%}: {data} has no mnist.")
        return
    ours, steps, theirs = {"sync": [], "asgd": []}, {"sync": [], "asgd": [], "DDP": []}, []
    turns = 1 if os.environ.get("QUICK") else TURNS  # minutes each
    for _ in range(turns):
        with Cluster(data=data) as c:
            for strategy, seconds in ours.items():
                id = c.service.submit(
                    job("dynamic", strategy, data={"format": "idx", "path": "mnist"}, epochs=20,
                        evaluate={"every_steps": 50},
                        optimizer={"type": "sgd", "learning_rate": 0.05, "momentum": 0.9},
                        target={"test_accuracy": WANTED}))
                c.service.wait(id, "succeeded", seconds=1200)
                seconds.append(in_steps(c.service, id))
                steps[strategy].append(c.service.job(id)["progress"]["step"])
            if have_torch():
                for to, value in zip((theirs, steps["DDP"]),
                                     ddp(c.quotas.values(), "reach", WANTED, data / "mnist")):
                    to.append(value)
    rows = [[f"{k}, dynamic", spread(v, "{:.1f}"), spread(steps[k], "{:.0f}"),
             spread([b / a for a, b in zip(v, theirs)]) if theirs else ""] for k, v in ours.items()]
    if theirs:
        rows.append(
            ["PyTorch DDP, gloo, equal", spread(theirs, "{:.1f}"), spread(steps["DDP"], "{:.0f}"),
             "1"])
    report.table(
        f"Under the same quotas: time to {WANTED:.1%} of MNIST's test set, {turns} "
        f"turn{'s' * (turns > 1)}", ["strategy", "seconds of training", "steps", "faster than DDP"],
        rows)


def main():
    report = Report("bench-unequal", "Unequal nodes",
                    "LeNet on drawn digits, four workers of speeds 1, 1, 1/2, 1/4, global "
                    "minibatch 256 unless said; samples/s of steps 20 to 60.")
    emulated(report)
    against = quota.reason_against()
    if against:
        report.add("", f"Nothing under CPU quotas: {against}.")
    else:
        with_quotas(report)
        changing(report)
        to_accuracy(report)
    report.close()


main()
