"""bench-gpu: training steps on a GPU against PyTorch eager and compiled, channels last, in turns;
what a changed minibatch costs; every kernel of ours against the copy bandwidth, convolutions and
dense layers against the matrix rate, measured in the same run; and a real job on the GPU and a CPU.

Most important first, and every row is kept as it is done (BUILD/bench-gpu.jsonl): a run that ends
early goes on where it was, so little time on a GPU still yields a table. `--fresh` begins anew.
`--tiny` runs the same code on the host build of the device, with sizes that say nothing about
speed: it prints its rows, keeps nothing and writes no page."""
import json
import os
import subprocess
import sys

from bench import BUILD, PEERS, ROOT, TORCH, TURNS, Process, Report, have_torch, median, spread

TINY, FRESH = "--tiny" in sys.argv, "--fresh" in sys.argv
KEPT = BUILD / "bench-gpu.jsonl"
HOST = BUILD / "evenstep-cuda-host.so"
ENV = {"EVENSTEP_CUDA_PLUGIN": str(HOST), "EVENSTEP_CUDA_DRIVER": str(HOST)} if TINY else {}
os.environ.update(ENV)  # the service of the job, too
TURN = 1 if TINY else TURNS
MODES = ["eager", "reduce-overhead", "max-autotune"]
PRECISIONS = ["fp32", "tf32", "bf16"]
# network, minibatch, steps of a turn, at least times (eager, best compiled) by precision
STEPS = [("lenet5", 128, 500, (3, 1.2)), ("resnet20", 128, 200, (3, 1.2)),
         ("lenet5", 1024, 100, None), ("resnet20", 1024, 50, None), ("resnet18", 256, 50, None)]


# Networks that between them start every kernel of ours (the test of this bench looks). Side and
# channels make their arrays larger than a GPU's cache.
SIDE, CHANNELS = (8, 4) if TINY else (32, 16)
IMAGE = [SIDE, SIDE, CHANNELS]
NETWORKS = {
    "layers": {"input": IMAGE, "layers": [
        {"type": "conv2d", "name": "first", "filters": CHANNELS, "kernel": 3, "padding": 1,
         "bias": False}, {"type": "relu", "name": "bent"},
        {"type": "batch_norm"}, {"type": "relu"}, {"type": "lrn"}, {"type": "dropout"},
        {"type": "leaky_relu"}, {"type": "average_pool", "size": 3, "stride": 1, "padding": 1},
        {"type": "tanh", "name": "t"}, {"type": "concat", "inputs": ["t", "bent"]},
        {"type": "max_pool", "size": 3, "stride": 1, "padding": 1}, {"type": "relu"},
        {"type": "conv2d", "name": "second", "filters": CHANNELS, "kernel": 3, "padding": 1},
        {"type": "add", "inputs": ["second", "bent"]}, {"type": "relu", "name": "sum"},
        {"type": "flatten", "name": "flat"}, {"type": "sigmoid"},
        {"type": "dense", "name": "one", "units": 100},
        {"type": "global_average_pool", "inputs": ["sum"], "name": "mean"},
        {"type": "concat", "inputs": ["one", "mean", "flat"]}, {"type": "dense", "units": 10}]},
    "mse": {"input": IMAGE, "layers": [{"type": "dense", "units": 10 if TINY else 10000}],
            "loss": "mse"},
}
# network, minibatch, precision
KERNELS = [("layers", 2048, "fp32"), ("resnet18", 256, "bf16"), ("resnet18", 256, "tf32"),
           ("resnet18", 256, "fp32"), ("layers", 2048, "bf16"),
           ("lenet5", 1024, "bf16"), ("lenet5", 1024, "tf32"), ("lenet5", 1024, "fp32"),
           ("mse", 2048, "fp32")]
BEYOND_CACHE = 100e6  # bytes: more than the cache of any GPU that is about


def device():
    done = subprocess.run([BUILD / "evenstep-worker", "--probe", "cuda:0"],
                          env={**os.environ, **ENV}, capture_output=True, text=True, check=False)
    return json.loads(done.stdout or '{"error": "the worker does not say what the device is"}')


def step_row(model, batch, steps, precision):
    """Images/s of ours and of PyTorch's modes, in turns."""
    with Process(BUILD / "tests/bench/bench_step", "cuda:0", model, precision, env=ENV) as us:
        peers = {m: Process(TORCH, "-W", "ignore", PEERS / "torch_gpu.py", model, precision, m)
                 for m in MODES} if have_torch() and not TINY else {}
        times = {None: [], **{m: [] for m in peers}}
        for p in [us, *peers.values()]:
            p.ask(f"{batch} {steps}")
        for _ in range(TURN):
            for mode, p in [(None, us), *peers.items()]:
                times[mode].append(p.ask(f"{batch} {steps}")[0] / steps)
        for p in peers.values():
            p.close()
        return {"batch": batch, "seconds": times[None],
                "peers": {m: t for m, t in times.items() if m},
                "flops": us.ask(f"flops {batch}")[0]}


def change_row(model, a, b):
    out = []
    for _ in range(TURN):
        with Process(BUILD / "tests/bench/bench_step", "cuda:0", model, "fp32", env=ENV) as us:
            us.ask(f"{a} 2")
            out.append(us.ask(f"change {a} {b}"))
    return {"step": [o[0] for o in out], "extra": [o[1] for o in out]}


def memory_row(what, floats, times):
    """A kernel's bytes per second, and those of a copy of as many floats in the same turn."""
    with Process(BUILD / "tests/bench/bench_gpu", "cuda:0", env=ENV) as us:
        rates = {"kernel": [], "copy": []}
        for _ in range(TURN):
            for key, line in (("copy", "copy"), ("kernel", what)):
                seconds, moved = us.ask(f"{line} {floats} {times}")
                rates[key].append(moved / seconds)
        return rates


def matrix_row(n, times):
    with Process(BUILD / "tests/bench/bench_gpu", "cuda:0", env=ENV) as us:
        return {p: [f / s if s else 0
                    for s, f in (us.ask(f"matrix {n} {times} {kind}") for _ in range(TURN))]
                for kind, p in enumerate(PRECISIONS)}


def kernel_row(network, batch, precision, floats, times):
    """Of each kernel the start that moves most bytes or makes most operations; how many starts
    there are, and the copies' bandwidth just before."""
    with Process(BUILD / "tests/bench/bench_gpu", "cuda:0", env=ENV) as us:
        seconds, moved = us.ask(f"copy {4 * floats} {times}")
        started = json.loads(
            us.say(
                f"kernels {floats} {times} {batch} {precision} "
                f"{json.dumps(NETWORKS.get(network, network))}"))
    largest, starts = {}, {}
    for r in started:
        starts[r["kernel"]] = starts.get(r["kernel"], 0) + 1
        before = largest.get(r["kernel"])
        if not before or (r["bytes"], r["flops"]) > (before["bytes"], before["flops"]):
            largest[r["kernel"]] = r
    return {"copy": moved / seconds,
            "kernels": [{**r, "starts": starts[k]} for k, r in largest.items()]}


def conformance_row():
    """What everything else stands on: the device suite on this GPU (make check-gpu)."""
    done = subprocess.run(
        [ROOT / "tests" / "run", "cuda-gpu", f"BUILD={os.path.relpath(BUILD, ROOT)}"], cwd=ROOT,
        capture_output=True, text=True, check=False)
    verdict = (done.stdout.splitlines() or [""])[-1]
    if done.returncode != 0:
        print(done.stdout, flush=True)
        raise RuntimeError(f"the device suite does not pass: {verdict}")
    return verdict


def job_row(samples):
    """A real job: two workers share the GPU beside one on the CPU, against each alone."""
    sys.path.insert(0, str(ROOT / "tests" / "integration"))
    from service import Service
    data = {"format": "cifar-10", "path": "cifar10"} if not TINY else {
        "format": "glyphs", "samples": samples, "test_samples": 100}
    job = {"name": "bench", "model": "mlp" if TINY else "resnet20", "data": data,
           "optimizer": {"type": "sgd", "learning_rate": 0.1, "momentum": 0.9},
           "strategy": {"type": "sync"},
           "batching": {"global_batch": 64 if TINY else 256, "policy": "dynamic"},
           "epochs": 1 if TINY else 5, "seed": 1}
    out = {}
    with Service(
            nodes=["gpu-1=cuda:0", "gpu-2=cuda:0",
                   f"cpu=cpu:{1 if TINY else max(1, (os.cpu_count() or 1) // 2)}"]) as s:
        for name, nodes in (("all three", ["gpu-1", "gpu-2", "cpu"]),
                            ("one worker on the GPU", ["gpu-1"]),
                            ("the CPU", ["cpu"]))[:1 if TINY else 3]:
            done = s.wait(s.submit({**job, "workers": len(nodes), "nodes": nodes}), "succeeded",
                          seconds=3600)
            out[name] = {"accuracy": done["metrics"]["test_accuracy"],
                         "samples_per_second": done["metrics"]["samples_per_second"],
                         "batches": {w["node"]: w["batch"] for w in done["workers"]}}
    return out


def rows():
    """(key, how to measure it), most important first."""
    def steps(which):
        for model, batch, n, _ in which:
            for p in PRECISIONS:
                yield f"step {model} {batch} {p}", lambda m=model, b=batch, k=n, q=p: step_row(
                    m, 2 if TINY else b, 1 if TINY else k, q)
    floats = 1000 if TINY else 10_000_000
    if not TINY:
        yield "conformance", conformance_row
    yield from steps(STEPS[:1] if TINY else STEPS[:2])
    yield "change lenet5 128 96", lambda: change_row("lenet5", *((2, 1) if TINY else (128, 96)))
    yield "change lenet5 96 128", lambda: change_row("lenet5", *((1, 2) if TINY else (96, 128)))
    yield "memory rule", lambda: memory_row("rule", floats, 2 if TINY else 200)
    yield "memory update", lambda: memory_row("update", floats, 2 if TINY else 200)
    yield "matrix", lambda: matrix_row(64 if TINY else 8192, 1 if TINY else 5)
    for network, batch, p in [k for k in KERNELS if not TINY or k[0] in NETWORKS]:
        yield f"kernels {network} {batch} {p}", lambda n=network, b=batch, q=p: kernel_row(
            n, 2 if TINY else b, q, floats, 1 if TINY else 21)
    yield from steps([] if TINY else STEPS[2:])
    yield "job", lambda: job_row(640)


def measure():
    done = {}
    if KEPT.exists() and not TINY and not FRESH:
        done = {r["key"]: r["value"] for r in map(json.loads, KEPT.read_text().splitlines())}
    elif not TINY:
        KEPT.unlink(missing_ok=True)
    for key, how in rows():
        if key not in done:
            try:
                done[key] = how()
            # a row that cannot be had must not cost the others
            except (RuntimeError, OSError, AssertionError, ImportError) as e:
                print(f"{key}: cannot be measured: {str(e)[:500]}", file=sys.stderr, flush=True)
                if TINY:
                    raise
                continue
            print(key, json.dumps(done[key])[:300], flush=True)
            if not TINY:
                with KEPT.open("a") as f:
                    f.write(json.dumps({"key": key, "value": done[key]}) + "\n")
    return done


def step_table(done):
    for model, batch, _, least in STEPS:
        for p in PRECISIONS:
            r = done.get(f"step {model} {batch} {p}")
            if not r:
                continue
            eager, compiled = r["peers"].get("eager"), [
                r["peers"][m] for m in MODES[1:] if m in r["peers"]]
            best = min(compiled, key=median, default=None)
            ratio = lambda t: spread(
                [b / a for a, b in zip(r["seconds"], t)]) if t else "missing" # noqa: E731
            wanted = f"{least[0]} and {least[1]}" if least else "1 (fp32), 1.1"
            peak = done.get("matrix", {}).get(p)
            share = f"{r['flops'] / median(r['seconds']) / median(peak):.2f}" if peak and median(
                peak) else ""
            yield [model, r["batch"], p, spread([r["batch"] / s for s in r["seconds"]], "{:.0f}"),
                   ratio(eager), ratio(best), wanted, share]


def kernel_table(done):
    """Kernels that move bytes."""
    for network, batch, p in KERNELS:
        r = done.get(f"kernels {network} {batch} {p}", {"kernels": []})
        for k in r["kernels"]:
            rate = k["bytes"] / k["seconds"] if k["seconds"] > 0 else 0
            if k["bytes"]:
                yield [k["kernel"], f"{network}, {batch}, {p}", k["starts"],
                       f"{k['bytes'] / 1e6:.1f}", f"{1e6 * k['seconds']:.1f}", f"{rate / 1e9:.0f}",
                       f"{rate / r['copy']:.2f}", 0.8 if k["bytes"] >= BEYOND_CACHE
                       else "within the cache"]


def product_table(done):
    """Convolutions and dense layers."""
    for network, batch, p in KERNELS:
        peak = done.get("matrix", {}).get(p)
        for k in done.get(f"kernels {network} {batch} {p}", {"kernels": []})["kernels"]:
            rate = k["flops"] / k["seconds"] if k["seconds"] > 0 else 0
            if k["flops"]:
                yield [k["kernel"], f"{network}, {batch}, {p}", k["starts"],
                       f"{k['flops'] / 1e9:.2f}", f"{1e6 * k['seconds']:.1f}", f"{rate / 1e12:.2f}",
                       f"{rate / median(peak):.2f}" if peak and median(peak) else ""]


def main():
    found = device()
    if "error" in found:
        print("bench-gpu: " + found["error"])
        return
    done = measure()
    if TINY:
        list(step_table(done))
        started = sorted({row[0] for table in (kernel_table, product_table) for row in table(done)})
        print("kernels: " + " ".join(started))
        print(f"{len(done)} rows on the host build: nothing was measured")
        return
    report = Report("bench-gpu", "Training on a GPU",
                    f"Whole steps on {found['description']}; PyTorch eager, `reduce-overhead` and "
                    "`max-autotune`, channels last, data in the GPU's memory (ours is gathered "
                    "there in the step, from bytes; theirs is one minibatch, again and again). "
                    f"The device suite: {done.get('conformance', 'does not pass')}.")
    report.table("Steps against PyTorch",
                 ["network", "minibatch", "precision", "images/s", "times eager",
                  "times the best compiled", "at least", "share of the matrix rate"],
                 step_table(done))
    report.table("A change of the minibatch while training",
                 ["change", "ms beyond its steps", "steps"],
                 ([k[7:], spread([1e3 * x for x in done[k]["extra"]]),
                   spread([x / s for x, s in zip(done[k]["extra"], done[k]["step"])])]
                  for k in done if k.startswith("change")))
    report.table("Every kernel of ours: its largest start, by the GPU's own clock",
                 ["kernel", "network, minibatch, precision", "starts", "MB", "us", "GB/s",
                  "of the copy bandwidth", "at least"], kernel_table(done))
    report.table("Convolutions and dense layers: the largest of each, by the GPU's own clock",
                 ["call", "network, minibatch, precision", "starts", "GFLOP", "us", "TFLOP/s",
                  "of the matrix rate"], product_table(done))
    report.table("Kernels bound by memory, 10 M parameters, by the host's clock",
                 ["kernel", "GB/s", "of the copy bandwidth", "at least"],
                 ([k[7:], spread([x / 1e9 for x in done[k]["kernel"]], "{:.0f}"),
                   spread([a / b for a, b in zip(done[k]["kernel"], done[k]["copy"])]), 0.8]
                  for k in done if k.startswith("memory")))
    report.table("A real job: resnet20 on CIFAR-10, 5 epochs, dynamic",
                 ["workers", "minibatches", "accuracy", "samples/s"],
                 ([name, r["batches"], f"{r['accuracy']:.3f}", f"{r['samples_per_second']:.0f}"]
                  for name, r in done.get("job", {}).items()))
    report.close()


main()
