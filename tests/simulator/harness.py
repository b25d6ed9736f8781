"""Cases for evenstep-simulate: writes job, cluster, npy data and init into a folder, runs the
program, reads what it left.

The data are small (5 inputs, 4 classes) and either one sample over and over, so that the order of
samples does not matter, or different ones visited in file order. Cases
have no two events at one instant: no rule says which of them comes first."""
import json
import os
import struct
import subprocess

import numpy as np

import reference
import rowtable

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("EVENSTEP_BUILD") or os.path.join(ROOT, os.environ.get("BUILD", "build"))
PROGRAM = os.path.join(BUILD, "evenstep-simulate")
CASES = os.path.join(os.path.dirname(ROOT), "shared", "cases")


def read_safetensors(path):
    blob = open(path, "rb").read()
    n = struct.unpack("<Q", blob[:8])[0]
    out = {}
    for name, t in json.loads(blob[8:8 + n]).items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            out[name] = np.frombuffer(blob[8 + n + a:8 + n + b], "<f4").reshape(t["shape"])
    return out


def write_safetensors(path, tensors):
    head, body = {}, b""
    for name, t in tensors.items():
        raw = np.ascontiguousarray(t, dtype="<f4").tobytes()
        head[name] = {"dtype": "F32", "shape": list(t.shape),
                      "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def merge(base, change):
    """`change` into a copy of `base`, objects one level down by key."""
    out = dict(base)
    for key, value in change.items():
        out[key] = {**out[key], **value} if isinstance(value, dict) and isinstance(
            out.get(key), dict) else value
    return out


def nodes(*seconds, per_sample=0.05, jitter=None):
    """Nodes whose step takes seconds[i] with a minibatch of 16."""
    extra = {} if jitter is None else {"jitter": jitter}
    return [{"name": f"n{i + 1}", "fixed_seconds": round(t - 16 * per_sample, 9),
             "seconds_per_sample": per_sample, **extra} for i, t in enumerate(seconds)]


UNEQUAL = {"seed": 7, "nodes": nodes(1.0, 1.3717, 2.1139, 4.0351)}


def make_data(samples, same=True, seed=3):
    r = np.random.RandomState(seed)
    x = r.randint(0, 256, size=(samples, 5)).astype(np.uint8)
    y = np.argmax(x[:, :4], axis=1).astype(np.int64)
    if same:
        x[:], y[:] = x[0], 2
    return {"x": x, "y": y}


def make_init(inputs=5, hidden=4, outputs=4, seed=11):
    r = np.random.RandomState(seed)
    return {"hidden.weight": r.normal(0, 0.6, (hidden, inputs)),
            "hidden.bias": np.abs(r.normal(0.3, 0.1, hidden)),
            "out.weight": r.normal(0, 0.6, (outputs, hidden)),
            "out.bias": r.normal(0, 0.1, outputs)}


class Case:
    """A job on a cluster with its data. strategy and changes are merged into a plain job of 4
    workers with B = 64."""

    def __init__(self, folder, strategy, cluster=UNEQUAL, same=True, steps=60, init=None,
                 **changes):
        self.folder, self.cluster = str(folder), cluster
        base = {"name": "case",
                "model": {"input": [5],
                          "layers": [{"type": "dense", "name": "hidden", "units": 4},
                                     {"type": "relu"},
                                     {"type": "dense", "name": "out", "units": 4}]},
                "data": {"format": "npy", "path": "data", "shuffle": False},
                "optimizer": {"type": "sgd", "learning_rate": 0.2}, "strategy": strategy,
                "batching": {"global_batch": 64, "policy": "equal"}, "workers": 4, "epochs": 1,
                "seed": 1, "init": "init.safetensors"}
        self.job = merge(base, changes)
        samples = self.job.pop("samples", None) or self.job["batching"]["global_batch"] * steps
        self.data, self.init = make_data(samples, same), make_init() if init is None else init
        self.init = {k: np.asarray(v, dtype=np.float32) for k, v in self.init.items()}
        os.makedirs(os.path.join(self.folder, "data"), exist_ok=True)
        for name, array in {**self.data, "test_x": self.data["x"][:8],
                            "test_y": self.data["y"][:8]}.items():
            np.save(os.path.join(self.folder, "data", name + ".npy"), array)
        write_safetensors(os.path.join(self.folder, "init.safetensors"), self.init)
        self.write()

    def write(self):
        for name, value in (("job", self.job), ("cluster", self.cluster)):
            with open(os.path.join(self.folder, name + ".json"), "w") as f:
                json.dump(value, f, indent=1)

    def reference(self):
        return reference.simulate(self.job, self.cluster, self.data, self.init)

    def run(self, out="run", *options, check=True):
        return Run(self, os.path.join(self.folder, out), options, check)


def simulate(folder, *options, out="run"):
    return subprocess.run([PROGRAM, "--job", "job.json", "--cluster", "cluster.json", "--out", out,
                           *options], cwd=folder, env={**os.environ, "EVENSTEP_DATA": str(folder)},
                          capture_output=True, text=True, timeout=120)


class Run:
    """What a run left: summary, model, rows."""

    def __init__(self, case, out, options=(), check=True):
        self.case, self.out = case, out
        self.process = simulate(case.folder, *options, out=out)
        if check:
            assert self.process.returncode == 0, self.process.stderr
        if self.process.returncode == 0:
            self.summary = json.load(open(os.path.join(out, "summary.json")))

    def params(self):
        tensors = read_safetensors(os.path.join(self.out, "model.safetensors"))
        return reference.Network(*self.shape()).join(tensors)

    def shape(self):
        return self.case.init["hidden.weight"].shape[1], self.case.init["hidden.bias"].shape[
            0], self.case.init["out.bias"].shape[0]

    def rows(self, rank):
        """The worker's rows; the file begins with nothing but rows."""
        return np.fromfile(os.path.join(self.out, "history", f"rows-{rank}.bin"),
                           dtype=rowtable.dtype())

    def all_rows(self):
        """In the order of their updates."""
        rows = np.concatenate([self.rows(i) for i in range(self.case.job["workers"])])
        return rows[np.lexsort((rows["rank"], rows["time"], rows["step"]))]

    def files(self):
        """Everything but checkpoints, by name: what a rerun must repeat to the byte."""
        found = {}
        for folder, _, names in os.walk(self.out):
            for name in names:
                path = os.path.join(folder, name)
                found[os.path.relpath(path, self.out)] = open(path, "rb").read()
        return found


def moved(case, got, want):
    """Largest difference, relative to how far the parameters moved from init."""
    init = reference.Network(case.init["hidden.weight"].shape[1], case.init["hidden.bias"].shape[0],
                             case.init["out.bias"].shape[0]).join(case.init)
    return np.abs(got - want).max() / np.abs(want - init).max()


def trim(h):
    h = list(h)
    while h and h[-1] == 0:
        h.pop()
    return h


def compare(case, tolerance=1e-4, seconds=1e-6, run=None):
    """Runs the case and the reference; returns both and a list of what differs."""
    want, run = case.reference(), run or case.run()
    s, wrong = run.summary, []
    off = moved(case, run.params(), want.params)
    if not off <= tolerance:
        wrong.append(f"parameters differ by {off:.3g} of their way")
    if s["updates"] != want.updates:
        wrong.append(f"{s['updates']} updates for {want.updates}")
    if not abs(s["virtual_seconds"] - want.seconds) <= seconds * want.seconds:
        wrong.append(f"{s['virtual_seconds']} virtual seconds for {want.seconds}")
    for w, h in zip(s["workers"], want.histograms):
        if trim(w["staleness"]["histogram"]) != trim(h):
            wrong.append(f"{w['node']}: staleness {w['staleness']['histogram']} for {h}")
    for key, value in want.staleness().items():
        if not abs(s["staleness"][key] - value) <= 1e-9 * max(1, value):
            wrong.append(f"staleness {key} {s['staleness'][key]} for {value}")
    return want, run, wrong
