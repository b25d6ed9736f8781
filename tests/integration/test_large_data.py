"""Data sets that stay in their files: larger than the memory that a job may use, shared by the
ranks of a host, and named when a file is cut while a job reads it. The arrays are sparse files, so
that a large one costs no disk."""
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from programs import BUILD, LOCAL, SANITIZED
from service import until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
from memory import MemoryLimit, drop_from_cache, reason_against  # noqa: E402

SHAPE = (64, 64, 3)
EACH = 64 * 64 * 3


def make_set(folder, megabytes):
    """x.npy and the rest; returns the size of x.npy."""
    folder.mkdir(parents=True)
    for name, n in (("", megabytes * 1000 * 1000 // EACH), ("test_", 32)):
        np.lib.format.open_memmap(folder / f"{name}x.npy", "w+", np.uint8, (n, *SHAPE)).flush()
        np.save(folder / f"{name}y.npy", (np.arange(n) % 10).astype(np.uint8))
    return (folder / "x.npy").stat().st_size


def command(root, workers=1, epochs=1, batch=1024):
    spec = {"name": "large", "workers": workers, "epochs": epochs, "seed": 1,
            "model": {"input": list(SHAPE),
                      "layers": [{"type": "average_pool", "size": 16}, {"type": "flatten"},
                                 {"type": "dense", "units": 10}]},
            "data": {"format": "npy", "path": "large"}, "strategy": {"type": "sync"},
            "optimizer": {"type": "sgd", "learning_rate": 0.01},
            "batching": {"global_batch": batch, "policy": "equal"}}
    (root / "job.json").write_text(json.dumps(spec))
    return ["mpirun", "--oversubscribe", "-np", str(workers + 1), str(BUILD / "evenstep-worker"),
            "--local", str(root / "job.json"), "--roots", str(root), "--out", str(root / "out")]


@pytest.fixture
def disk_path():
    """A folder whose files are not in memory, as those of tmp_path may be (docs/decisions/0106)."""
    with tempfile.TemporaryDirectory(prefix="evenstep-large-", dir="/var/tmp") as folder:
        yield pathlib.Path(folder)


@pytest.mark.skipif(SANITIZED, reason="sanitizers reserve memory of their own")
def test_a_set_of_twice_the_memory_limit_trains(disk_path):
    """In a control group if one can be made (it counts the page cache too), else under a limit of
    the memory that a process may allocate."""
    if reason_against():
        size = make_set(disk_path / "large", 1600)
        done = subprocess.run(
            command(disk_path), env=LOCAL, capture_output=True, text=True, timeout=600, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (size // 2, size // 2)))
    else:
        size = make_set(disk_path / "large", 600)
        drop_from_cache(disk_path / "large" / "x.npy")
        limit = MemoryLimit("large", size // 2)
        try:
            done = subprocess.run(limit.command(*command(disk_path)), env=LOCAL, text=True,
                                  capture_output=True, timeout=600, check=False)
            assert limit.peak() <= size // 2
        finally:
            limit.remove()
    assert done.returncode == 0, done.stderr[-2000:]
    samples = re.findall(r"^evaluation,\d+,1\.0+,", done.stdout, re.M)
    assert samples, done.stdout[-500:]


def started(root, **kwargs):
    return subprocess.Popen(command(root, **kwargs), env=LOCAL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def mapping(pid, name):
    """Kilobytes of a process's mapping of this file, or None."""
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps").read_text()
    except OSError:
        return None
    found = re.search(rf"^\S+ r--s .*/{re.escape(name)}\n((?:\w+:.*\n)+)", text, re.M)
    return found and {key: int(kb) for key, kb in re.findall(r"(\w+): +(\d+) kB", found[1])}


def children(pid):
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        yield from (int(child) for child in task.read_text().split())


def half_read(pid, size):
    """The mappings of x.npy in this mpirun's processes, once each has touched half of its pages."""
    maps = [m for m in (mapping(child, "large/x.npy") for child in children(pid)) if m]
    return maps if all(m["Rss"] * 1024 > size / 2 for m in maps) else None


def test_ranks_of_a_host_share_the_pages_and_a_file_that_is_cut_is_named(disk_path):
    size = make_set(disk_path / "large", 40)
    run = started(disk_path, workers=2, epochs=100000, batch=256)
    try:
        for line in run.stdout:
            if line.startswith("row,1,"):       # both have opened the data set
                break
        maps = until("each worker has read half of the file", lambda: half_read(run.pid, size))
        assert len(maps) == 2, "both workers map the file, the keeper does not"
        assert all(m["Private_Dirty"] == 0 and m["Pss"] < 0.75 * m["Rss"] for m in maps), maps
        os.truncate(disk_path / "large" / "x.npy", size // 2)
        output, told = run.communicate(timeout=300)
    finally:
        run.kill()
        run.wait()
    assert run.returncode != 0
    assert f"'x.npy' was shortened from {size} to {size // 2} bytes" in told, told[-2000:]
    assert "Bus error" not in told and "Signal" not in told
