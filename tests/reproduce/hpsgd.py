"""Table 3, HPSGD (P2): exchanges of 0.25 to 16 times a step's computing; what each way to live with
them has learnt by the same moment."""
from plan import Table, accuracy, mean_of, percent, shown
from simulator import accuracy_at

WORKERS, FIXED, PER_SAMPLE = 4, 0.002, 0.001
RULES = ["hpsgd", "sync, blocking", "sync, overlapped", "local-sgd", "asgd"]


def rules(c):
    return c.get("rules", RULES)


def rows(c):
    return [f"{ratio:g} {rule}" for ratio in c["ratios"] for rule in rules(c)]


def split(row):
    ratio, rule = row.split(" ", 1)
    return float(ratio), rule


def cluster(c, ratio):
    """Links on which a ring all-reduce of the gradient takes `ratio` times a step's computing."""
    step = FIXED + PER_SAMPLE * c["global_batch"] / WORKERS
    moved = 2 * (WORKERS - 1) / WORKERS * 4 * c["parameters"]
    link = {"bytes_per_second": moved / (ratio * step)}
    nodes = [{"name": "node", "count": WORKERS, "fixed_seconds": FIXED,
              "seconds_per_sample": PER_SAMPLE, "jitter": 0.02}]
    return {"seed": 1, "nodes": nodes, "links": link, "server": link}


def of_hpsgd(c, ratio, known):
    """The first hpsgd run at that ratio; its K and its end hardly depend on the learning rate."""
    middle = c["rates"][(len(c["rates"]) - 1) // 2]
    found = known.result(f"{ratio:g} hpsgd", "select", middle, c["seeds"][0])
    return found if found and "diverged" not in found else None


def make(c, row, known):
    ratio, rule = split(row)
    first = of_hpsgd(c, ratio, known) if rule != "hpsgd" else None
    if rule != "hpsgd" and not first:
        return None
    strategy = {"hpsgd": {"type": "hpsgd"}, "asgd": {"type": "asgd", "scale": "per_update"},
                "local-sgd": {"type": "local-sgd", "k": max(1, round(first["mean_k"] or 1))
                              if first else 1}}.get(rule, {"type": "sync"})
    bucket = 1 << 28 if rule == "sync, blocking" else c["bucket_bytes"]
    return {"strategy": strategy, "workers": WORKERS, "exchange": {"bucket_bytes": bucket},
            "batching": {"global_batch": c["global_batch"], "policy": "equal"}}, cluster(c, ratio)


def score(c, row, result, known):
    """Accuracy at the moment when hpsgd has seen all its samples."""
    ratio, rule = split(row)
    first = result if rule == "hpsgd" else of_hpsgd(c, ratio, known)
    return accuracy_at(result, first["virtual_seconds"]) if "virtual_seconds" in first else 0.0


def moment(ratio, known):
    return mean_of(known.final(f"{ratio:g} hpsgd"), lambda r: r["virtual_seconds"])


def exposed(r):
    """Mean seconds a step in which a worker exchanges or waits, in ms."""
    spent = r["mean_seconds"]
    return 1000 * (spent["exchange_seconds"] + spent["wait_seconds"])


def line(row, known):
    ratio, rule = split(row)
    runs, end = known.final(row), moment(ratio, known)
    k = {"hpsgd": shown(runs, lambda r: r["mean_k"] or 1, "{:.1f}")}.get(rule, "–")
    return [f"{ratio:g}", rule, known.shown_rate(row), len(runs), k,
            shown(runs, lambda r: r["metrics"]["samples_per_second"], "{:.0f}"),
            shown(runs, exposed, "{:.1f}"),
            shown(runs, lambda r: percent(accuracy_at(r, end))) if end else "–", accuracy(runs),
            shown(runs, lambda r: r["virtual_seconds"])]


def fill(c, known, page):
    page.table(["exchange / computing", "rule", "rate", "seeds", "K", "samples/s",
                "exposed exchange and waiting, ms a step", "accuracy % when hpsgd ends",
                "accuracy % at its own end", "virtual s"], [line(row, known) for row in rows(c)])
    page.add("At each rate that was tried, accuracy on the validation samples in % at its own end, "
             "one seed:")
    page.table(*known.accuracies())
    ends = {ratio: moment(ratio, known) for ratio in c["ratios"]}
    curves = [(rule, [(ratio, mean_of(known.final(f"{ratio:g} {rule}"),
                                      lambda r, t=t: percent(accuracy_at(r, t))))
                      for ratio, t in ends.items() if t]) for rule in rules(c)]
    page.chart(c["name"], f"Accuracy when hpsgd has seen all its samples, {c['title']}",
               "exchange over computing", "test accuracy %", curves, log_x=True,
               x_ticks=c["ratios"])


TABLE = Table("hpsgd", rows, make, fill, score)
