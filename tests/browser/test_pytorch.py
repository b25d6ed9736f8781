"""The lines that load a trained model in PyTorch, as the job's page shows them: PyTorch runs them
where it is there, and gives the same outputs as the worker's own program."""

import os
import re
import subprocess

import numpy as np
import pytest

from programs import AT_ROOT, BUILD, ROOT, python_with
from service import Service, spec

CHAIN = {
    "input": [8, 8, 2],
    "layers": [
        {"type": "conv2d", "filters": 4, "kernel": 3, "padding": 1},
        {"type": "tanh"},
        {"type": "max_pool", "size": 2},
        {"type": "lrn", "window": 3, "alpha": 0.01},
        {"type": "dropout", "rate": 0.2},
        {"type": "dense", "units": 6},
        {"type": "sigmoid"},
        {"type": "dense", "units": 3, "bias": False},
    ],
}
GRAPH = {
    "input": [8, 8, 2],
    "layers": [
        {"type": "conv2d", "name": "stem.conv", "filters": 4, "kernel": 3, "padding": 1,
         "bias": False},
        {"type": "batch_norm", "name": "stem.bn"},
        {"type": "relu", "name": "stem.out"},
        {"type": "conv2d", "name": "side.0", "inputs": ["stem.out"], "filters": 4, "kernel": [3, 1],
         "padding": [1, 0]},
        {"type": "add", "name": "sum", "inputs": ["side.0", "stem.out"]},
        {"type": "leaky_relu", "name": "leaky", "inputs": ["sum"], "slope": 0.2},
        {"type": "concat", "name": "both", "inputs": ["leaky", "input"]},
        {"type": "average_pool", "name": "half", "inputs": ["both"], "size": 3, "stride": 2,
         "padding": 1},
        {"type": "global_average_pool", "name": "mean"},
        {"type": "flatten", "name": "flat", "inputs": ["half"]},
        {"type": "concat", "name": "all", "inputs": ["mean", "flat"]},
        {"type": "dense", "name": "fc", "units": 3},
    ],
}


def test_a_network_here_has_every_layer_of_the_catalogue():
    catalog = (ROOT / "job" / "spec" / "catalog.def").read_text()
    layers = set(re.findall(r'^ENTRY\(LAYER, \w+, "(\w+)"', catalog, re.M))
    here = {layer["type"] for network in (CHAIN, GRAPH) for layer in network["layers"]}
    assert "dense" in layers and layers == here


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "small"
    folder.mkdir()
    random = np.random.default_rng(1)
    for part, n in (("", 64), ("test_", 20)):
        np.save(folder / f"{part}x.npy", random.normal(size=(n, 8, 8, 2)).astype("f4"))
        np.save(folder / f"{part}y.npy", random.integers(0, 3, n).astype("i4"))
    return folder


@pytest.fixture(scope="module")
def service(data):
    with Service(nodes=("a=cpu:1", "b=cpu:1"), data=data.parent) as s:
        yield s


def trained(service, network):
    id = service.submit(
        spec(model=network, data={"format": "npy", "path": "small"},
             batching={"global_batch": 16, "policy": "equal"})
    )
    service.wait(id, "succeeded")
    return id


def lines_of(page, id):
    page.open_job(id)
    page.script("document.getElementById('artifacts').open = true")
    page.wait_text("#pytorch", "load_state_dict")
    return page.script("return document.querySelector('#pytorch pre').textContent")


def test_the_lines_fit_the_network_and_are_copied(page, service):
    text = lines_of(page, trained(service, CHAIN))
    conv = '("conv1", nn.Conv2d(2, 4, (3, 3), (1, 1), (1, 1), bias=True))'
    assert conv in text
    assert "bias=False" in text and '"model.safetensors"' in text
    assert "[samples, 2, 8, 8]" in text and "one row of 3 outputs" in text
    compile(text, "lines", "exec")


@pytest.mark.parametrize("network", [CHAIN, GRAPH], ids=["chain", "graph"])
def test_pytorch_runs_the_lines_and_gives_the_same_outputs(page, service, data, tmp_path, network):
    python = python_with("torch", "numpy")
    id = trained(service, network)
    text = lines_of(page, id)
    (tmp_path / "model.safetensors").write_bytes(service.artifact(id))
    compare = """
import numpy
x = torch.tensor(numpy.load("x.npy").transpose(0, 3, 1, 2).copy())
with torch.no_grad():
    ours, theirs = numpy.load("outputs.npy"), net(x).numpy()
assert ours.shape == theirs.shape == (20, 3) and numpy.ptp(ours) > 1e-3
assert numpy.abs(ours - theirs).max() < 1e-4, numpy.abs(ours - theirs).max()
"""
    (tmp_path / "lines.py").write_text(text + compare)
    (tmp_path / "x.npy").write_bytes((data / "test_x.npy").read_bytes())
    evaluate = [BUILD / "evenstep-worker", "--evaluate", "model.safetensors", "--data-set", data,
                "--outputs", "outputs.npy"]
    for command in (evaluate, [python, "lines.py"]):
        done = subprocess.run(list(map(str, command)), cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, **AT_ROOT})
        assert done.returncode == 0, done.stdout + done.stderr
