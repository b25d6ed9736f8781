"""A model's file as ONNX (`evenstep export`): the checker of the ONNX project accepts it, and
onnxruntime gives the outputs that `evenstep evaluate` and NumPy (tests/interop/plain.py) give, for
every preset and for every kind of layer.

onnx and onnxruntime are in an environment of their own (deploy/setup api-tools)."""
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy", reason="python3-numpy is not installed")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import plain  # noqa: E402
from programs import BUILD, LOCAL, ROOT  # noqa: E402

PRESETS = {"mlp": [28, 28, 1], "lenet5": [28, 28, 1], "cifar-quick": [32, 32, 3],
           "tf-cifar": [24, 24, 3], "resnet20": [32, 32, 3], "resnet18": [32, 32, 3]}
SIZES = {"resnet18": (2, 3)}  # minibatch and test samples, of which each costs as ten of others do
EVERY_KIND = {
    "input": [12, 10, 3],
    "layers": [
        {"type": "conv2d", "name": "a", "filters": 6, "kernel": [3, 5], "padding": [1, 2]},
        {"type": "batch_norm", "eps": 0.01}, {"type": "tanh", "name": "b"},
        {"type": "conv2d", "name": "c", "filters": 6, "kernel": 3, "padding": 1, "bias": False,
         "inputs": ["b"]},
        {"type": "leaky_relu", "slope": 0.2, "name": "d"},
        {"type": "add", "inputs": ["b", "d", "a"], "name": "sum"}, {"type": "lrn", "window": 3},
        {"type": "sigmoid", "name": "e"}, {"type": "concat", "inputs": ["e", "c"]},
        {"type": "max_pool", "size": 3, "stride": 2, "padding": 1},
        {"type": "average_pool", "size": [2, 3], "stride": [1, 2], "padding": [1, 1], "name": "p"},
        {"type": "dropout", "rate": 0.3},
        {"type": "global_average_pool", "name": "mean"},
        {"type": "flatten", "inputs": ["p"], "name": "flat"},
        {"type": "dense", "units": 7}, {"type": "batch_norm"}, {"type": "relu", "name": "r"},
        {"type": "concat", "inputs": ["r", "mean"]}, {"type": "dense", "units": 5}]}
WITHOUT_OPERATOR = set()  # layers of which there is none in ONNX
RUN = """
import sys, numpy as np, onnx, onnxruntime
model = onnx.load(sys.argv[1])
onnx.checker.check_model(model, full_check=True)
print(sorted((p.key, p.value) for p in model.metadata_props if p.key != "checksum"))
x = np.load(sys.argv[2])
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
np.save(sys.argv[3], session.run(["output"], {"input": x})[0])
"""


def test_a_network_here_has_every_layer_of_the_catalogue():
    catalog = (ROOT / "job" / "spec" / "catalog.def").read_text()
    layers = set(re.findall(r'^ENTRY\(LAYER, \w+, "(\w+)"', catalog, re.M))
    assert "dense" in layers and layers == set(plain.LAYERS)
    assert layers - WITHOUT_OPERATOR == {layer["type"] for layer in EVERY_KIND["layers"]}


@pytest.fixture(scope="module")
def checker():
    tools = pathlib.Path(os.environ.get("EVENSTEP_API_TOOLS", ROOT / "run/api-tools"))
    python = tools / "bin" / "python"
    if not python.exists() or subprocess.run([python, "-c", "import onnx, onnxruntime"],
                                             capture_output=True).returncode != 0:
        pytest.skip(f"{tools} has no onnx and onnxruntime (deploy/setup api-tools)")
    return python


def trained(folder, model, shape, batch=8, tested=12):
    """The artifact of a short job on noise: parameters and running statistics are no defaults."""
    rng = np.random.default_rng(3)
    (folder / "noise").mkdir()
    for name, n in (("", 4 * batch), ("test_", tested)):
        np.save(folder / "noise" / f"{name}x.npy",
                rng.standard_normal((n, *shape)).astype(np.float32))
        np.save(folder / "noise" / f"{name}y.npy", rng.integers(0, 5, n))
    job = {"name": "onnx", "model": model, "data": {"format": "npy", "path": "noise"},
           "augment": {}, "workers": 1, "epochs": 1, "seed": 2,
           "optimizer": {"type": "sgd", "learning_rate": 0.01}, "batching": {"global_batch": batch}}
    (folder / "job.json").write_text(json.dumps(job))
    done = subprocess.run([BUILD / "evenstep-worker", "--local", folder / "job.json", "--roots",
                           folder, "--out", folder / "out"], env=LOCAL, capture_output=True,
                          text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "out" / "artifacts" / "model.safetensors"


def export(model, *options):
    return subprocess.run([BUILD / "evenstep", "export", model, *options], capture_output=True,
                          text=True, timeout=120, check=False)


@pytest.mark.parametrize("name", [*PRESETS, "every kind of layer"])
def test_others_accept_it_and_compute_the_same(tmp_path, checker, name):
    model = PRESETS.get(name) and name or EVERY_KIND
    shape = PRESETS.get(name) or EVERY_KIND["input"]
    artifact = trained(tmp_path, model, shape, *SIZES.get(name, ()))
    done = export(artifact)
    assert done.returncode == 0, done.stderr
    x = np.load(tmp_path / "noise" / "test_x.npy")
    flat = json.loads(plain.load(artifact)[0]["network"])["input"]
    np.save(tmp_path / "x.npy", x.transpose(0, 3, 1, 2) if len(flat) == 3 else
            x.transpose(0, 3, 1, 2).reshape(len(x), -1))
    run = subprocess.run([checker, "-c", RUN, artifact.with_suffix(".onnx"), tmp_path / "x.npy",
                          tmp_path / "out.npy"], capture_output=True, text=True, timeout=600,
                         check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    meta, tensors = plain.load(artifact)
    meta.pop("checksum")
    assert run.stdout.strip() == str(sorted(meta.items()))
    theirs = np.load(tmp_path / "out.npy")
    ours = plain.forward(json.loads(meta["network"]), tensors, x)
    assert theirs.shape == ours.shape and np.abs(ours).max() > 0.01
    np.testing.assert_allclose(theirs, ours, rtol=2e-4, atol=2e-5)
    subprocess.run([BUILD / "evenstep", "evaluate", artifact, "--data", tmp_path / "noise",
                    "--outputs", tmp_path / "told.npy", "--device", "cpu:1"], check=True,
                   capture_output=True, timeout=600)
    np.testing.assert_allclose(theirs, np.load(tmp_path / "told.npy"), rtol=2e-3, atol=2e-4)


def test_what_cannot_be_exported_says_so(tmp_path):
    even = {"input": [6, 6, 2], "layers": [{"type": "lrn", "window": 4}, {"type": "dense",
                                                                         "units": 5}]}
    done = export(trained(tmp_path, even, [6, 6, 2]), "--to", tmp_path / "x.onnx")
    assert done.returncode != 0 and not (tmp_path / "x.onnx").exists()
    assert "no operator for layer 'lrn1': its window of 4 channels is even" in done.stderr
    (tmp_path / "torn.safetensors").write_bytes(b"\x10\x00")
    for options in ((), ("--json",)):
        done = export(tmp_path / "torn.safetensors", *options)
        assert done.returncode == 1 and done.stdout == ""
        assert done.stderr.startswith("evenstep: cannot ") and "torn.safetensors" in done.stderr


def test_export_names_the_file_that_it_wrote(tmp_path):
    plain = {"input": [3, 3, 1], "layers": [{"type": "flatten"}, {"type": "dense", "units": 5}]}
    model = trained(tmp_path, plain, [3, 3, 1])
    assert export(model).stdout == str(model.with_suffix(".onnx")) + "\n"
    told = json.loads(export(model, "--json", "--to", tmp_path / "x.onnx").stdout)
    assert told == {"file": str(tmp_path / "x.onnx"), "bytes": (tmp_path / "x.onnx").stat().st_size}
