"""One run of evenstep-simulate: a job on a virtual cluster, and what a table needs of its result.

Runs take one core each. Those of the full tables only take time that nobody else wants
(SCHED_IDLE): their clock is virtual, so a loaded machine makes them slower and nothing else.
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# store/history/parts.h: step, epoch, time, samples, loss, accuracy
EVALUATION = struct.Struct("<q5d")
CURVE = ("step", "epoch", "time", "samples", "loss", "accuracy")
POINTS = 200
ENDS_WITH_US = ["setpriv", "--pdeathsig", "KILL"]  # however we end
sys.path.insert(0, os.path.join(ROOT, "tests", "integration"))
import rowtable  # noqa: E402


class Interrupted(Exception):
    """The run was stopped before its end; nothing of it is kept."""


def give_up(message):
    print(f"reproduce: {message}", file=sys.stderr)
    sys.exit(1)


def program():
    build = os.environ.get("EVENSTEP_BUILD") or os.path.join(ROOT, os.environ.get("BUILD", "build"))
    return os.path.join(build, "evenstep-simulate")


def remove_leftovers(work):
    """The folders of runs whose process was killed."""
    for name in os.listdir(work):
        of = re.fullmatch(r"run-(\d+)-.*", name)
        if of and not os.path.exists(f"/proc/{of[1]}"):
            shutil.rmtree(os.path.join(work, name), ignore_errors=True)


class Simulator:
    """Runs that can be stopped all at once, from another thread."""

    def __init__(self, work, roots, idle=False):
        self.work, self.roots = work, roots
        self.before = [*ENDS_WITH_US, *(["chrt", "--idle", "0"] if idle else [])]
        self.stopped, self.children, self.lock = False, set(), threading.Lock()
        os.makedirs(work, exist_ok=True)
        remove_leftovers(work)

    def stop(self):
        with self.lock:
            self.stopped = True
            for child in self.children:
                child.kill()

    def run(self, job, cluster, read):
        """read(folder of what came out, summary) of a run; a loss that is not finite is a
        result."""
        folder = tempfile.mkdtemp(prefix=f"run-{os.getpid()}-", dir=self.work)
        try:
            for name, what in (("job", job), ("cluster", cluster)):
                with open(os.path.join(folder, name + ".json"), "w") as f:
                    json.dump(what, f)
            code, said = self.wait_for(folder)
            if code != 0 and "NaN or infinite" in said:
                return {"diverged": said}
            if code != 0:
                raise RuntimeError(
                    f"{job['strategy']}: evenstep-simulate ended with {code}: {said}")
            with open(os.path.join(folder, "out", "summary.json")) as f:
                return read(os.path.join(folder, "out"), json.load(f))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def wait_for(self, folder):
        command = [*self.before, program(), "--job", "job.json", "--cluster", "cluster.json",
                   "--out", "out", "--data", self.roots, "--threads", "1",
                   "--log-level", "error"]
        with self.lock:
            if self.stopped:
                raise Interrupted
            child = subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE,
                                     env={**os.environ, "OMP_WAIT_POLICY": "passive"})
            self.children.add(child)
        said = child.communicate()[1].strip()
        with self.lock:
            self.children.discard(child)
            if self.stopped:
                raise Interrupted
        return child.returncode, said


# ---- what is kept of a run ----------------------------------------------------------------------


def read_curve(out):
    """Evaluations by column, at most POINTS of them, the last one always."""
    path = os.path.join(out, "history", "evaluations.bin")
    blob = open(path, "rb").read() if os.path.exists(path) else b""
    points = list(EVALUATION.iter_unpack(blob))
    every = -(-len(points) // POINTS) or 1
    kept = points[::-1][::every][::-1]
    return {name: [float(f"{p[i]:.6g}") for p in kept] for i, name in enumerate(CURVE)}


def read_mean_k(out):
    """Mean local steps of a round: each row of a round of K steps stands for 1/K of it."""
    blob = open(os.path.join(out, "history", "rows-0.bin"), "rb").read()
    ks = [row["strategy_value"] for row in rowtable.packed(blob)]
    return len(ks) / sum(1 / k for k in ks) if ks and min(ks) > 0 else None


def read_result(out, summary):
    result = {k: summary[k] for k in ("virtual_seconds", "updates", "samples", "metrics",
                                      "staleness")}
    spent = ("compute_seconds", "exchange_seconds", "wait_seconds")
    workers = summary["workers"]
    result["mean_seconds"] = {k: sum(w[k] for w in workers) / len(workers) for k in spent}
    result["mean_k"] = read_mean_k(out)
    result["curve"] = read_curve(out)
    return result


def timed(simulator, job, cluster):
    begun = time.monotonic()
    result = simulator.run(job, cluster, read_result)
    return {**result, "took_seconds": round(time.monotonic() - begun, 1)}


# ---- questions to a result ----------------------------------------------------------------------


def final_accuracy(result):
    return 0.0 if "diverged" in result else result["metrics"]["test_accuracy"]


def accuracy_at(result, seconds):
    """Of the last evaluation by then, times as exact as a curve keeps them; chance (all sets have
    ten classes) before the first one."""
    if "diverged" in result:
        return 0.0
    curve = result["curve"]
    by_then = [a for t, a in zip(curve["time"], curve["accuracy"]) if t <= seconds * (1 + 1e-5)]
    return by_then[-1] if by_then else 0.1


def seconds_to(result, accuracy):
    """Virtual seconds to the first evaluation with that accuracy; None if there is none."""
    if "diverged" in result:
        return None
    curve = result["curve"]
    return next((t for t, a in zip(curve["time"], curve["accuracy"]) if a >= accuracy), None)
