#!/usr/bin/python3
"""What a data set costs that is larger than memory: the same job with its file in the page cache,
and in a control group whose memory is half as large as the set.

    make bench-data           prints the ratio and writes it to docs/results/bench-data.md

The set is one of random bytes, which neither disk nor file system can pack, read in a shuffled
order. The limit holds for all that the job uses, its own memory included, so less than half of the
set can be in memory at a time. Before each limited run the file leaves the page cache, as pages
that were there before would count against another group. Needs root and a memory controller
(cgroup v1 or v2).

Beside each run stands what the disk itself gives: the file read from its beginning, and its samples
in a shuffled order, with as many reads under way as the job may have. The bound is the speed at
which a job that computes nothing would run: that of shuffled reads, over the share of the samples
that the job had to read again. A job's share of the speed from memory cannot be above the bound's.
"""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

from bench import BUILD, TURNS, Report, median, spread

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "integration"), str(HERE.parent / "lab")]
from memory import MemoryLimit, drop_from_cache, reason_against  # noqa: E402
from programs import LOCAL                                       # noqa: E402
from rowtable import printed                                     # noqa: E402

MB = 600 if os.environ.get("QUICK") else 1200
SHAPE = (64, 64, 3)
SAMPLE = 64 * 64 * 3
SAMPLES = MB * 1000 * 1000 // SAMPLE
BATCH, EPOCHS = 128, 3
UNDER_WAY = 8 * BATCH       # as AHEAD_SLICES of worker/data/ahead.h
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
         "data": {"format": "npy", "path": "large"}, "workers": 1, "epochs": EPOCHS, "seed": 1,
         "optimizer": {"type": "sgd", "learning_rate": 0.001}, "strategy": {"type": "sync"},
         "batching": {"global_batch": BATCH, "policy": "equal"}}))


def train(root, spec, limit=None):
    """Samples a second, without the first tenth of the run."""
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


def disk_rates(file):
    """Bytes a second that the disk gives: in order, and samples in a shuffled order."""
    size, rates = file.stat().st_size, []
    head = size - SAMPLES * SAMPLE
    order = np.random.default_rng(2).permutation(SAMPLES)[:SAMPLES // 3].tolist()
    for advice, each, places in (
            (os.POSIX_FADV_SEQUENTIAL, 1 << 20, range(0, size // 3, 1 << 20)),
            (os.POSIX_FADV_RANDOM, SAMPLE, [head + i * SAMPLE for i in order])):
        drop_from_cache(file)
        fd = os.open(file, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, advice)
        began = time.monotonic()
        for i, at in enumerate(places):
            if advice == os.POSIX_FADV_RANDOM and i + UNDER_WAY < len(places):
                os.posix_fadvise(fd, places[i + UNDER_WAY], each, os.POSIX_FADV_WILLNEED)
            os.pread(fd, each, at)
        rates.append(len(places) * each / (time.monotonic() - began))
        os.close(fd)
    return rates


def bytes_read():
    """From disks, by all children that have ended."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock * 512


def turns(root, spec, limit_bytes):
    """Turn by turn: the disk, samples a second from the page cache, and with the limit."""
    file = root / "large" / "x.npy"
    size = file.stat().st_size
    for turn in range(TURNS):
        in_order, shuffled = disk_rates(file)
        file.read_bytes()                   # it is in the page cache
        free = train(root, spec)
        drop_from_cache(file)
        limit = MemoryLimit(f"data-{turn}", limit_bytes)
        before = bytes_read()
        try:
            limited = train(root, spec, limit)
            # in each epoch; the pass over all of it, for the digest, does not count
            again = (bytes_read() - before - size) / size / EPOCHS
            yield {"free": free, "limited": limited, "peak": limit.peak(), "again": again,
                   "in_order": in_order, "shuffled": shuffled,
                   "bound": min(1, shuffled / SAMPLE / max(again, 1e-9) / free)}
        finally:
            limit.remove()


def row(name, size, measured):
    def of(key):
        return [m[key] for m in measured]
    return [name, f"{median(of('free')):.0f}", f"{median(of('limited')):.0f}",
            spread([m["limited"] / m["free"] for m in measured]), spread(of("bound")),
            f"{100 * median(of('again')):.0f} %",
            f"{median(of('in_order')) / 1e6:.0f}", f"{median(of('shuffled')) / 1e6:.0f}",
            f"{size / 1e6:.0f}", f"{max(of('peak')) / 1e6:.0f}"]


def main():
    if reason_against():
        sys.exit(f"bench-data: {reason_against()}")
    with tempfile.TemporaryDirectory(dir=os.environ.get("EVENSTEP_BENCH_DISK")) as folder:
        root = pathlib.Path(folder)
        make_set(root / "large")
        size = (root / "large" / "x.npy").stat().st_size
        told = "\n\n".join(__doc__.strip().split("\n\n")[2:])
        report = Report("bench-data", "A data set larger than memory", told)
        rows = []
        for name, layers in NETWORKS.items():
            job(root / "job.json", layers)
            rows.append(row(name, size, list(turns(root, root / "job.json", size // 2))))
        report.table("Samples a second of one worker (npy, bytes, 64 x 64 x 3, shuffled)",
                     ["network", "from memory", "limited", "limited / from memory", "the bound",
                      "read again in an epoch",
                      "disk in order, MB/s", "disk shuffled, MB/s", "set, MB",
                      "most memory used, MB"], rows)
        report.close()


if __name__ == "__main__":
    main()
