"""Table 5, ours: which strategy reaches an accuracy first, over how unequal the nodes are, how slow
their links and how many they are; and whether the dry run would have told.

Every strategy of the dry run has its default parameters, minibatches by speed and the best rate of
the grid. A row is CELL STRATEGY, CELL = NODES/SPEEDS/RATIO, RATIO = exchange over computing.
"""
import math
import statistics

import recommend
from plan import Table, mean_of, percent, shown
from simulator import final_accuracy, seconds_to

STRATEGIES = ["sync", "asgd", "softsync", "ssp", "dbs-sgd", "local-sgd", "hpsgd"]  # of a dry run
SPEEDS = {"equal": lambda n: [1] * n,
          "mixed": lambda n: [(1, 1, 0.5, 0.25)[i % 4] for i in range(n)],
          "one slow": lambda n: [1] * (n - 1) + [0.125]}
FIXED, PER_SAMPLE, TOLERANCE = 0.002, 0.001, 0.1


def cells(c):
    return [f"{n}/{speeds}/{ratio:g}" for n in c["nodes"] for speeds in c["speeds"]
            for ratio in c["ratios"]]


def rows(c):
    return [f"{cell}: {strategy}" for cell in cells(c) for strategy in STRATEGIES]


def cluster(c, cell):
    """Links on which a ring all-reduce takes RATIO times the step of a node of speed 1."""
    n, speeds, ratio = cell.split("/")
    n = int(n)
    moved = 2 * (n - 1) / n * 4 * c["parameters"]
    link = {"latency_seconds": 5e-5, "bytes_per_second":
            moved / (float(ratio) * (FIXED + PER_SAMPLE * c["minibatch"]))}
    nodes = [{"name": f"node-{i + 1}", "fixed_seconds": FIXED / v,
              "seconds_per_sample": PER_SAMPLE / v, "jitter": 0.02}
             for i, v in enumerate(SPEEDS[speeds](n))]
    return {"seed": 1, "nodes": nodes, "links": link, "server": link}


def changes(c, cell, strategy):
    n = int(cell.split("/")[0])
    return {"strategy": {"type": strategy}, "workers": n,
            "batching": {"global_batch": n * c["minibatch"], "policy": "dynamic"}}


def make(c, row, known):
    cell, strategy = row.split(": ")
    return changes(c, cell, strategy), cluster(c, cell)


def score(c, row, result, known):
    """The sooner at the accuracy the better; of those that never are, the more accurate one."""
    reached = seconds_to(result, c["accuracy"])
    return -reached if reached else final_accuracy(result) - 1e9


def reached(c, known, cell, strategy):
    """Mean seconds, over the seeds that all strategies of the cell have."""
    runs = {s: known.final(f"{cell}: {s}") for s in STRATEGIES}
    return mean_of(runs[strategy][:min(map(len, runs.values()))],
                   lambda r: seconds_to(r, c["accuracy"]))


def fastest(predicted, worth):
    """The strategy that the dry run promises the most samples a second, each by its worth."""
    return max(STRATEGIES, key=lambda s: predicted[s]["samples_per_second"] * worth(predicted[s]))


# how a user may read the dry run's rows; the form's recommendation is the second
ADVICE = {"most samples/s": lambda predicted: fastest(predicted, lambda row: 1),
          "most samples/s by their worth": lambda predicted: fastest(
              predicted, lambda row: row["sample_worth"])}


def judged(c, known, cell, predicted):
    """(winner, its seconds, [(named, regret) of each advice]) of a cell; None where a strategy has
    not run. Regret: how much longer the named one takes, as a share; infinite if it never gets
    there."""
    if not all(known.final(f"{cell}: {strategy}") for strategy in STRATEGIES):
        return None
    times = {s: t for s in STRATEGIES if (t := reached(c, known, cell, s))}
    if not times:
        return None
    winner = min(times, key=times.get)
    named = [advice(predicted) for advice in ADVICE.values()]
    return winner, times[winner], [(s, times.get(s, float("inf")) / times[winner] - 1)
                                   for s in named]


def line(c, known, cell):
    n, speeds, ratio = cell.split("/")
    runs = [known.final(f"{cell}: {strategy}") for strategy in STRATEGIES]
    return [n, speeds, ratio, min(map(len, runs)),
            *[f"{shown(found, lambda r: seconds_to(r, c['accuracy']))}" for found in runs]]


def verdict(i, told):
    """Of the i-th advice."""
    wrong = sum(named[i][1] > TOLERANCE for _, _, named in told)
    other = sum(winner != named[i][0] for winner, _, named in told)
    return (f"*{list(ADVICE)[i].capitalize()}* names another strategy than the winner in {other} "
            f"of {len(told)} cells, and one that takes more than {percent(TOLERANCE):g} % longer "
            f"in {wrong}.")


def loss(regret):
    return "not reached" if math.isinf(regret) else f"{percent(regret):.0f}"


def behind(c, known, strategy, ratio):
    """Geometric mean over the cells of a ratio: a strategy's time over the winner's. None where it
    has none in a cell."""
    over = []
    for cell in (cell for cell in cells(c) if cell.endswith(f"/{ratio:g}")):
        times = {s: reached(c, known, cell, s) for s in STRATEGIES}
        if not times[strategy]:
            return None
        over.append(times[strategy] / min(t for t in times.values() if t))
    return statistics.geometric_mean(over)


def worth(c, known, cell, strategy):
    """How much of a sample under sync one is worth on the way to the accuracy: samples that sync
    needs over samples that the strategy needs. None: one of the two is not there."""
    def samples(of):
        seconds = reached(c, known, cell, of)
        rate = mean_of(known.final(f"{cell}: {of}"), lambda r: r["metrics"]["samples_per_second"])
        return seconds and rate and seconds * rate
    sync, own = samples("sync"), samples(strategy)
    return sync / own if sync and own else None


def add_worth(c, known, page):
    """What the dry run's `sample_worth` is taken from (job/spec/catalog.def)."""
    others = STRATEGIES[1:]
    found = {cell: [worth(c, known, cell, s) for s in others] for cell in cells(c)}
    def text(values):
        there = [v for v in values if v is not None]
        return f"{statistics.median(there):.2f}" if there else "–"
    page.add("What a sample is worth beside one under `sync`, on the way to that accuracy:")
    page.table(["nodes", "speeds", "exchange / computing", *others],
               [[*cell.split("/"), *(text([v]) for v in values)] for cell, values in found.items()]
               + [["median", "", "", *(text(column) for column in zip(*found.values()))]])


def fill(c, known, page):
    target = f"{percent(c['accuracy']):g} %"
    page.add(f"Virtual seconds to {target}, each strategy with its best rate (–: not made, or a "
             f"seed does not reach it):")
    page.table(["nodes", "speeds", "exchange / computing", "seeds", *STRATEGIES],
               [line(c, known, cell) for cell in cells(c)])
    cases = [known.case(f"{cell}: sync", "final", c["rates"][0], c["seeds"][0])
             for cell in cells(c)]
    predicted = recommend.of([(cell, case["job"], case["cluster"])
                              for cell, case in zip(cells(c), cases)], known.work, STRATEGIES)
    told = {cell: v for cell in cells(c)
            if (v := judged(c, known, cell, predicted[cell]))}
    page.add("The winner beside what the rows of a dry run advise; regret is how much longer that "
             "takes:")
    page.table(["nodes", "speeds", "exchange / computing", "winner", "virtual s",
                *(head for advice in ADVICE for head in (advice, "regret %"))],
               [[*cell.split("/"), winner, f"{seconds:.2f}",
                 *(text for s, regret in named for text in (s, loss(regret)))]
                for cell, (winner, seconds, named) in told.items()])
    page.add(" ".join(verdict(i, list(told.values())) for i in range(len(ADVICE))))
    add_worth(c, known, page)
    page.add(f"At each rate that was tried, virtual seconds to {target} of the validation samples, "
             f"one seed:")
    page.table(*known.by_rate(lambda r: seconds_to(r, c["accuracy"]), "{:.2f}"))
    curves = [(s, [(ratio, behind(c, known, s, ratio)) for ratio in c["ratios"]])
              for s in STRATEGIES]
    page.chart(c["name"], f"Time to {target} over the winner's, mean of cells, {c['title']}",
               "exchange over computing", "times the winner's time", curves, log_x=True,
               log_y=True, x_ticks=c["ratios"])


TABLE = Table("which_strategy", rows, make, fill, score)
