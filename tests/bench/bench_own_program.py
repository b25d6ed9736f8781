"""bench-own-program: a PyTorch program (peers/own_program.py) as a run of Evenstep, under PyTorch's
DistributedDataParallel with gloo, and alone; all ranks on this machine, one thread each.

Every program starts with the environment that a rank gives its program (threads, malloc), DDP's and
the one alone too, so a ratio is what taking part costs; what that environment gains on a program
that is started without it is a column of its own. What is compared runs in turns, every second one
in the other order: medians of five, some twelve minutes on two cores that do nothing else."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

OWN = pathlib.Path(__file__).resolve().parents[2] / "run/own-program/bin/python"
if OWN.exists() and not (OWN.parents[2] / "venv/bin/python").exists():
    os.environ.setdefault("EVENSTEP_TORCH", str(OWN))  # read by bench

os.environ["TURNS"] = os.environ.get("TURNS") or ("3" if os.environ.get("QUICK") else "5")

from bench import AT_ROOT, BUILD, PEERS, TORCH, TURNS, Report, median, spread  # noqa: E402
from service import Service  # noqa: E402

PROGRAM = PEERS / "own_program.py"
PYTHON = TORCH
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "4294967296"}
SLOWDOWNS = (3, 3, 6, 12)  # speeds 1, 1, 1/2, 1/4, paced so that two cores carry four ranks
UNEQUAL_BATCH, EQUAL_BATCH = 128, 64


class Run:
    """What the programs of a run left: steps of each rank, and the memory of the ranks."""

    def __init__(self, folder):
        files = [json.loads(f.read_text()) for f in sorted(folder.glob("out-*.json"))]
        self.steps = [f["steps"] for f in files]
        self.memory = [f["memory"] for f in files if f["memory"]]

    def rate(self, first, last):
        """Samples/s of all ranks from sample `first` to sample `last`, counted in order of time."""
        done, begin = 0, None
        for at, samples in sorted(step for rank in self.steps for step in rank):
            done += samples
            if begin is None and done >= first:
                begin, counted = at, done
            elif begin is not None and done >= last:
                return (done - counted) / (at - begin)
        raise RuntimeError(f"{done} samples were trained, not {last}")

    def step_ms(self):
        """The median step of rank 0, in ms."""
        times = [at for at, _ in self.steps[0]]
        return 1e3 * median([b - a for a, b in zip(times[20:], times[21:])])


def start(folder, command, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("EVENSTEP_")}
    return subprocess.Popen([str(c) for c in command], cwd=folder, env={**clean, **env}, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)


def finish(processes):
    said = [p.communicate(timeout=300)[0] for p in processes]
    for p, text in zip(processes, said):
        if p.returncode:
            raise RuntimeError(f"{' '.join(p.args)} failed: {text[-2000:]}")


def alone(network, batch, steps, env=MALLOC):
    with tempfile.TemporaryDirectory() as d:
        finish([start(d, [PYTHON, PROGRAM, "alone", network, batch, steps, f"{d}/out"],
                      **THREADS, **env)])
        return Run(pathlib.Path(d))


def ddp(network, batch, steps, ranks, slowdowns=()):
    with tempfile.TemporaryDirectory() as d, socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        at = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(s.getsockname()[1]),
              "WORLD_SIZE": str(ranks)}
        s.close()
        finish([start(d, [PYTHON, "-W", "ignore", PROGRAM, "ddp", network, batch, steps, f"{d}/out",
                          *slowdowns[rank:rank + 1]], **THREADS, **MALLOC, **at, RANK=str(rank))
                for rank in range(ranks)])
        return Run(pathlib.Path(d))


def without_a_service(folder, spec):
    path = pathlib.Path(folder) / "job.json"
    path.write_text(json.dumps(spec))
    finish([start(folder, [BUILD / "evenstep-worker", "--local", path], **AT_ROOT)])


def with_a_service(folder, spec):
    """The service measures its nodes and sizes their minibatches while the job runs."""
    nodes = [f"n{i}=cpu:1,slowdown={factor}" for i, factor in enumerate(SLOWDOWNS)]
    with Service(nodes=nodes, options=["--allow-programs"]) as s:
        s.wait(s.submit(spec), "succeeded", seconds=240)


def ours(network, batch, steps, ranks, run=without_a_service, strategy="sync", policy="equal"):
    with tempfile.TemporaryDirectory() as d:
        program = {"command": [str(PYTHON), str(PROGRAM)],
                   "args": ["evenstep", network, str(batch), str(steps), f"{d}/out"]}
        run(d, {"program": program, "workers": ranks, "strategy": {"type": strategy}, "epochs": 1,
                "batching": {"policy": policy, "global_batch": batch}})
        return Run(pathlib.Path(d))


def over(ratios):
    return spread(ratios, "{:.3f}")


def in_turns(**calls):
    """What each call gives in each turn, as dicts by name."""
    names = list(calls)
    return [{name: calls[name]() for name in (names if turn % 2 == 0 else names[::-1])}
            for turn in range(TURNS)]


# ---- one rank -----------------------------------------------------------------------------------


def one_rank(report):
    """The program alone and as the only rank of a run."""
    rows, memory = [], []
    for network, steps, goal in (("lenet", 40, "0.98"), ("tiny", 2000, "0.8, goal 0.9")):
        turns = in_turns(theirs=lambda: alone(network, 64, steps),
                         mine=lambda: ours(network, 64, steps, 1),
                         bare=lambda: alone(network, 64, steps, {}))
        memory += [(network, turn["mine"].memory[0]) for turn in turns]
        mine, theirs, bare = ([turn[name].rate(64 * steps // 5, 64 * steps) for turn in turns]
                              for name in ("mine", "theirs", "bare"))
        rows.append([network, f"{median([turn['theirs'].step_ms() for turn in turns]):.2f}",
                     spread(mine, "{:.0f}"), over([a / b for a, b in zip(mine, theirs)]), goal,
                     over([a / b for a, b in zip(mine, bare)])])
    report.table("One rank against the program alone, 64 samples a step",
                 ["network", "ms a step alone", "samples/s", "over the program alone",
                  "asked at least", "over it without malloc's settings"], rows)
    return memory


def memory_of_rank(report, memory):
    """Of the process of the rank beside its program, the block that both share left out."""
    rows = []
    for network, floats in (("lenet", 1663370), ("tiny", 76330)):
        shares, residents = zip(*[m for n, m in memory if n == network])
        rows.append(
            [network, f"{floats * 4 / 1e6:.1f}", spread([b / 1e6 for b in shares], "{:.1f}"),
             spread([b / 1e6 for b in residents], "{:.1f}"), "40 and blocks"])
    report.table("Memory of the rank beside the program, the shared block left out, MB",
                 ["network", "one block", "proportional share (Pss)", "resident (Rss)",
                  "asked at most"], rows)


def waking(report):
    """A program in C that sleeps a millisecond in place of computing (bench_own_program.c)."""

    def cpu(ranks):
        with tempfile.TemporaryDirectory() as d:
            command = [str(BUILD / "tests/bench/bench_own_program")]
            args = [f"{d}/out", "1000", "2000", "1000"]
            without_a_service(d, {"program": {"command": command, "args": args}, "workers": ranks,
                                  "strategy": {"type": "sync"}, "epochs": 1,
                                  "batching": {"policy": "equal", "global_batch": 64}})
            each = [[float(word) for word in f.read_text().split()]
                    for f in pathlib.Path(d).glob("out-*")]
            return [sum(side) / len(each) for side in zip(*each)]

    turns = in_turns(**{str(ranks): lambda ranks=ranks: cpu(ranks) for ranks in (1, 2, 4)})
    report.table("CPU of a step's waiting and waking, a program in C that sleeps in place of "
                 "computing, µs of each rank",
                 ["ranks", "the program, in libevenstep", "asked at most",
                  "the rank, all its threads"],
                 [[ranks, spread([turn[ranks][0] for turn in turns], "{:.1f}"), "20",
                   spread([turn[ranks][1] for turn in turns], "{:.1f}")] for ranks in turns[0]])


# ---- beside DDP ---------------------------------------------------------------------------------


def equal(report):
    rows = []
    for ranks, steps in ((1, 40), (2, 60), (4, 60)):
        span = EQUAL_BATCH * steps // 4, EQUAL_BATCH * steps
        turns = in_turns(mine=lambda: ours("lenet", EQUAL_BATCH, steps, ranks).rate(*span),
                         theirs=lambda: ddp("lenet", EQUAL_BATCH, steps, ranks).rate(*span))
        mine, theirs = ([turn[name] for turn in turns] for name in ("mine", "theirs"))
        rows.append([ranks, spread(mine, "{:.0f}"), spread(theirs, "{:.0f}"),
                     over([a / b for a, b in zip(mine, theirs)]), "1.0"])
    report.table(f"Equal nodes, LeNet, global batch {EQUAL_BATCH}, sync, samples/s",
                 ["ranks", "Evenstep", "DDP", "over DDP", "asked at least"], rows)


def unequal(report):
    batch, warm, steps = UNEQUAL_BATCH, 22, 44
    names = {"sync": "2.0", "asgd": "2.5"}

    def rate(name):
        run = ours("lenet", batch, steps, 4, with_a_service, name, "dynamic")
        return run.rate(batch * warm, batch * (steps - 2))

    turns = in_turns(sync=lambda: rate("sync"), asgd=lambda: rate("asgd"),
                     ddp=lambda: ddp("lenet", batch, 12, 4, SLOWDOWNS).rate(batch * 4, batch * 12))
    theirs = [turn["ddp"] for turn in turns]
    rows = [[name, spread([turn[name] for turn in turns], "{:.0f}"),
             over([turn[name] / turn["ddp"] for turn in turns]), goal]
            for name, goal in names.items()]
    rows.append(["DDP, equal", spread(theirs, "{:.0f}"), "1", ""])
    report.table(f"Speeds 1, 1, 1/2, 1/4 (slowdowns {', '.join(map(str, SLOWDOWNS))}), LeNet, "
                 f"global batch {batch}, samples/s of steps {warm} to {steps - 2}",
                 ["strategy", "samples/s", "over DDP", "asked at least"], rows)


def main():
    wanted = sys.argv[1:]
    report = Report("bench-own-program", "A program of its user's own",
                    "The same PyTorch program under Evenstep, under DDP (gloo) and alone.")
    if not PYTHON.exists():
        report.add("", f"There is no PyTorch at {PYTHON}: nothing is measured.")
        return report.close()

    def asked(part):
        return not wanted or part in wanted

    if asked("one"):
        memory_of_rank(report, one_rank(report))
    for name, part in (("waking", waking), ("equal", equal), ("unequal", unequal)):
        if asked(name):
            part(report)
    if not wanted:
        report.close()
    return None


main()
