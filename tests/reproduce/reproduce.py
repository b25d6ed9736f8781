#!/usr/bin/env python3
"""The papers' tables: makes the runs that are missing, the most wanted first, and the pages.

    settings (TABLE.json) ─► plan.py ─► simulator.py ─► runs.py ─► fill() of TABLE.py ─► page, SVG
                                a core each, until --time is over

It may be stopped at any moment: a run is kept when it has ended, and pages are made of what is
there. Runs of all tables are taken together, so that the first hours go to the first stages of
each.
"""
import argparse
import concurrent.futures
import importlib
import json
import os
import re
import signal
import threading

from page import Page, described
from plan import Known
from proofs import Proofs
from runs import Runs
from simulator import HERE, ROOT, Interrupted, Simulator, give_up, timed

TABLES = ("dbs_sgd", "ddc_asgd", "hierarchical", "hpsgd", "which_strategy")
SIZES = ("smoke", "quick", "scouting", "full")
COMMITTED = ("scouting", "full")  # their runs are kept in the project, and add up
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


def duration(text):
    parts = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not parts:
        raise argparse.ArgumentTypeError(f"'{text}' is no time such as 90m or 2h")
    return float(parts[1]) * SECONDS[parts[2]]


def options():
    o = argparse.ArgumentParser(description="The tables of the papers (docs/results/README.md).")
    o.add_argument("tables", nargs="*", metavar="TABLE[:SETTING]",
                   help=f"of {', '.join(TABLES)} (all); with a setting, only runs of that one")
    o.add_argument("--size", choices=SIZES, default=os.environ.get("SIZE") or
                   ("quick" if os.environ.get("QUICK") else "full"))
    o.add_argument("--time", type=duration, default=os.environ.get("TIME") or None,
                   help="stop after that long, e.g. 90m or 2h (default: when all is made)")
    o.add_argument("--out", help="where pages go (default: docs/results/SIZE)")
    o.add_argument("--runs", help="where runs are (default: docs/results/runs; quick: --work)")
    o.add_argument("--work", default=os.path.join(ROOT, os.environ.get("BUILD", "build"),
                                                  "reproduce"), help="data and runs under way")
    o.add_argument("--at-once", type=int, default=len(os.sched_getaffinity(0)),
                   help="runs at a time (default: one per core)")
    o.add_argument("--awake", action="store_true", help="runs have the priority of this command, "
                   "not only time that nobody else wants")
    o.add_argument("--pages", action="store_true", help="make pages only, of what is there")
    o = o.parse_args()
    o.tables = chosen(o.tables or TABLES, o.size)
    o.runs = o.runs or (os.path.join(ROOT, "docs", "results", "runs") if o.size in COMMITTED
                        else os.path.join(o.work, "runs", o.size))
    o.out = o.out or os.path.join(ROOT, "docs", "results", o.size)
    return o


def configuration(name):
    with open(os.path.join(HERE, name + ".json")) as f:
        return json.load(f)


def chosen(words, size):
    """table → names of the settings whose runs are made, of words like TABLE and TABLE:SETTING."""
    tables = {}
    for word in words:
        table, _, setting = word.partition(":")
        if table not in TABLES:
            give_up(f"there is no table {table}; there are {', '.join(TABLES)}")
        there = [c["name"] for c in configuration(table)[size]]
        if setting and setting not in there:
            give_up(f"{table} has no {size} setting {setting}; there are {', '.join(there)}")
        tables.setdefault(table, []).extend([setting] if setting else there)
    return tables


# ---- runs ---------------------------------------------------------------------------------------


def label(case):
    return (f"{case['table']} {case['setting']}: {case['row']}, {case['form']}, "
            f"rate {case['rate']:g}, seed {case['seed']}")


def brief(result):
    if "diverged" in result:
        return "diverged"
    return (f"accuracy {result['metrics']['test_accuracy']:.4f} "
            f"after {result['virtual_seconds']:.2f} virtual s")


class Driver:
    """Keeps as many runs going as there are cores, the most wanted ones first."""

    def __init__(self, settings, sim, runs, at_once):
        self.settings, self.sim, self.runs, self.at_once = settings, sim, runs, at_once
        self.under_way, self.made = {}, 0

    def wanted(self):
        busy = {path for path, _ in self.under_way.values()}
        todo = [(stage, i, case) for i, known in enumerate(self.settings)
                for stage, case in known.todo() if self.runs.path(case) not in busy]
        return min(todo, key=lambda t: t[:2])[2] if todo else None

    def fill(self, pool):
        while len(self.under_way) < self.at_once and not self.sim.stopped:
            try:
                case = self.wanted()
                if case is None:
                    return
                self.runs.proofs.of(case)  # before the run: it is kept with its proof
            except Interrupted:
                return
            run = pool.submit(timed, self.sim, case["job"], case["cluster"])
            self.under_way[run] = self.runs.path(case), case

    def run(self):
        with concurrent.futures.ThreadPoolExecutor(self.at_once) as pool:
            self.fill(pool)
            while self.under_way:
                done, _ = concurrent.futures.wait(self.under_way, return_when="FIRST_COMPLETED")
                for run in done:
                    self.take(self.under_way.pop(run)[1], run)
                self.fill(pool)

    def take(self, case, run):
        try:
            result = run.result()
        except Interrupted:
            return
        except BaseException:
            self.sim.stop()
            raise
        self.made += 1
        self.runs.keep(case, result)
        print(f"  {label(case)}: {brief(result)} ({result['took_seconds']:.0f} s)", flush=True)


def until_then(sim, seconds):
    """Stops all runs after that many seconds, or at once when the user says so."""
    def stop(*_):  # a thread of its own: the one that the signal met may hold the lock
        threading.Thread(target=sim.stop).start()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    if seconds:
        timer = threading.Timer(seconds, sim.stop)
        timer.daemon = True
        timer.start()


# ---- pages --------------------------------------------------------------------------------------


def seeds(known):
    """How much of a setting is there, in a sentence."""
    c = known.setting
    counts = [len(known.final(row)) for row in known.table.rows(c)]
    whole = sum(n == len(c["seeds"]) for n in counts)
    if whole == len(counts):
        return f"All {len(counts)} rows have {len(c['seeds'])} seed{'s' * (len(c['seeds']) > 1)}."
    return (f"{whole} of {len(counts)} rows have all of {len(c['seeds'])} seeds, "
            f"{sum(n > 0 for n in counts)} have one or more.")


def begun(known):
    return any(known.selected(row) for row in known.table.rows(known.setting))


def write_page(name, settings, o):
    told = configuration(name)
    page = Page(name.replace("_", "-"), o.out)
    page.add(f"# {told['title']}\n\n{told['about']}")
    for known in filter(begun, settings):
        c = known.setting
        page.add(f"## {c['title']}\n\n{described(c)} {told['setting']} {seeds(known)}")
        known.table.fill(c, known, page)
    page.notes()
    rest = [known.setting["title"] for known in settings if not begun(known)]
    if rest:
        page.add(f"No run has been made of: {'; '.join(rest)}.")
    size = {"quick": "QUICK=1 ", "full": ""}.get(o.size, f"SIZE={o.size} ")
    page.add(f"Command: `make reproduce {size}TABLES={name}`. Rates were chosen on a tenth of the "
             f"training samples, one seed each. Times are virtual.")
    print("wrote", page.write(), flush=True)


def main():
    o = options()
    roots = os.path.join(o.work, "data")
    sim = Simulator(o.work, roots, idle=o.size in COMMITTED and not o.awake)
    os.makedirs(o.runs, exist_ok=True)
    runs = Runs(o.runs, Proofs(sim, os.path.join(o.runs, "proofs.json")))
    tables = {name: importlib.import_module(name).TABLE for name in o.tables}
    settings = {name: [Known(tables[name], c, runs, roots) for c in configuration(name)[o.size]]
                for name in o.tables}
    if not o.pages:
        driver = Driver([known for name, some in settings.items() for known in some
                         if known.setting["name"] in o.tables[name]], sim, runs, o.at_once)
        until_then(sim, o.time)
        driver.run()
        sim.stopped = False  # pages may need proofs
        print(f"{driver.made} runs were made", flush=True)
    for name in o.tables:
        write_page(name, settings[name], o)


if __name__ == "__main__":
    main()
