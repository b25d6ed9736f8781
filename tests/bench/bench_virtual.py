#!/usr/bin/python3
"""Is the virtual cluster believable? Four workers for real, with emulated slowdowns, and the same
job on virtual nodes with the measured profiles.

    make bench-virtual        prints ratios real / virtual and writes them to
                              docs/results/virtual-cluster.md

Rates, step times and staleness are compared with equal minibatches, minibatches under dynamic
batching. The first fifth of each run is left out on both sides (start, and minibatches that still
move). Slowdowns are large, so that four workers, the keeper and the service fit on few cores; a
step is then mostly a sleep, and what is tested is profile, clock, exchange and balancer, not the
kernels."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "integration"), str(HERE.parent / "reproduce")]
import redis                                        # noqa: E402
from bench import machine, versions                 # noqa: E402
from service import BUILD, ROOT, Service            # noqa: E402
from rowtable import packed                         # noqa: E402
from table import markdown                          # noqa: E402

SLOWDOWNS = {"fast-1": 8, "fast-2": 8, "half": 16, "quarter": 32}
# of ranks on one host, as predictions have it (coordinator/planning/predict.c)
LINK = {"latency_seconds": 5e-5, "bytes_per_second": 1.3e9}
MODEL = {"input": [28, 28, 1],
         "layers": [{"type": "conv2d", "filters": 16, "kernel": 5, "padding": 2}, {"type": "relu"},
                    {"type": "max_pool", "size": 2},
                    {"type": "conv2d", "filters": 32, "kernel": 5, "padding": 2}, {"type": "relu"},
                    {"type": "max_pool", "size": 2},
                    {"type": "flatten"}, {"type": "dense", "units": 10}]}
STRATEGIES = {"sync": {"type": "sync"}, "asgd": {"type": "asgd"},
              "softsync": {"type": "softsync", "n": 1},
              "hier-sgd": {"type": "hier-sgd", "k1": 2, "k2": 4, "group_size": 2}}


def spec(strategy, policy, epochs=None):
    # few updates, and whose gradient comes first is a coin's toss
    epochs = epochs or (8 if strategy["type"] == "softsync" else 3)
    return {"name": "believable", "model": MODEL,
            "data": {"format": "glyphs", "samples": 5120, "test_samples": 100},
            "strategy": strategy, "workers": 4, "optimizer": {"type": "sgd", "learning_rate": 0.02},
            "batching": {"global_batch": 512, "policy": policy}, "epochs": epochs, "seed": 1,
            "evaluate": {"every_epochs": 100}}


def measure(history, workers=4):
    """Of the last four fifths of the time from the first row to the last."""
    rows = [[r for r in packed((pathlib.Path(history) / f"rows-{i}.bin").read_bytes())
             if r["batch"] > 0] for i in range(workers)]
    times = [r["time"] for node in rows for r in node]
    first, end = min(times), max(times)     # a real job's clock runs while its ranks prepare
    cut = first + (end - first) / 5
    late = [[r for r in node if r["time"] > cut] for node in rows]
    begin = max(t for t in times if t <= cut)
    steps = {r["step"] for node in late for r in node}
    return {"samples/s": sum(r["batch"] for node in late for r in node) / (end - begin),
            "step": (end - begin) / len(steps),
            "jitter": [statistics.stdev(r["compute_seconds"] for r in node)
                       / statistics.fmean(r["compute_seconds"] for r in node) if len(node) > 2
                       else 0.02 for node in late],
            "staleness": [sum(r["staleness"] for r in node) / len(node) for node in late],
            "minibatch": [sum(r["batch"] for r in node[len(node) // 2:])
                          / len(node[len(node) // 2:]) for node in late]}


def profiles(service, names):
    """What the store keeps of the nodes: a + k*b, slowdown included."""
    store = redis.Redis(unix_socket_path=str(service.dir / "redis.sock"))
    found = {}
    for name in names:
        (key,) = store.keys(f"es:profile:{name}:*")
        p = json.loads(store.get(key))
        found[name] = (p["a"], p["k"])
    return found


def real(service, strategy, policy):
    id = service.submit(spec(strategy, policy))
    service.wait(id, "succeeded", seconds=600)
    return measure(service.dir / "jobs" / id / "history")


def virtual(folder, measured, jitter, strategy, policy):
    nodes = [{"name": n, "fixed_seconds": max(0.0, a), "seconds_per_sample": k,
              "jitter": round(min(0.3, z), 4)} for (n, (a, k)), z in zip(measured.items(), jitter)]
    for name, value in (("job", spec(strategy, policy)),
                        ("cluster", {"seed": 1, "nodes": nodes, "links": LINK, "server": LINK})):
        (folder / f"{name}.json").write_text(json.dumps(value))
    subprocess.run([str(BUILD / "evenstep-simulate"), "--job", "job.json", "--cluster",
                    "cluster.json", "--out", "out"], cwd=folder, check=True)
    return measure(folder / "out" / "history")


def ratio(a, b):
    return f"{a / b:.3f}" if b else "1" if a == b else "–"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--out", default=str(ROOT / "docs" / "results" / "virtual-cluster.md"))
    o = options.parse_args()
    load = os.getloadavg()
    lines, sizes, worst = [], [], 0.0
    with tempfile.TemporaryDirectory(prefix="evenstep-bench-") as temp:
        with Service(nodes=[f"{n}=cpu:1,slowdown={f}" for n, f in SLOWDOWNS.items()],
                     folder=temp) as service:
            # measures the nodes
            service.wait(service.submit(spec({"type": "sync"}, "dynamic", epochs=1)), "succeeded",
                         seconds=600)
            for name, strategy in STRATEGIES.items():
                a = real(service, strategy, "equal")
                b = virtual(pathlib.Path(temp), profiles(service, SLOWDOWNS), a["jitter"], strategy,
                            "equal")
                stale = [ratio(x, y) for x, y in zip(a["staleness"], b["staleness"])]
                lines.append(
                    [name, f"{a['samples/s']:.1f}", f"{b['samples/s']:.1f}",
                     ratio(a["samples/s"], b["samples/s"]), f"{a['step'] * 1000:.1f}",
                     f"{b['step'] * 1000:.1f}", ratio(a["step"], b["step"]), ", ".join(stale)])
                worst = max(
                    [worst, abs(a["samples/s"] / b["samples/s"] - 1),
                     abs(a["step"] / b["step"] - 1)]
                    + [abs(x / y - 1) for x, y in zip(a["staleness"], b["staleness"]) if y])
                print(markdown(["strategy", "real", "virtual", "ratio", "real ms", "virtual ms",
                                "ratio", "staleness by node"], lines[-1:]), flush=True)
                jitters = a["jitter"]
                a, b = real(service, strategy, "dynamic"), virtual(
                    pathlib.Path(temp), profiles(service, SLOWDOWNS), jitters, strategy, "dynamic")
                sizes.append(
                    [name, *[f"{x:.1f} / {y:.1f} = {x / y:.3f}"
                             for x, y in zip(a["minibatch"], b["minibatch"])]])
                worst = max(
                    [worst] + [abs(x / y - 1) for x, y in zip(a["minibatch"], b["minibatch"])])
            measured = profiles(service, SLOWDOWNS)
    text = "\n\n".join([
        "# The virtual cluster beside the real one",
        "Four workers for real on one machine, with slowdowns "
        + ", ".join(f"{n} {f}" for n, f in SLOWDOWNS.items())
        + ", and the same job on virtual nodes with the profiles that the store kept of them "
        "(a + k·b: "
        + ", ".join(f"{n} {1000 * a:.1f} ms + {1000 * k:.2f} ms" for n, (a, k) in measured.items())
        + "), the deviation of their steps as jitter (at the end "
        + ", ".join(f"{100 * z:.1f} %" for z in jitters)
        + "), links of 50 µs and 1.3 GB/s. The first fifth of each run is left out.",
        "## Equal minibatches\n\n"
        + markdown(["strategy", "samples/s, real", "virtual", "real / virtual", "step ms, real",
                    "virtual", "real / virtual", "mean staleness of each node, real / virtual"],
                   lines),
        "## Dynamic batching: mean minibatch in the second half, real / virtual\n\n"
        + markdown(["strategy", *SLOWDOWNS], sizes),
        f"Largest deviation: {100 * worst:.1f} %; issue 6 asks for 10 % at most.",
        f"Command: `make bench-virtual`, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC. "
        f"Machine: {machine()}; load average before the start {load[0]:.1f} (5 minutes "
        f"{load[1]:.1f}), after the end {os.getloadavg()[0]:.1f}. Versions: {versions()}."]) + "\n"
    pathlib.Path(o.out).write_text(text)
    print(text)
    sys.exit(worst > 0.10)


if __name__ == "__main__":
    main()
