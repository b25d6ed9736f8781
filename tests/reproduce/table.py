"""What the scripts of all tables have in common: options, the grid of learning rates, the page in
docs/results/.

    configuration (NAME.json, one part per size) ─► cases ─► simulator.py
        ─► the best rate of each row ─► rows ─► page, SVG

Every rule is tuned the same way: every rate of the grid, every seed; the rate with the best mean of
the row's own yardstick is the one that is shown."""
import argparse
import json
import os
import platform
import statistics

import datasets
import svg
from simulator import ROOT, Simulator, final_accuracy


def job(c, data, strategy, workers, batch, rate, seed, policy="equal", **more):
    base = {"name": "reproduce", "model": c["model"], "data": data, "strategy": strategy,
            "workers": workers, "epochs": c["epochs"], "seed": seed,
            "optimizer": {"type": "sgd", "learning_rate": rate},
            "batching": {"global_batch": batch, "policy": policy},
            "evaluate": {"every_epochs": c["evaluate_every_epochs"]}}
    return {**base, **more}


def grid(c, rows, make):
    """Cases of every row, rate and seed; make(row, rate, seed) gives job and cluster."""
    out = []
    for row in rows:
        for rate in c["rates"]:
            for seed in c["seeds"]:
                the_job, cluster = make(row, rate, seed)
                name = row if isinstance(row, str) else " ".join(map(str, row))
                out.append({"row": row, "rate": rate, "seed": seed,
                            "label": f"{name}, rate {rate:g}, seed {seed}",
                            "job": the_job, "cluster": cluster})
    return out


def best(cases, row, yardstick=final_accuracy):
    """The cases (one per seed) of the row's best rate."""
    mine = [case for case in cases if case["row"] == row]
    rates = sorted({case["rate"] for case in mine})
    of = {r: [case for case in mine if case["rate"] == r] for r in rates}
    return of[max(rates,
                  key=lambda r: (statistics.fmean(yardstick(case["result"]) for case in of[r]),
                                 -r))]


def mean_of(cases, get):
    """Mean over seeds, with the deviation where there are several; None if a seed has no value."""
    values = [None if "diverged" in case["result"] else get(case["result"]) for case in cases]
    return None if None in values else statistics.fmean(values)


def shown(cases, get, form="{:.2f}"):
    mean = mean_of(cases, get)
    if mean is None:
        return "–"
    deviation = statistics.stdev([get(case["result"]) for case in cases]) if len(
        cases) > 1 else None
    return form.format(mean) + (" ± " + form.format(deviation) if deviation is not None else "")


def rate_of(cases):
    return f"{cases[0]['rate']:g}" + (
        " (diverged)" if any("diverged" in case["result"] for case in cases) else "")


def percent(x):
    return 100 * x


def markdown(columns, rows):
    return "\n".join("| " + " | ".join(map(str, r)) + " |"
                     for r in [columns, ["---"] * len(columns)] + rows)


def processor():
    with open("/proc/cpuinfo") as f:
        return next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")),
                    platform.machine())


def setting(c):
    """The configuration in a sentence, for the page."""
    n = c["samples"] or "all"
    return (
        f"`{c['model']}` on {c['data']}, {n} training and {c['test_samples'] or 'all'} test "
        f"samples, {c['epochs']} epochs, learning rates "
        f"{', '.join(f'{r:g}' for r in c['rates'])}, seeds {', '.join(map(str, c['seeds']))}.")


class Page:
    def __init__(self, name, out):
        self.name, self.out, self.parts = name, out, []
        os.makedirs(out, exist_ok=True)

    def add(self, text):
        self.parts.append(text)

    def chart(self, suffix, title, x_label, y_label, series, **options):
        file = f"{self.name}-{suffix}.svg"
        if svg.chart(os.path.join(self.out, file), title, x_label, y_label, series, **options):
            self.add(f"![{title}]({file})")

    def write(self, command, cases):
        commits = sorted({case["result"]["commit"] for case in cases})
        took = sum({id(case["result"]): case["result"]["took_seconds"] for case in cases}.values())
        self.add(
            f"Command: `{command}` ({len(cases)} runs, {took:.0f} s of them together; made by "
            f"commit {', '.join(commits)} on {processor()}, {len(os.sched_getaffinity(0))} "
            "cores). Times in the table are virtual.")
        path = os.path.join(self.out, self.name + ".md")
        with open(path, "w") as f:
            f.write("\n\n".join(self.parts) + "\n")
        return path


def main(module_file, tables):
    """tables(c, data, sim, page) makes runs and fills the page; returns its cases. c: the
    configuration's part of the chosen size."""
    name = os.path.splitext(os.path.basename(module_file))[0]
    options = argparse.ArgumentParser(
        description=f"The table '{name}' (see docs/results/README.md).")
    options.add_argument("--size", choices=["smoke", "quick", "full"],
                         default="quick" if os.environ.get("QUICK") else "full")
    options.add_argument("--out", help="where the page goes (default: docs/results/SIZE)")
    options.add_argument("--work",
                         default=os.path.join(ROOT, os.environ.get("BUILD", "build"), "reproduce"),
                         help="where runs are kept")
    options.add_argument("--at-once", type=int, help="runs at a time (default: one per core)")
    o = options.parse_args()
    with open(os.path.splitext(os.path.abspath(module_file))[0] + ".json") as f:
        configuration = json.load(f)
    done = []
    page = Page(name.replace("_", "-"), o.out or os.path.join(ROOT, "docs", "results", o.size))
    page.add(f"# {configuration['title']}\n\n{configuration['about']}")
    for c in configuration[o.size]:
        data = datasets.cut(c["data"], c["samples"], c["test_samples"], o.work)
        sim = Simulator(os.path.join(o.work, name), os.path.join(o.work, "data"), o.at_once,
                        say=lambda text: print(text, flush=True))
        print(f"{name}: {setting(c)}", flush=True)
        page.add(f"## {c['data']}\n\n{setting(c)} {configuration['setting']}")
        done += tables(c, data, sim, page)
    # what a reader of the numbers wrote; kept over runs
    note = os.path.join(page.out, page.name + ".notes")
    if os.path.exists(note):
        with open(note) as f:
            page.add(f.read().strip())
    command = {"quick": f"make reproduce QUICK=1 TABLES={name}",
               "full": f"make reproduce TABLES={name}"}.get(
                   o.size, f"tests/reproduce/{name}.py --size smoke")
    print("wrote", page.write(command, done), flush=True)
