"""Runs of evenstep-simulate for the tables: each once, kept, several at a time.

A run is (job, cluster). What came out is kept in WORK/TABLE/KEY.json, KEY being the digest of the
two, so a table that was interrupted goes on where it stopped, and a run that two tables or two rows
share is made once. A newcomer would get wrong: the program is not part of the key (hours of work
would go with every build), so each result says which commit made it, and the page names all of
them; `FRESH=1` makes them again."""
import concurrent.futures
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# store/history_parts.h: step, epoch, time, samples, loss, accuracy
EVALUATION = struct.Struct("<q5d")
sys.path.insert(0, os.path.join(ROOT, "tests", "integration"))
import rowtable  # noqa: E402


def program():
    build = os.environ.get("EVENSTEP_BUILD") or os.path.join(ROOT, os.environ.get("BUILD", "build"))
    return os.path.join(build, "evenstep-simulate")


def commit():
    said = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True,
                          text=True)
    return os.environ.get("EVENSTEP_COMMIT") or said.stdout.strip() or "unknown"


def read_evaluations(out):
    path = os.path.join(out, "history", "evaluations.bin")
    blob = open(path, "rb").read() if os.path.exists(path) else b""
    keys = ("step", "epoch", "time", "samples", "loss", "accuracy")
    return [dict(zip(keys, one)) for one in EVALUATION.iter_unpack(blob)]


def read_rounds(out):
    """Mean local steps of a round: every row of a round of K steps stands for 1/K of it (hpsgd
    tells K with each row)."""
    blob = open(os.path.join(out, "history", "rows-0.bin"), "rb").read()
    ks = [row["strategy_value"] for row in rowtable.packed(blob)]
    return len(ks) / sum(1 / k for k in ks) if ks and min(ks) > 0 else None


class Diverged(Exception):
    pass


class Simulator:
    """run() takes cases, dictionaries with `job` and `cluster`, and puts `result` into each."""

    def __init__(self, work, roots, at_once=None, say=print):
        self.work, self.roots, self.say = work, roots, say
        self.at_once = at_once or len(os.sched_getaffinity(0))
        self.commit = commit()
        os.makedirs(work, exist_ok=True)

    def key(self, case):
        text = json.dumps([case["job"], case["cluster"]], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def run(self, cases):
        todo = {}
        for case in cases:
            todo.setdefault(self.key(case), case)
        kept = {k: self.load(k) for k in todo}
        missing = [k for k in todo if kept[k] is None]
        self.say(f"{len(todo)} runs, {len(todo) - len(missing)} of them kept from before")
        with concurrent.futures.ThreadPoolExecutor(self.at_once) as pool:
            under_way = {pool.submit(self.one, k, todo[k]): k for k in missing}
            try:
                for i, done in enumerate(concurrent.futures.as_completed(under_way)):
                    k = under_way[done]
                    kept[k] = done.result()
                    self.say(
                        f"  {i + 1}/{len(missing)}  {todo[k]['label']}: {brief(kept[k])} "
                        f"({kept[k]['took_seconds']:.1f} s)")
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        for case in cases:
            case["result"] = kept[self.key(case)]
        return cases

    def load(self, key):
        path = os.path.join(self.work, key + ".json")
        if os.environ.get("FRESH") or not os.path.exists(path):
            return None
        with open(path) as f:
            return json.load(f)

    def one(self, key, case):
        folder = tempfile.mkdtemp(prefix="run-", dir=self.work)
        begun = time.monotonic()
        try:
            for name in ("job", "cluster"):
                with open(os.path.join(folder, name + ".json"), "w") as f:
                    json.dump(case[name], f)
            done = subprocess.run([program(), "--job", "job.json", "--cluster", "cluster.json",
                                   "--out", "out", "--data", self.roots, "--log-level", "error"],
                                  cwd=folder, capture_output=True, text=True,
                                  env={**os.environ, "OMP_WAIT_POLICY": "passive"})
            result = self.read(os.path.join(folder, "out"), done, case)
            result.update(commit=self.commit, took_seconds=time.monotonic() - begun,
                          job=case["job"], cluster=case["cluster"])
            path = os.path.join(self.work, key + ".json")
            with open(path + ".part", "w") as f:
                json.dump(result, f)
            os.replace(path + ".part", path)
            return result
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def read(out, done, case):
        if done.returncode != 0 and "not finite" in done.stderr:
            return {"diverged": done.stderr.strip()}
        if done.returncode != 0:
            raise RuntimeError(
                f"{case['label']}: evenstep-simulate ended with {done.returncode}: "
                f"{done.stderr.strip()}")
        with open(os.path.join(out, "summary.json")) as f:
            summary = json.load(f)
        workers = [{k: w[k] for k in ("node", "batch", "updates", "compute_seconds",
                                      "exchange_seconds", "wait_seconds")}
                   for w in summary["workers"]]
        result = {k: summary[k] for k in ("virtual_seconds", "updates", "samples", "metrics",
                                          "staleness")}
        result.update(workers=workers if len(workers) <= 16 else [],
                      evaluations=read_evaluations(out))
        if case["job"]["strategy"]["type"] == "hpsgd":
            result["mean_k"] = read_rounds(out)
        return result


def brief(result):
    if "diverged" in result:
        return "diverged"
    return (
        f"accuracy {result['metrics']['test_accuracy']:.4f} after {result['virtual_seconds']:.2f} "
        "virtual s")


def accuracy_at(result, seconds):
    """Of the last evaluation by then; chance before the first one."""
    by_then = [e["accuracy"] for e in result.get("evaluations", []) if e["time"] <= seconds
               * (1 + 1e-9)]
    return by_then[-1] if by_then else 0.1


def seconds_to(result, accuracy):
    for e in result.get("evaluations", []):
        if e["accuracy"] >= accuracy:
            return e["time"]
    return None


def final_accuracy(result):
    return 0.1 if "diverged" in result else result["metrics"]["test_accuracy"]


def give_up(message):
    print(f"reproduce: {message}", file=sys.stderr)
    sys.exit(1)
