#!/usr/bin/python3
"""What a data set costs that is larger than memory: the same job with its file in the page cache,
and in a control group whose memory is half as large as the set.

    make bench-data           prints the ratio and writes it to docs/results/bench-data.md

The set is one of random bytes, which neither disk nor file system can pack, read in a shuffled
order. The limit holds for all that the job uses, its own memory included, so less than half of the
set can be in memory at a time. Before each limited run the file leaves the page cache, as pages
that were there before would count against another group. Needs root and a memory controller
(cgroup v1 or v2)."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np

from bench import BUILD, TURNS, Report, median, spread

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "integration"), str(HERE.parent / "lab")]
from memory import MemoryLimit, drop_from_cache, reason_against  # noqa: E402
from programs import LOCAL                                       # noqa: E402
from rowtable import printed                                     # noqa: E402

MB = 600 if os.environ.get("QUICK") else 1200
SHAPE = (64, 64, 3)
SAMPLES = MB * 1000 * 1000 // (64 * 64 * 3)
BATCH = 128
NETWORKS = {
    "small (5 x 5 convolution with stride 4, dense)": [
        {"type": "conv2d", "filters": 8, "kernel": 5, "stride": 4}, {"type": "relu"},
        {"type": "flatten"}, {"type": "dense", "units": 10}],
    "two convolutions and a dense layer": [
        {"type": "conv2d", "filters": 16, "kernel": 5, "stride": 2}, {"type": "relu"},
        {"type": "conv2d", "filters": 32, "kernel": 3, "stride": 2}, {"type": "relu"},
        {"type": "flatten"}, {"type": "dense", "units": 10}]}


def make_set(folder):
    rng = np.random.default_rng(1)
    folder.mkdir()
    for name, n in (("", SAMPLES), ("test_", 100)):
        x = np.lib.format.open_memmap(folder / f"{name}x.npy", "w+", np.uint8, (n, *SHAPE))
        for i in range(0, n, 1000):
            x[i:i + 1000] = rng.integers(0, 256, (min(1000, n - i), *SHAPE), np.uint8)
        np.save(folder / f"{name}y.npy", (np.arange(n) % 10).astype(np.uint8))


def job(path, layers):
    path.write_text(json.dumps(
        {"name": "large", "model": {"input": list(SHAPE), "layers": layers},
         "data": {"format": "npy", "path": "large"}, "workers": 1, "epochs": 1, "seed": 1,
         "optimizer": {"type": "sgd", "learning_rate": 0.001}, "strategy": {"type": "sync"},
         "batching": {"global_batch": BATCH, "policy": "equal"}}))


def train(root, spec, limit=None):
    """Samples a second of one epoch, its first tenth left out."""
    shutil.rmtree(root / "out", ignore_errors=True)     # or it would go on from its checkpoint
    command = ["mpirun", "--oversubscribe", "-np", "2", str(BUILD / "evenstep-worker"), "--local",
               str(spec), "--roots", str(root), "--out", str(root / "out")]
    done = subprocess.run(limit.command(*command) if limit else command, env=LOCAL, text=True,
                          capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout[-500:] + done.stderr[-2000:])
    rows = printed([line.split(",") for line in done.stdout.splitlines()])
    rows = rows[len(rows) // 10:]
    return sum(r["batch"] for r in rows[1:]) / (rows[-1]["time"] - rows[0]["time"])


def turns(root, spec, limit_bytes):
    """Turn by turn: samples a second from the page cache, and with the limit."""
    file = root / "large" / "x.npy"
    for turn in range(TURNS):
        file.read_bytes()                   # it is in the page cache
        free = train(root, spec)
        drop_from_cache(file)
        limit = MemoryLimit(f"data-{turn}", limit_bytes)
        try:
            yield free, train(root, spec, limit), limit.peak()
        finally:
            limit.remove()


def main():
    if reason_against():
        sys.exit(f"bench-data: {reason_against()}")
    with tempfile.TemporaryDirectory(dir=os.environ.get("EVENSTEP_BENCH_DISK")) as folder:
        root = pathlib.Path(folder)
        make_set(root / "large")
        size = (root / "large" / "x.npy").stat().st_size
        report = Report("bench-data", "A data set larger than memory", __doc__.split("\n\n")[2])
        rows = []
        for name, layers in NETWORKS.items():
            job(root / "job.json", layers)
            measured = list(turns(root, root / "job.json", size // 2))
            free, limited, peak = zip(*measured)
            rows.append([name, f"{median(free):.0f}", f"{median(limited):.0f}",
                         f"{median(limited) * 12288 / 1e6:.0f}",
                         spread([b / a for a, b, _ in measured]),
                         f"{size / 1e6:.0f}", f"{max(peak) / 1e6:.0f}"])
        report.table("Samples a second of one worker (npy, bytes, 64 x 64 x 3, shuffled)",
                     ["network", "from memory", "limited", "MB/s read", "limited / from memory",
                      "set, MB", "most memory used, MB"], rows)
        report.close()


if __name__ == "__main__":
    main()
