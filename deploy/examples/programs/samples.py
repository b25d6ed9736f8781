"""MNIST and CIFAR-10 as tensors, from the files as they are published.

`$EVENSTEP_DATA` (or ./data) is a list of folders, separated by colons; a data set is a folder in
one of them.
"""
import gzip
import os
from pathlib import Path

import numpy as np


def folder(name):
    """The folder of a data set; FileNotFoundError names the places that were searched."""
    roots = os.environ.get("EVENSTEP_DATA", "data").split(":")
    for root in roots:
        if (Path(root) / name).is_dir():
            return Path(root) / name
    raise FileNotFoundError(f"there is no data set '{name}' in {', '.join(roots)}")


def read_idx(path):
    """An idx file, plain or .gz, as an array of bytes in its shape."""
    plain = path.exists()
    with open(path, "rb") if plain else gzip.open(f"{path}.gz", "rb") as f:
        magic = f.read(4)
        shape = [int.from_bytes(f.read(4), "big") for _ in range(magic[3])]
        return np.frombuffer(f.read(), np.uint8).reshape(shape)


def mnist(part, name="mnist"):
    """part: "train" or "test". Returns images [n, 1, 28, 28] as floats, and labels [n]."""
    prefix = "train" if part == "train" else "t10k"
    images = read_idx(folder(name) / f"{prefix}-images-idx3-ubyte")
    labels = read_idx(folder(name) / f"{prefix}-labels-idx1-ubyte")
    x = (images[:, None].astype(np.float32) / 255 - 0.1307) / 0.3081
    return x, labels.astype(np.int64)


def cifar10(part):
    """part: "train" or "test". Returns images [n, 3, 32, 32] as floats, and labels [n]."""
    base = folder("cifar-10")
    base = base / "cifar-10-batches-bin" if (base / "cifar-10-batches-bin").is_dir() else base
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] if part == "train" else ["test_batch.bin"]
    rows = np.concatenate([read_binary(base / n) for n in names]).reshape(-1, 3073)
    x = rows[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 255
    mean = np.array([0.4914, 0.4822, 0.4465], np.float32)[:, None, None]
    deviation = np.array([0.2470, 0.2435, 0.2616], np.float32)[:, None, None]
    return (x - mean) / deviation, rows[:, 0].astype(np.int64)


def read_binary(path):
    """The bytes of a file, plain or .gz."""
    with open(path, "rb") if path.exists() else gzip.open(f"{path}.gz", "rb") as f:
        return np.frombuffer(f.read(), np.uint8)
