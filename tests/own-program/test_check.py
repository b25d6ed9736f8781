"""`evenstep run --check` of programs with PyTorch and Keras: one that several nodes train as one
does, and losses that are another one on each node, which nothing else says."""

import json
import os
import shutil

import pytest

from command import ended, run  # noqa: F401
from conftest import python_with
from service import Service

STRANGERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "strangers")
LOSS = "loss = F.cross_entropy(model(x[rows]), y[rows])"
OF_THE_LARGEST = """each = F.cross_entropy(model(x[rows]), y[rows], reduction="none")
        weight = rows % 7 + 1.0
        loss = (each * weight / weight.max()).mean()"""


@pytest.fixture(scope="module")
def service():
    nodes = ["a=cpu:1", "b=cpu:1", "c=cpu:1"]
    with Service(nodes=nodes, options=["--allow-programs"]) as s:
        yield s


def checked(service, python, path, *args, backend="torch"):
    options = ["--check", "--json", "--python", python, "--env", "KERAS_BACKEND=" + backend]
    out, err, status = run(*options, path, *map(str, args), service=service)
    return json.loads(out), status, err


@pytest.mark.parametrize("name, packages", [("sliced", ["torch"]),
                                            ("keras_sequential", ["keras", "torch"])])
def test_several_nodes_train_as_one_does(service, tmp_path, name, packages):
    shutil.copy(os.path.join(STRANGERS, name + ".py"), tmp_path)
    told, status, err = checked(service, python_with(*packages), tmp_path / (name + ".py"))
    assert (told["same"], status) == (True, 0), err


def test_what_the_program_was_told_stands_beside_the_difference(service, tmp_path):
    """And not among the lines of the first two jobs alone."""
    with open(os.path.join(STRANGERS, "sliced.py"), encoding="utf-8") as f:
        text = f.read()
    compares = "out = model(x[rows]); loss = F.cross_entropy(out - out.mean(0), y[rows])"
    (tmp_path / "centered.py").write_text(text.replace(LOSS, compares))
    told, status, err = checked(service, python_with("torch"), tmp_path / "centered.py")
    assert (told["same"], status) == (False, 1)
    assert [t for t in told["told"] if t.startswith("the loss compares the samples of a batch")]
    assert "what the program was told says why" in err


def test_a_weight_over_the_largest_of_the_batch_trains_another_model(service, tmp_path):
    with open(os.path.join(STRANGERS, "sliced.py"), encoding="utf-8") as f:
        text = f.read()
    assert LOSS in text
    (tmp_path / "largest.py").write_text(text.replace(LOSS, OF_THE_LARGEST))
    told, status, err = checked(service, python_with("torch"), tmp_path / "largest.py")
    assert (told["same"], status) == (False, 1) and "not the same" in err
    assert told["largest"][0]["difference"] > 1e-4 and told["rounding"] < 1e-6


ATTENTION = """import torch
import evenstep
torch.manual_seed(0)
attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
torch.nn.init.normal_(attention.in_proj_bias)
loader = torch.utils.data.DataLoader(torch.randn(96, 5, 8), batch_size=24)
opt = torch.optim.Adam(attention.parameters(), lr=1e-3)
attention, opt, loader = evenstep.prepare(attention, opt, loader)
for epoch in evenstep.epochs(3):
    for x in loader:
        opt.zero_grad()
        (attention(x, x, x)[0] - x.flip(2)).square().mean().backward()
        opt.step()
"""


def test_what_rounding_alone_makes_of_a_program_is_no_other_model(service, tmp_path):
    """A bias of attention's keys has no gradient but rounding's, of which Adam makes steps."""
    (tmp_path / "attention.py").write_text(ATTENTION)
    told, status, err = checked(service, python_with("torch"), tmp_path / "attention.py")
    bias = next(t for t in told["largest"] if t["name"] == "in_proj_bias")
    assert bias["difference"] > 1e-5 and bias["rounding"] > 1e-5
    assert (told["same"], status) == (True, 0) and len(told["jobs"]) == 3, err


HALF = """import sys
import torch
import evenstep
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.Tanh(), torch.nn.Linear(30, 3))
data = torch.utils.data.TensorDataset(torch.randn(192, 40), torch.randint(0, 3, (192,)))
loader = torch.utils.data.DataLoader(data, batch_size=24)
opt = torch.optim.SGD(model.parameters(), lr=float(sys.argv[1]), momentum=0.9)
model, opt, loader = evenstep.prepare(model, opt, loader)
for epoch in evenstep.epochs(1):
    for x, y in loader:
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
"""


def test_each_node_of_half_precision_rounds_its_own_gradients(service, tmp_path):
    """So does the job that tells what rounding makes; where that is much, nobody can tell more."""
    path = tmp_path / "half.py"
    path.write_text(HALF)
    told, status, err = checked(service, python_with("torch"), path, 0.01)
    worst = told["largest"][0]
    assert worst["difference"] > 1e-5 and 0.2 < worst["difference"] / worst["rounding"] < 5
    assert (told["same"], status) == (True, 0), err
    told, status, err = checked(service, python_with("torch"), path, 0.5)
    assert (told["same"], status) == (False, 1) and "cannot tell whether" in err


KERAS_HALF = """import sys
import keras
import numpy as np
import evenstep
keras.utils.set_random_seed(1)
keras.mixed_precision.set_global_policy(sys.argv[1])
rng = np.random.default_rng(0)
x, truth = rng.normal(size=(960, 20)).astype("float32"), rng.normal(size=(20, 4))
layers = [keras.layers.Input((20,)), keras.layers.Dense(32, activation="relu"),
          keras.layers.Dense(4, dtype="float32")]
model = keras.Sequential(layers)
model.compile(keras.optimizers.SGD(0.05, momentum=0.9),
              keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model = evenstep.keras.prepare(model)
model.fit(x, (x @ truth).argmax(1), batch_size=32, epochs=2, verbose=0)
"""


@pytest.mark.parametrize("backend, policy", [("tensorflow", "mixed_bfloat16"),
                                             ("torch", "mixed_bfloat16"),
                                             ("tensorflow", "mixed_float16")])
def test_so_does_each_node_of_a_keras_model(service, tmp_path, backend, policy):
    path = tmp_path / "half.py"
    path.write_text(KERAS_HALF)
    told, status, err = checked(service, python_with("keras", backend), path, policy,
                                backend=backend)
    worst = told["largest"][0]
    assert worst["difference"] > 1e-5 and 0.1 < worst["difference"] / worst["rounding"] < 10
    assert told["same"] or "cannot tell whether" in err, err
