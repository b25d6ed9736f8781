"""Whether a run that another build made is what this build would make.

A proof is the digest of what a short run leaves: 640 samples of the same set, the same network and
strategy, minibatches by the same policy, on four unequal nodes in two groups. The same digest means
that the rule's code and the bits of the kernels are the same. Kernels differ between processors and
versions of oneDNN, so a proof belongs to a *platform*, and a build can only make those of its own.
proofs.json remembers the proofs of all platforms. When a rule's proof changes here, those of other
platforms are struck out: the rule has changed, and their runs are from before.
"""
import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import re
import subprocess

import datasets
import simulator

NODES = [{"name": f"n{i}", "fixed_seconds": 0.002 / v, "seconds_per_sample": 0.001 / v,
          "jitter": 0.02} for i, v in enumerate((1, 1, 0.5, 0.25))]
CLUSTER = {"seed": 1, "nodes": NODES, "links": {"latency_seconds": 1e-4, "bytes_per_second": 1e8},
           "groups": [["n0", "n1"], ["n2", "n3"]]}


SORTED = {"indent": 1, "sort_keys": True}  # a line each, so that commits show what changed


def digest(what):
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def onednn_version(program):
    class Version(ctypes.Structure):
        _fields_ = [(name, ctypes.c_int) for name in ("major", "minor", "patch")]

    linked = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    library = ctypes.CDLL(re.search(r"libdnnl\S* => (\S+)", linked).group(1))
    library.dnnl_version.restype = ctypes.POINTER(Version)
    v = library.dnnl_version().contents
    return f"{v.major}.{v.minor}.{v.patch}"


def platform(program):
    """What the bits of kernels depend on: the processor's widest instructions, oneDNN's version."""
    with open("/proc/cpuinfo") as f:
        flags = set(re.search(r"^flags\s*:(.*)$", f.read(), re.M).group(1).split())
    isa = next((i for i in ("avx512_bf16", "avx512f", "avx2", "sse4_1") if i in flags), "unknown")
    return f"{isa}, oneDNN {onednn_version(program)}"


def of_files(out, summary):
    whole = hashlib.sha256(json.dumps(summary["virtual_seconds"]).encode())
    for name in ("model.safetensors", "history/evaluations.bin"):
        with open(os.path.join(out, name), "rb") as f:
            whole.update(f.read())
    return {"proof": whole.hexdigest()[:16]}


def bounded(strategy):
    """The strategy on four workers: n and c may not be above their number."""
    return {k: min(v, 4) if k in ("n", "c") else v for k, v in strategy.items()}


def write(path, what, **form):
    """The JSON file is there whole or not at all."""
    with open(path + ".part", "w") as f:
        json.dump(what, f, **form)
        f.write("\n")
    os.replace(path + ".part", path)


def read(path):
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return json.load(f)


@contextlib.contextmanager
def locked(folder):
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


class Proofs:
    """known: rule → platform → proof, in `path`. mine: rule → proof of this very program; those
    that it made before are in its work folder."""

    def __init__(self, sim, path):
        self.sim, self.path, self.known = sim, path, read(path)
        self.platform = platform(simulator.program())
        with open(simulator.program(), "rb") as f:
            build = hashlib.sha256(f.read()).hexdigest()[:16]
        self.kept = os.path.join(sim.work, f"proofs-{build}.json")
        self.mine = read(self.kept)

    def of(self, case):
        """(rule, its proof) of a case under this program; runs once for each rule."""
        job = case["job"]
        short = {"name": "proof", "model": job["model"], "workers": 4, "epochs": 1, "seed": 1,
                 "data": datasets.cut(case["data"], 640, 64, "final", self.sim.roots),
                 "strategy": bounded(job["strategy"]),
                 "optimizer": {**job["optimizer"], "learning_rate": 0.05},
                 "batching": {"global_batch": 32, "policy": job["batching"]["policy"]}}
        rule = digest(short)
        if rule not in self.mine:
            result = self.sim.run(short, CLUSTER, of_files)
            self.mine[rule] = result.get("proof", "diverged")
            write(self.kept, self.mine, **SORTED)
        self.remember(rule)
        return rule, self.mine[rule]

    def remember(self, rule):
        if self.known.get(rule, {}).get(self.platform) == self.mine[rule]:
            return
        with locked(os.path.dirname(self.path)):  # others may add theirs at the same time
            self.known = read(self.path)
            before = self.known.get(rule, {})
            if before.get(self.platform) != self.mine[rule]:
                others = {} if self.platform in before else before
                self.known[rule] = {**others, self.platform: self.mine[rule]}
                write(self.path, self.known, **SORTED)

    def holds(self, case, build):
        """Whether a run that `build` made is still what the code makes."""
        rule, mine = self.of(case)
        if build["platform"] == self.platform:
            return build["proof"] == mine
        return build["proof"] == self.known.get(rule, {}).get(build["platform"])
