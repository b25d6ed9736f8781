"""The same network as a job of ours and as a user's program, and how their ways are compared."""
import json
import pathlib
import sys
from collections import namedtuple

import numpy as np

from service import spec
from test_init import Done

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import plain  # noqa: E402

# `start` gives the program's part of a job's spec: start(folder of the data, momentum, in order)
Network = namedtuple("Network", "inputs hidden outputs activation rate start")
BATCH = 64
SIZES, SAMPLES, ROUNDS = (28, 20, 16), 640, 8
TOGETHER = [({"type": "sync"}, 0.9), ({"type": "local-sgd", "k": 3}, 0),
            ({"type": "hier-sgd", "k1": 1, "k2": 3}, 0), ({"type": "hpsgd", "k": 2}, 0)]
SERVED = [({"type": "asgd"}, 0.5), ({"type": "asgd", "servers": 2}, 0.5),
          ({"type": "softsync", "n": 1, "pull": "blocking"}, 0.5),
          ({"type": "softsync", "n": 3, "rate": "tau"}, 0.5), ({"type": "ssp", "s": 1}, 0.5),
          ({"type": "dc-asgd"}, 0.5),
          ({"type": "dc-asgd", "adaptive": True, "lambda": 2.0}, 0.5), ({"type": "dc-asgdk"}, 0),
          ({"type": "ddc-asgd"}, 0), ({"type": "dbs-sgd", "c": 2}, 0.5)]


def shapes(network):
    return {"fc1.weight": (network.hidden, network.inputs), "fc1.bias": (network.hidden,),
            "fc2.weight": (network.outputs, network.hidden), "fc2.bias": (network.outputs,)}


def flat(network, model):
    """The parameters of a program, which may be one tensor, or of a job of ours."""
    return np.concatenate([model[n].ravel() for n in ("network", *shapes(network)) if n in model])


def place(network, folder, samples_alike):
    """Data and first parameters. samples_alike: four samples over and over, so that it does not
    matter which of the slices of whole fours a worker gets."""
    rng = np.random.RandomState(3)
    x = rng.normal(size=(4 if samples_alike else SAMPLES, network.inputs)).astype("f4")
    y = (x @ rng.normal(size=(network.inputs, network.outputs))).argmax(1).astype("i8")
    x, y = (np.tile(a, (SAMPLES // len(a),) + (1,) * (a.ndim - 1)) for a in (x, y))
    first = {name: rng.normal(scale=0.4, size=shape).astype("f4")
             for name, shape in shapes(network).items()}
    for prefix in ("", "test_"):
        np.save(folder / (prefix + "x.npy"), x)
        np.save(folder / (prefix + "y.npy"), y)
    np.savez(folder / "first.npz", **first)
    for name, values in (("x", x), ("y", y), ("first", flat(network, first))):
        values.tofile(folder / (name + ".raw"))
    plain.save(folder / "first.safetensors", first)


def both(tmp_path, network, strategy, momentum, order):
    """The job of ours, and the program: (rows, parameters) of each."""
    data = tmp_path / "data"
    data.mkdir()
    place(network, data, order is not None)
    (tmp_path / "order.json").write_text(json.dumps(order))
    options = ["--order", str(tmp_path / "order.json")] if order else []
    common = {"workers": len(SIZES), "strategy": strategy,
              "batching": {"policy": "static", "sizes": list(SIZES), "global_batch": BATCH},
              "seed": 7, "epochs": 2}
    layers = [{"type": "dense", "units": network.hidden, "name": "fc1"},
              {"type": network.activation},
              {"type": "dense", "units": network.outputs, "name": "fc2"}]
    job = spec(model={"input": [network.inputs], "layers": layers}, init="data/first.safetensors",
               optimizer={"type": "sgd", "learning_rate": network.rate, "momentum": momentum},
               data={"format": "npy", "path": "data", "shuffle": order is None},
               evaluate={"every_epochs": 100}, **common)
    ours = Done(tmp_path, "ours", job, options=options)
    program = network.start(data, momentum, order is not None)
    theirs = Done(tmp_path, "theirs", {**common, "program": program}, options=options)
    return [(done.rows(), flat(network, done.tensors())) for done in (ours, theirs)]


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


def go_the_same_way_together(tmp_path, network, strategy, momentum):
    (rows, model), (their_rows, their_model) = both(tmp_path, network, strategy, momentum, None)
    compare(rows, their_rows, 2 * SAMPLES // BATCH)
    np.testing.assert_allclose(their_model, model, rtol=0, atol=2e-5)


def go_the_same_way_served(tmp_path, network, strategy, momentum):
    rng = np.random.RandomState(5)
    order = [int(rank) for _ in range(ROUNDS) for rank in rng.permutation(len(SIZES))]
    (rows, _), (their_rows, _) = both(tmp_path, network, strategy, momentum, order)
    compare(rows, their_rows, ROUNDS)
    if strategy.get("pull") != "blocking":
        assert max(r["staleness"]
                   for r in rows) > 1, "an order in which nothing is stale compares too little"
