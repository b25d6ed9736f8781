"""Evenstep without a service, for comparisons with other programs: a data set of any shape, a job
under mpirun, a file's outputs."""
import json
import pathlib
import subprocess
import sys

import numpy as np

import plain

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from programs import BUILD, LOCAL  # noqa: E402

# the presets and what they take
PRESETS = {"mlp": (28, 28, 1), "lenet5": (28, 28, 1), "cifar-quick": (32, 32, 3),
           "tf-cifar": (32, 32, 3), "resnet20": (32, 32, 3), "resnet18": (32, 32, 3)}


def put_data(folder, shape, train, test, seed=1):
    """x.npy … of random bytes; returns (training pictures, labels, test pictures, labels)."""
    rng = np.random.default_rng(seed)
    out = []
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, n in (("", train), ("test_", test)):
        x, y = rng.integers(0, 256, (n, *shape), np.uint8), rng.integers(0, 10, n)
        np.save(folder / (prefix + "x.npy"), x)
        np.save(folder / (prefix + "y.npy"), y)
        out += [x, y]
    return out


def job(preset, batch, **changes):
    return {"model": preset,
            "data": {"format": "npy", "path": "data",
                     "normalize": {"mean": [0.5], "deviation": [0.25]}}, "workers": 1, "epochs": 1,
            "optimizer": {"type": "sgd", "learning_rate": 0.01, "momentum": 0.9},
            "batching": {"global_batch": batch}, "seed": 3, **changes}


def train(folder, name, job, timeout=600):
    """Runs the job on folder/data; the path of its artifact."""
    (folder / f"{name}.json").write_text(json.dumps(job))
    done = subprocess.run([BUILD / "evenstep-worker", "--local", folder / f"{name}.json", "--roots",
                           folder, "--out", folder / name], env=LOCAL, capture_output=True,
                          text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return folder / name / "artifacts" / "model.safetensors"


def outputs(folder, model, spec=None, timeout=600, batch=8):
    """(answer, outputs) of a model's file on the test samples of folder/data."""
    more = ["--spec", folder / f"{spec}.json"] if spec else []
    done = subprocess.run([BUILD / "evenstep-worker", "--evaluate", model, "--roots", folder,
                           "--batch", str(batch), "--outputs", folder / "outputs.npy", *more],
                          env=LOCAL, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout), np.load(folder / "outputs.npy")


def close(a, b, tolerance=1e-4):
    """The largest difference, relative to the largest value where that is above 1; fails above
    `tolerance`."""
    difference = float(np.abs(a - b).max() / max(1, np.abs(a).max()))
    assert difference < tolerance, f"they differ by {difference:.2g}"
    return difference


def redrawn(tensors, seed=5):
    """Other parameters of the same names and shapes, of a size that keeps activations in range."""
    rng = np.random.default_rng(seed)
    out = {}
    for name, t in tensors.items():
        if name.endswith("running_var"):
            out[name] = rng.uniform(0.5, 2, t.shape)
        elif name.endswith("running_mean") or name.endswith("bias"):
            out[name] = rng.normal(0, 0.1, t.shape)
        elif t.ndim == 1:
            out[name] = rng.uniform(0.5, 1.5, t.shape)
        else:
            out[name] = rng.normal(0, np.sqrt(2 / np.prod(t.shape[1:])), t.shape)
    return {k: v.astype(np.float32) for k, v in out.items()}


def evaluate_plain(path, x):
    """What NumPy makes of the file."""
    meta, tensors = plain.load(path)
    return plain.forward(json.loads(meta["network"]), tensors, plain.normalise(x, meta), 8)
