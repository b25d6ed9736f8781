"""The data of the tables as npy files, in two forms of each set.

    select   nine tenths of the training samples, and the last tenth in place of the test set:
             learning rates are chosen on it
    final    all training samples and the test set: what a table shows

Sets are found beneath EVENSTEP_DATA, else data/ and ../shared/data beside the project. CIFAR-10 is
read in its binary version; where only `unpack.py` stands (it decodes JPEG copies), that is run
once. What is cut goes into the work folder; nothing of it is ever committed.
"""
import gzip
import os
import shutil
import subprocess
import tempfile

import numpy as np

from simulator import ROOT, give_up

FORMS = ("select", "final")


def roots():
    beside = [os.path.join(ROOT, "data"), os.path.join(os.path.dirname(ROOT), "shared", "data")]
    found = os.environ.get("EVENSTEP_DATA", "").split(":") + beside
    return [r for r in found if r and os.path.isdir(r)]


def find(name):
    for r in roots():
        if os.path.isdir(os.path.join(r, name)):
            return os.path.join(r, name)
    give_up(f"there is no data set '{name}': put it into data/{name}, or name its folder's folder "
            f"in EVENSTEP_DATA (looked in {', '.join(roots()) or 'nothing'})")
    return None


def idx(folder, part):
    """Pictures [n, 28, 28, 1] and labels of "train" or "t10k" in MNIST's format."""
    def read(name, skip):
        path = os.path.join(folder, f"{part}-{name}-ubyte")
        with (gzip.open(path + ".gz") if os.path.exists(path + ".gz") else open(path, "rb")) as f:
            return np.frombuffer(f.read()[skip:], np.uint8)
    return read("images-idx3", 16).reshape(-1, 28, 28, 1), read("labels-idx1", 8)


def unpack_cifar(folder, unpacked):
    if os.path.exists(os.path.join(folder, "data_batch_1.bin")):
        return folder
    script = os.path.join(folder, "unpack.py")
    if not os.path.exists(script):
        give_up(f"'{folder}' holds no data_batch_1.bin")
    if not os.path.exists(os.path.join(unpacked, "batches.meta.txt")):
        done = subprocess.run(["/usr/bin/python3", script, unpacked], capture_output=True,
                              text=True)
        if done.returncode != 0:
            give_up(f"CIFAR-10 in '{folder}' has to be unpacked, which needs Pillow (Debian: "
                    f"python3-pil); or put data_batch_1.bin there. {done.stderr[-300:]}")
    return unpacked


def cifar(folder, part):
    """Pictures [n, 32, 32, 3] and labels of CIFAR-10's binary version."""
    names = ["test_batch"] if part == "t10k" else [f"data_batch_{i}" for i in range(1, 6)]
    records = np.concatenate([np.fromfile(os.path.join(folder, f"{n}.bin"), np.uint8)
                              for n in names]).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), records[:, 0]


def load(name, samples, test_samples, work):
    """((x, y) to train, (x, y) to test): the first samples of each, or all where the number is
    0."""
    folder, read = find(name), idx
    if name == "cifar-10":
        folder = unpack_cifar(folder, os.path.join(work, "cifar-10-unpacked"))
        read = cifar
    return [[part[:n or None] for part in read(folder, which)]
            for which, n in (("train", samples), ("t10k", test_samples))]


def parted(form, train, test):
    if form == "final":
        return train, test
    kept = len(train[1]) - len(train[1]) // 10
    return [part[:kept] for part in train], [part[kept:] for part in train]


def save(folder, parts):
    """The folder is there whole or not at all, also where two make it at the same time."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    made = tempfile.mkdtemp(prefix="cut-", dir=os.path.dirname(folder))
    for before, (x, y) in zip(("", "test_"), parts):
        np.save(os.path.join(made, before + "x.npy"), np.ascontiguousarray(x))
        np.save(os.path.join(made, before + "y.npy"), y)
    try:
        os.rename(made, folder)
    except OSError:
        if not os.path.exists(folder):
            raise
        shutil.rmtree(made)


def cut(name, samples, test_samples, form, work):
    """The job's `data` for a form of a set; its folder is made beneath `work` where it is
    missing."""
    if name == "glyphs":    # drawn, not kept: each job's seed has its own test samples
        held_out = samples // 10 if form == "select" else 0
        return {"format": "glyphs", "samples": samples - held_out,
                "test_samples": held_out or test_samples}
    what = f"{name}-{samples or 'all'}-{test_samples or 'all'}-{form}"
    folder = os.path.join(work, what)
    if not os.path.exists(folder):
        save(folder, parted(form, *load(name, samples, test_samples, work)))
    return {"format": "npy", "path": what}
