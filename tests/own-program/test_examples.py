"""The examples of deploy/examples/programs, alone and on real ranks.

Sizes are tiny, and the data drawn, in the formats of MNIST and CIFAR-10. Under `sync` two ranks
with unequal minibatches end with the parameters of the program alone, within rounding: each step
there has the whole set, so that the order of samples does not matter. Under the other strategies
the loss falls, and the ranks end alike where the strategy says so."""

import gzip
import os
import subprocess

import numpy as np
import pytest

from compare import bit_identical, difference
from conftest import python_with
from real_rank import COLUMNS, rows_of, run_local
from tree import ROOT, environment

HERE = os.path.join(ROOT, "tests/own-program")
SAMPLES = 96  # of the drawn training sets
STRATEGIES = [
    {"type": "asgd"},
    {"type": "dbs-sgd"},
    {"type": "dc-asgd"},
    {"type": "hpsgd", "k": 1},
    {"type": "hier-sgd", "k1": 1, "k2": 2},
]


class Example:
    """packages: that its interpreter has. usual: arguments of 2 epochs or more with 3 batches of
    32; exact: of steps that have the whole set; off: relative difference that rounding may make."""

    def __init__(self, packages, usual, exact, off, plain=False, batch=SAMPLES):
        self.packages, self.usual, self.exact, self.off = packages, usual, exact, off
        self.plain = plain  # SGD that a server's rule can do
        self.batch = batch  # of a step of `exact`


EXAMPLES = {
    "mnist": Example(
        ["torch", "numpy"],
        "--samples 96 --batch-size 32 --epochs 3 --lr 0.2",
        "--samples 96 --batch-size 96 --epochs 3 --lr 0.2",
        1e-5,
    ),
    "cifar_resnet": Example(
        ["torch", "numpy"],
        "--samples 96 --batch-size 32 --epochs 4 --lr 0.02",
        "--samples 96 --batch-size 96 --epochs 3 --lr 0.02",
        1e-5,
        plain=True,
    ),
    "gpt": Example(
        ["torch", "numpy"],
        "text --context 16 --batch-size 32 --epochs 4 --accumulate 1",
        "text --context 16 --batch-size 48 --epochs 3 --accumulate 2",
        2e-4,
        batch=48,
    ),
    "keras_mnist": Example(
        ["keras", "tensorflow"],
        "--samples 96 --batch-size 32 --epochs 4",
        "--samples 96 --batch-size 96 --epochs 3",
        5e-3,
    ),
}


def idx(path, array):
    header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    with gzip.open(path, "wb") as f:
        f.write(header + array.tobytes())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with mnist/, cifar-10/ and text; a class is a bright row."""
    folder = tmp_path_factory.mktemp("data")
    draw = np.random.RandomState(5)

    def pictures(n, size):
        labels = (np.arange(n) % 10).astype(np.uint8)
        x = draw.randint(0, 60, (n, size, size)).astype(np.uint8)
        for image, label in zip(x, labels):
            image[2 * label + 3 : 2 * label + 5] = 250
        return x, labels

    (folder / "mnist").mkdir()
    (folder / "cifar-10").mkdir()
    for part, n in (("train", SAMPLES), ("t10k", 20)):
        x, labels = pictures(n, 28)
        idx(folder / "mnist" / f"{part}-images-idx3-ubyte.gz", x)
        idx(folder / "mnist" / f"{part}-labels-idx1-ubyte.gz", labels)
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        x, labels = pictures(20, 32)
        rows = np.concatenate(
            [labels[:, None], np.repeat(x.reshape(20, 1, -1), 3, 1).reshape(20, -1)], 1)
        (folder / "cifar-10" / name).write_bytes(rows.tobytes())
    text = "evenstep trains on unequal nodes. " * 46
    (folder / "text").write_text(text[: 16 * SAMPLES + 1])  # as many windows of 16
    return folder


def command(name, how, output):
    python = python_with(*EXAMPLES[name].packages)
    arguments = getattr(EXAMPLES[name], how).split()
    return [python, os.path.join(HERE, "example.py"), name, how, str(output), *arguments]


def surroundings(data):
    return {
        "EVENSTEP_DATA": str(data),
        "EVENSTEP_OUTPUT": str(data),
        "KERAS_BACKEND": "tensorflow",
        "CUDA_VISIBLE_DEVICES": "",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


def alone(name, how, data, folder):
    env = {**environment(), **surroundings(data)}
    with_text = [str(data / "text") if a == "text" else a
                 for a in command(name, how, folder / "alone")]
    subprocess.run(with_text, env=env, cwd=folder, check=True, timeout=240,
                   stdin=subprocess.DEVNULL)
    return dict(np.load(folder / "alone.npz"))


def on_ranks(name, how, data, folder, sizes, strategy):
    with_text = [str(data / "text") if a == "text" else a
                 for a in command(name, how, folder / "rank")]
    return run_local(with_text, sizes, strategy, folder, env=surroundings(data))


def losses_of(done):
    """Of all ranks, in order of time."""
    rows = [dict(zip(COLUMNS, row.split(","))) for row in rows_of(done)]
    return [float(r["loss"]) for r in sorted(rows, key=lambda r: float(r["time"]))]


@pytest.mark.parametrize("name", EXAMPLES)
def test_sync_on_unequal_ranks_equals_the_program_alone(data, tmp_path, name):
    example = EXAMPLES[name]
    sizes = [example.batch * 5 // 8, example.batch * 3 // 8]
    done = on_ranks(name, "exact", data, tmp_path, sizes, {"type": "sync"})
    assert done.returncode == 0, done.stderr[-4000:]
    results = [dict(np.load(tmp_path / f"rank-{i}.npz")) for i in range(2)]
    assert bit_identical(results)
    found = difference(results[0], alone(name, "exact", data, tmp_path))
    print("%s: %.1e" % (name, found))
    assert found < example.off


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s["type"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_loss_falls_under_every_strategy(data, tmp_path, name, strategy):
    done = on_ranks(name, "usual", data, tmp_path, [20, 12], strategy)
    if strategy["type"] == "dc-asgd" and not EXAMPLES[name].plain:
        assert done.returncode != 0 and "compensates gradients for their delay" in done.stderr
        return
    assert done.returncode == 0, done.stderr[-4000:]
    losses = losses_of(done)
    print(" ".join("%.3f" % loss for loss in losses))
    assert np.mean(losses[-4:]) < 0.95 * np.mean(losses[:4])
    for i in range(2):
        assert all(np.isfinite(v).all() for v in np.load(tmp_path / f"rank-{i}.npz").values())
