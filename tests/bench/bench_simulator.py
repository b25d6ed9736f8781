#!/usr/bin/python3
"""Speed of timing-only simulation: events a second on one core, and 1,000 nodes x 1,000 steps. CPU seconds, so that neighbours count little.

    make bench-simulator [STEPS=1000]
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.path.join(os.environ.get("EVENSTEP_BUILD") or HERE.parents[1] / os.environ.get("BUILD", "build"), "evenstep-simulate")


def run(folder, strategy, workers, steps):
    job = {"name": "speed", "model": "mlp", "data": {"format": "glyphs"}, "strategy": strategy, "workers": workers, "epochs": 1, "seed": 1,
           "batching": {"global_batch": 4 * workers, "policy": "equal"}}
    cluster = {"seed": 1, "nodes": [{"name": "n", "count": workers, "fixed_seconds": 0.1, "seconds_per_sample": 0.01, "jitter": 0.1}],
               "links": {"latency_seconds": 1e-4, "bytes_per_second": 1e9}}
    for name, value in (("job", job), ("cluster", cluster)):
        (folder / f"{name}.json").write_text(json.dumps(value))
    process = subprocess.Popen([PROGRAM, "--job", "job.json", "--cluster", "cluster.json", "--out", "out", "--timing-only", "--samples", str(4 * workers * steps),
                                "--log-level", "info"], cwd=folder, stderr=subprocess.PIPE, text=True)
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    assert status == 0, said
    return int(re.search(r"events=(\d+)", said).group(1)), usage.ru_utime + usage.ru_stime


def main():
    steps = int(os.environ.get("STEPS", "1000"))
    print("| strategy | nodes | steps | node steps | events | CPU s | events/s | node steps/s |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temp:
        for strategy, workers, n in (("asgd", 16, 50 * steps), ("asgd", 1000, steps), ("sync", 1000, steps), ("hier-sgd", 1000, steps)):
            more = {"k1": 1, "k2": 8, "group_size": 10} if strategy == "hier-sgd" else {}
            events, seconds = run(pathlib.Path(temp), {"type": strategy, **more}, workers, n)
            print(f"| {strategy} | {workers} | {n} | {workers * n} | {events} | {seconds:.2f} | {events / seconds:.3g} | {workers * n / seconds:.3g} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
