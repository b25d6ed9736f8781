"""bench-cpu: a whole training step of one worker (forward, loss, backward, update; SGD with
momentum and weight decay) on minibatches in memory, against PyTorch's best of four ways: its own
layout or channels last, eager or compiled."""
import pathlib

from bench import BUILD, PEERS, TORCH, TURNS, Process, Report, have_torch, median, spread

BATCH = 128
WAYS = [(layout, mode) for layout in ("nchw", "nhwc") for mode in ("eager", "compiled")]
STEPS = {"lenet5": 8, "resnet20": 3}
AT_LEAST = {"lenet5": 1.15, "resnet20": 1.2}


def ours(model, threads, precision="fp32"):
    return Process(BUILD / "tests/bench/bench_step", f"cpu:{threads}", model, precision,
                   env={"OMP_NUM_THREADS": str(threads)})


def theirs(model, threads, way):
    return Process(TORCH, "-W", "ignore", PEERS / "torch_step.py", model, threads, *way,
                   env={"OMP_NUM_THREADS": str(threads)})


def steps(model, threads):
    """Rows of the first table: images/s, ours and PyTorch's ways in turns."""
    n = STEPS[model] * threads
    with ours(model, threads) as us:
        peers = {way: theirs(model, threads, way) for way in WAYS} if have_torch() else {}
        times, peak, flops = {None: []}, [], us.ask(f"flops {BATCH}")[0]
        for p in [us, *peers.values()]:
            p.ask(f"{BATCH} {n}")
        for _ in range(TURNS):
            peak.append(us.ask("peak")[0])
            times[None].append(us.ask(f"{BATCH} {n}")[0] / n)
            for way, p in peers.items():
                times.setdefault(way, []).append(p.ask(f"{BATCH} {n}")[0] / n)
        share = [flops / t / p for t, p in zip(times[None], peak)]
        memory = us.ask("memory")[0], min((p.ask("memory")[0] for p in peers.values()),
                                          default=None)
        for p in peers.values():
            p.close()
    best = min((way for way in times if way), key=lambda way: median(times[way]), default=None)
    ratio = [b / a for a, b in zip(times[None], times[best])] if best else []
    return [model, threads, spread([BATCH / t for t in times[None]], "{:.0f}"),
            f"{spread([BATCH / t for t in times[best]], '{:.0f}')}, {best[0]} {best[1]}" if best
            else "missing", spread(ratio) if best else "", AT_LEAST[model], spread(share),
            f"{memory[0] / 1e6:.0f} MB"] + (
        [f"{memory[1] / 1e6:.0f} MB", f"{memory[0] / memory[1]:.2f}"] if best else ["", ""])


def rounded(model, threads):
    """A row of bf16 over fp32, in turns."""
    n = STEPS[model] * threads
    with ours(model, threads) as exact, ours(model, threads, "bf16") as bf16:
        for p in (exact, bf16):
            p.ask(f"{BATCH} {n}")
        pairs = [(exact.ask(f"{BATCH} {n}")[0] / n, bf16.ask(f"{BATCH} {n}")[0] / n)
                 for _ in range(TURNS)]
        memory = [p.ask("memory")[0] / 1e6 for p in (exact, bf16)]
    return [model, threads, *(spread([BATCH / t[k] for t in pairs], "{:.0f}") for k in (0, 1)),
            spread([a / b for a, b in pairs]), 1.3, *(f"{m:.0f} MB" for m in memory)]


def sizes(model):
    with ours(model, 1) as us:
        for batch in (16, 32, 64, 128, 256):
            n = max(1, STEPS[model] * BATCH // batch // 2)
            us.ask(f"{batch} {n}")
            per_step = [us.ask(f"{batch} {n}")[0] / n for _ in range(TURNS)]
            yield [model, batch, spread([1e3 * t for t in per_step], "{:.1f}"),
                   spread([batch / t for t in per_step], "{:.0f}")]


def changes(model):
    for a, b in ((128, 96), (96, 128)):
        cost, share = [], []
        # a program that was there before costs nothing, so each turn has a fresh process
        for _ in range(TURNS):
            with ours(model, 1) as us:
                us.ask(f"{a} 2")
                step, extra, _ = us.ask(f"change {a} {b}")
                cost.append(1e3 * extra)
                share.append(extra / step)
        yield [model, f"{a} → {b}", spread(cost, "{:.1f}"), spread(share)]


def main():
    report = Report("bench-cpu", "A training step on a CPU",
                    "One worker, whole steps, minibatch 128 unless said. PyTorch's column is the "
                    "best of its own layout and channels last, eager and compiled "
                    "(`max-autotune-no-cudagraphs`), with the same number of threads. The peak is "
                    "that of multiply-adds from registers on as many threads, measured in every "
                    "turn; floating-point operations count convolutions directly.")
    report.table("Against PyTorch", ["network", "threads", "images/s", "PyTorch, images/s", "ratio",
                                     "at least", "share of the peak", "memory", "PyTorch's",
                                     "ratio"],
                 (steps(model, threads) for model in STEPS for threads in (1, 2)))
    if "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text():
        report.table("bf16 over fp32",
                     ["network", "threads", "fp32, images/s", "bf16, images/s", "ratio", "at least",
                      "memory in fp32", "in bf16"],
                     (rounded(model, threads) for model in STEPS for threads in (1, 2)))
    report.table("Minibatch sizes, 1 thread", ["network", "minibatch", "ms per step", "images/s"],
                 (row for model in STEPS for row in sizes(model)))
    report.table(
        "A change of the minibatch while training, 1 thread: all that it costs beyond its steps",
        ["network", "change", "ms", "steps"],
        (row for model in STEPS for row in changes(model)))
    report.close()


main()
