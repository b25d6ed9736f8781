#!/usr/bin/python3
"""Speed of timing-only simulation: events a second on one core, and 1,000 nodes x 1,000 steps. CPU
seconds, so that neighbours count little. Then with gradients: what share of the CPU time goes into
kernels, where perf is there to say (samples of a long run less those of a short one, so that start
and data do not count).

    make bench-simulator [STEPS=1000]
"""
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.path.join(os.environ.get("EVENSTEP_BUILD") or HERE.parents[1]
                       / os.environ.get("BUILD", "build"), "evenstep-simulate")


def write(folder, job, workers):
    cluster = {"seed": 1,
               "nodes": [{"name": "n", "count": workers, "fixed_seconds": 0.1,
                          "seconds_per_sample": 0.01, "jitter": 0.1}],
               "links": {"latency_seconds": 1e-4, "bytes_per_second": 1e9}}
    for name, value in (("job", job), ("cluster", cluster)):
        (folder / f"{name}.json").write_text(json.dumps(value))


def run(folder, strategy, workers, steps):
    job = {"name": "speed", "model": "mlp", "data": {"format": "glyphs"}, "strategy": strategy,
           "workers": workers, "epochs": 1, "seed": 1,
           "batching": {"global_batch": 4 * workers, "policy": "equal"}}
    write(folder, job, workers)
    process = subprocess.Popen([PROGRAM, "--job", "job.json", "--cluster", "cluster.json", "--out",
                                "out", "--timing-only", "--samples", str(4 * workers * steps),
                                "--log-level", "info"], cwd=folder, stderr=subprocess.PIPE,
                               text=True)
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    assert status == 0, said
    return int(re.search(r"events=(\d+)", said).group(1)), usage.ru_utime + usage.ru_stime


def our_kernels():
    lines = subprocess.run(
        ["nm", "--defined-only", os.path.join(os.path.dirname(PROGRAM), "libkernels.a")],
        capture_output=True, text=True, check=True).stdout
    return {f[2].split(".")[0] for f in (line.split() for line in lines.splitlines()) if len(f) == 3
            and f[1] in "tT"}


def samples(folder, kernels, model, strategy, workers, batch, epochs):
    """CPU samples of a run with gradients by what they went into."""
    write(folder,
          {"name": "share", "model": model,
           "data": {"format": "glyphs", "samples": 5120, "test_samples": 100},
           "strategy": {"type": strategy}, "workers": workers, "epochs": epochs, "seed": 1,
           "batching": {"global_batch": workers * batch, "policy": "equal"},
           "evaluate": {"every_epochs": 100}}, workers)
    subprocess.run(["perf", "record", "-F", "999", "-o", "perf", PROGRAM, "--job", "job.json",
                    "--cluster", "cluster.json", "--out", "out"], cwd=folder, check=True,
                   capture_output=True, env={**os.environ, "OMP_WAIT_POLICY": "passive"})
    text = subprocess.run(["perf", "report", "-i", "perf", "--no-children", "--sort", "dso,sym",
                           "-F", "sample,dso,sym", "--stdio"], cwd=folder, capture_output=True,
                          text=True).stdout
    counts = collections.Counter()
    for n, object_, name in re.findall(r"^\s+(\d+)\s+(\S+)(?: tid \d+)?\s+\[.\]\s+(\S+)", text,
                                       re.M):
        name = name.split(".")[0]
        kind = ("kernels" if "JIT" in object_ or "dnnl" in object_ or "gomp" in object_
                or (object_ == "evenstep-simulate" and name in kernels) else "copies"
                if "memmove" in name or "memcpy" in name else "else")
        counts["sums"] += int(n) * (name.startswith("flat_") and name != "flat_look_up")
        counts[kind] += int(n)
    return counts


def shares(folder):
    if not shutil.which("perf"):
        print("\nperf is not installed: no shares of kernels")
        return
    print(
        "\n| network | strategy | nodes | minibatch | CPU samples | kernels | of them sums and "
        "weights of gradients | copies (messages) | else |\n|---|---|---|---|---|---|---|---|---|")
    kernels = our_kernels()
    for model, strategy, workers, batch in (("lenet5", "sync", 8, 16), ("lenet5", "asgd", 8, 16),
                                            ("lenet5", "sync", 8, 64), ("lenet5", "asgd", 8, 64),
                                            ("mlp", "sync", 64, 16), ("mlp", "asgd", 64, 16)):
        short, long = (1, 3) if model != "mlp" else (2, 12)
        few = samples(folder, kernels, model, strategy, workers, batch, short)
        more = samples(folder, kernels, model, strategy, workers, batch, long)
        more.subtract(few)
        total = more["kernels"] + more["copies"] + more["else"]
        print(f"| {model} | {strategy} | {workers} | {batch} | {total} | "
              + " | ".join(f"{more[k] / total:.2f}" for k in ("kernels", "sums", "copies", "else"))
              + " |", flush=True)


def main():
    steps = int(os.environ.get("STEPS", "1000"))
    print(
        "| strategy | nodes | steps | node steps | events | CPU s | events/s | node steps/s "
        "|\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temp:
        for strategy, workers, n in (("asgd", 16, 50 * steps), ("asgd", 1000, steps),
                                     ("sync", 1000, steps), ("hier-sgd", 1000, steps)):
            more = {"k1": 1, "k2": 8, "group_size": 10} if strategy == "hier-sgd" else {}
            events, seconds = run(pathlib.Path(temp), {"type": strategy, **more}, workers, n)
            print(
                f"| {strategy} | {workers} | {n} | {workers * n} | {events} | {seconds:.2f} | "
                f"{events / seconds:.3g} | {workers * n / seconds:.3g} |", flush=True)
        shares(pathlib.Path(temp))


if __name__ == "__main__":
    sys.exit(main())
