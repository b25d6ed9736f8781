"""The same network as a job of ours and as a user's program: with the same first parameters,
samples and order of gradients each strategy takes both along the same way, within rounding (oneDNN
and NumPy add in another order)."""
import json
import pathlib
import sys

import numpy as np
import pytest

from programs import ROOT
from service import spec
from test_init import Done
from test_program import name_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
sys.path.insert(0, str(ROOT / "tests/program"))
import plain  # noqa: E402
from network import BATCH, RATE, SHAPES  # noqa: E402

MODEL = {"input": [8], "layers": [{"type": "dense", "units": 16, "name": "fc1"}, {"type": "relu"},
                                  {"type": "dense", "units": 4, "name": "fc2"}]}
SIZES, SAMPLES, ROUNDS = (28, 20, 16), 640, 8
TOGETHER = [({"type": "sync"}, 0.9), ({"type": "local-sgd", "k": 3}, 0),
            ({"type": "hier-sgd", "k1": 1, "k2": 3}, 0), ({"type": "hpsgd", "k": 2}, 0)]
SERVED = [({"type": "asgd"}, 0.5), ({"type": "asgd", "servers": 2}, 0.5),
          ({"type": "softsync", "n": 1, "pull": "blocking"}, 0.5),
          ({"type": "softsync", "n": 3, "rate": "tau"}, 0.5), ({"type": "ssp", "s": 1}, 0.5),
          ({"type": "dc-asgd"}, 0.5),
          ({"type": "dc-asgd", "adaptive": True, "lambda": 2.0}, 0.5), ({"type": "dc-asgdk"}, 0),
          ({"type": "ddc-asgd"}, 0), ({"type": "dbs-sgd", "c": 2}, 0.5)]


def names(value):
    return name_of(value) if isinstance(value, dict) else str(value)


def place(folder, samples_alike):
    """Data and first parameters. samples_alike: four samples over and over, so that it does not
    matter which of the slices of whole fours a worker gets."""
    rng = np.random.RandomState(3)
    x = rng.normal(size=(4 if samples_alike else SAMPLES, 8)).astype("f4")
    y = (x @ rng.normal(size=(8, 4))).argmax(1).astype("i8")
    x, y = (np.tile(a, (SAMPLES // len(a),) + (1,) * (a.ndim - 1)) for a in (x, y))
    first = {name: rng.normal(scale=0.4, size=shape).astype("f4") for name, shape in SHAPES.items()}
    for prefix in ("", "test_"):
        np.save(folder / (prefix + "x.npy"), x)
        np.save(folder / (prefix + "y.npy"), y)
    np.savez(folder / "first.npz", **first)
    plain.save(folder / "first.safetensors", first)


def both(tmp_path, strategy, momentum, order):
    """The job of ours, and the program: (rows, parameters) of each."""
    data = tmp_path / "data"
    data.mkdir()
    place(data, order is not None)
    (tmp_path / "order.json").write_text(json.dumps(order))
    options = ["--order", str(tmp_path / "order.json")] if order else []
    common = {"workers": len(SIZES), "strategy": strategy,
              "batching": {"policy": "static", "sizes": list(SIZES), "global_batch": BATCH},
              "seed": 7, "epochs": 2}
    job = spec(model=MODEL, init="data/first.safetensors",
               optimizer={"type": "sgd", "learning_rate": RATE, "momentum": momentum},
               data={"format": "npy", "path": "data", "shuffle": order is None},
               evaluate={"every_epochs": 100}, **common)
    ours = Done(tmp_path, "ours", job, options=options)
    args = [str(data), "--momentum", str(momentum), *(["--in-order"] if order else [])]
    program = {**common,
               "program": {"command": ["/usr/bin/python3", str(ROOT / "tests/program/network.py")],
                           "args": args}}
    theirs = Done(tmp_path, "theirs", program, options=options)
    return (ours.rows(), ours.tensors()), (theirs.rows(), theirs.tensors())


def trajectory(rows, rank, steps):
    mine = sorted((r for r in rows if r["rank"] == rank), key=lambda r: r["local_step"])
    assert len(mine) >= steps
    return {key: np.array([r[key] for r in mine[:steps]])
            for key in ("batch", "staleness", "step", "loss")}


def compare(ours, theirs, steps):
    for rank in range(len(SIZES)):
        a, b = trajectory(ours, rank, steps), trajectory(theirs, rank, steps)
        for key in ("batch", "staleness", "step"):
            assert a[key].tolist() == b[key].tolist(), key
        assert np.ptp(a["loss"]) > 0.05, "nothing was learned, so nothing is compared"
        np.testing.assert_allclose(b["loss"], a["loss"], rtol=1e-4)


@pytest.mark.parametrize("strategy, momentum", TOGETHER, ids=names)
def test_ranks_that_step_together_go_the_same_way(tmp_path, strategy, momentum):
    (rows, model), (their_rows, their_model) = both(tmp_path, strategy, momentum, None)
    compare(rows, their_rows, 2 * SAMPLES // BATCH)
    for name in SHAPES:
        np.testing.assert_allclose(their_model[name], model[name], rtol=0, atol=2e-5)


@pytest.mark.parametrize("strategy, momentum", SERVED, ids=names)
def test_in_the_same_order_of_gradients_a_server_goes_the_same_way(tmp_path, strategy, momentum):
    rng = np.random.RandomState(5)
    order = [int(rank) for _ in range(ROUNDS) for rank in rng.permutation(len(SIZES))]
    (rows, _), (their_rows, _) = both(tmp_path, strategy, momentum, order)
    compare(rows, their_rows, ROUNDS)
    if strategy.get("pull") != "blocking":
        assert max(r["staleness"]
                   for r in rows) > 1, "an order in which nothing is stale compares too little"
