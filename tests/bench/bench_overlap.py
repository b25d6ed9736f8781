"""bench-overlap: how much of an exchange over links of 1 Gbit/s is hidden behind computing. Every
rank is a host of its own (tests/lab/netns.py).

A step's computing lasts a time that is set (tests/bench/bench_overlap.c): the all-reduce alone is
measured first, then steps are made one or two times as long. What an exchange costs is how much
longer the median step is than in a job of one worker, which each rank runs at the same time with
the same minibatch and the same pace: loading, updating and telling the rows are in both. What can
be hidden is the all-reduce alone, but no more than the computing that is left when the first
gradients can leave; for `hpsgd`, whose reduction begins with the step, than the step's computing.
Where kernels leave no core idle, what the exchange itself takes of a core cannot be hidden either:
it is measured with the all-reduce alone.

Ranks run with real-time priority, so that other programs of the machine disturb little; among
themselves they take turns of a millisecond (for as long as the bench runs: usually it is 100, in
which a rank's exchange waits for another's kernels)."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from bench import AT_ROOT, BUILD, TURNS, Report, median, spread
from netns import Network, reason_against
from rowtable import printed

STEPS, WARM, BATCH, BUSY_BATCH = 24, 5, 8, 128
STRATEGIES = {"sync": {"type": "sync"}, "hpsgd": {"type": "hpsgd", "k": 1}}
ENVIRONMENT = {**os.environ, **AT_ROOT, "OMP_WAIT_POLICY": "passive"}


@contextlib.contextmanager
def short_turns(file=pathlib.Path("/proc/sys/kernel/sched_rr_timeslice_ms")):
    before = file.read_text()
    file.write_text("1")
    try:
        yield
    finally:
        file.write_text(before)


class Rack:
    """Hosts for W workers and the keeper; their links' rate is that of every message between two of
    them."""

    def __init__(self, workers, folder):
        self.workers, self.folder = workers, folder
        self.network = Network(*(f"w{i}" for i in range(workers)), "keeper", rate="1gbit")
        self.hosts = list(self.network.hosts.values())
        # the congestion control that Linux has by default, whatever this machine prefers
        for h in self.hosts:
            h.run("ip", "route", "replace", h.network, "dev", "eth0", "proto", "kernel", "scope",
                  "link", "src", h.address, "congctl", "cubic")
        cases = "\n".join(f"{h.address}) name={h.name} net={h.path};;" for h in self.hosts)
        self.agent = folder / "launch"
        self.agent.write_text(
            f'#!/bin/sh\ncase $1 in\n{cases}\nesac\nshift\nexec nsenter --net=$net unshare --uts '
            'sh -c "hostname $name; exec $*"\n')
        self.agent.chmod(0o755)

    def start(self, hosts, seconds, spec):
        """The program with a worker on each host but the last, which keeps. One host has both."""
        file = self.folder / f"{hosts[0].name}-{spec['workers']}.json"
        file.write_text(json.dumps(spec))
        ranks, places = (2, f"{hosts[0].address}:2") if len(hosts) == 1 else (
            len(hosts), ",".join(f"{h.address}:1" for h in hosts))
        net = hosts[0].network
        line = ["mpirun", "--oversubscribe", "--bind-to", "none", "--map-by", "node", "-H", places,
                "--mca", "plm_rsh_agent", self.agent, "--mca", "oob_tcp_if_include", net, "--mca",
                "btl_tcp_if_include", net, "--mca", "mpi_yield_when_idle", "1", "-x",
                "OMP_WAIT_POLICY", "-np", ranks, BUILD / "tests/bench/bench_overlap",
                f"{seconds:.6f}", "--local", file]
        command = hosts[0].command("chrt", "-r", "5", "unshare", "--uts", "sh", "-c",
                                   f"hostname {hosts[0].name}; exec {' '.join(map(str, line))}")
        return subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def close(self):
        self.network.close()


def read(process):
    """The median step of rank 0, and what else rank 0 says."""
    out, errors = process.communicate(timeout=300)
    lines = [line.split(",") for line in out.splitlines()]
    times = [row["time"] for row in printed(lines) if row["rank"] == 0]
    if process.returncode or len(times) < STEPS:
        raise RuntimeError(
            f"{' '.join(map(str, process.args))} ended with code "
            f"{process.returncode}:\n{out[-500:]}\n{errors[-2000:]}")
    return {"step": median([b - a for a, b in zip(times[WARM:], times[WARM + 1:])]),
            **{f[0]: float(f[1]) for f in lines if f[0] in ("alone", "cpu", "first")}}


def job(strategy, workers, batch):
    return {"name": "overlap", "model": "lenet5",
            "data": {"format": "glyphs", "samples": STEPS * workers * batch, "test_samples": 16},
            "strategy": strategy, "workers": workers, "epochs": 1, "seed": 1,
            "optimizer": {"type": "sgd", "learning_rate": 0.001},
            "batching": {"global_batch": workers * batch, "policy": "equal"},
            "evaluate": {"every_epochs": 100}}


def turn(rack, strategy, seconds, batch):
    """A run with the exchange, and one of each rank by itself."""
    with_it = read(rack.start(rack.hosts, seconds, job(strategy, rack.workers, batch)))
    apart = [rack.start([h], seconds, job(strategy, 1, batch)) for h in rack.hosts[:-1]]
    without = max(read(p)["step"] for p in apart)
    computing = seconds or without
    most = min(with_it["alone"] - (0 if seconds else with_it["cpu"]),
               computing * (1 if strategy["type"] == "hpsgd" else 1 - with_it["first"]))
    exposed = with_it["step"] - without
    return {**with_it, "computing": computing, "exposed": exposed, "most": most,
            "hidden": (with_it["alone"] - exposed) / most}


def rows(workers, folder):
    rack = Rack(workers, folder)
    try:
        alone = read(rack.start(rack.hosts, 0, job(STRATEGIES["sync"], workers, BATCH)))["alone"]
        cases = [(name, share, alone / share, BATCH) for share in (0.5, 1) for name in STRATEGIES]
        cases += [(name, "kernels alone", 0, BUSY_BATCH) for name in STRATEGIES
                  if workers <= (os.cpu_count() or 1)]
        for name, share, seconds, batch in cases:
            turns = [turn(rack, STRATEGIES[name], seconds, batch) for _ in range(TURNS)]
            ms = {k: 1000 * median([t[k] for t in turns])
                  for k in ("alone", "cpu", "computing", "step", "most")}
            yield [workers, name, share, f"{ms['computing']:.1f}", f"{ms['alone']:.1f}",
                   f"{ms['cpu']:.1f}", f"{ms['most']:.1f}", f"{ms['step']:.1f}",
                   spread([1000 * t["exposed"] for t in turns], "{:.1f}"),
                   spread([t["hidden"] for t in turns])]
    finally:
        rack.close()


def main():
    why = reason_against()
    if why:
        sys.exit(f"bench-overlap: {why}")
    report = Report("bench-overlap", "Communication hidden behind computing",
                    "`lenet5` (1.66 M parameters, two buckets: the first can leave when 0.43 of "
                    "the work is done) on hosts that are network namespaces with links of 1 "
                    "Gbit/s (tbf, burst 256 kB; TCP, cubic), a rank each. A step's computing is "
                    "its kernels and then sleep, so that ranks that outnumber the cores overlap "
                    "as on hosts of their own; `kernels alone` is without sleep, every core busy "
                    "with a rank's kernels, so that what an all-reduce takes of a core cannot be "
                    "hidden. Exposed: the median step beyond that of a job of one worker with the "
                    "same minibatch and pace, which all ranks run side by side. Hidden: "
                    "(all-reduce alone - exposed) / what can be hidden; 1 is all of it. Ranks "
                    "have real-time priority against the rest of the machine, and turns of 1 ms "
                    "among themselves.")
    with short_turns(), tempfile.TemporaryDirectory(prefix="evenstep-bench-") as folder:
        report.table("Over links of 1 Gbit/s, times in ms",
                     ["ranks", "strategy", "communication / computing", "computing",
                      "all-reduce alone", "of a core", "can be hidden", "step", "exposed",
                      "hidden"],
                     (row for workers in (2, 4) for row in rows(workers, pathlib.Path(folder))))
    report.close()


main()
