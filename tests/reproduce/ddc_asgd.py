"""Table 2, DDC-ASGD (P3): N workers; rules that compensate for delay, against plain ASGD and
against one node."""
from plan import Table, accuracy, mean_of, percent, shown

RULES = {"asgd": {"type": "asgd"},
         "dc-asgd": {"type": "dc-asgd", "adaptive": True, "lambda": 2.0, "m": 0.95},
         "dc-asgdk": {"type": "dc-asgdk"}, "ddc-asgd": {"type": "ddc-asgd"}}
ALONE = "one node"


def rows(c):
    return [ALONE] + [f"N={n} {rule}" for n in c["workers"] for rule in RULES]


def split(row):
    """(N, rule) of a row."""
    n, rule = ("N=1", None) if row == ALONE else row.split(" ")
    return int(n[2:]), rule


def make(c, row, known):
    n, rule = split(row)
    strategy = {**RULES[rule], "scale": "per_update", "weighting": "plain"} if rule else {
        "type": "sync"}
    link = {"latency_seconds": 1e-4, "bytes_per_second": 1.25e9}
    nodes = [{"name": "node", "count": n, "fixed_seconds": 0.002, "seconds_per_sample": 0.001,
              "jitter": 0.1}]
    batching = {"global_batch": n * c["minibatch"], "policy": "equal"}
    return ({"strategy": strategy, "workers": n, "batching": batching},
            {"seed": 1, "nodes": nodes, "links": link, "server": link})


def test_accuracy(r):
    return percent(r["metrics"]["test_accuracy"])


def line(row, known, alone):
    n, rule = split(row)
    runs = known.final(row)
    mean = mean_of(runs, test_accuracy)
    return [n, rule or "SGD", known.shown_rate(row), len(runs), accuracy(runs),
            "–" if mean is None or alone is None else f"{mean - alone:+.2f}",
            shown(runs, lambda r: r["metrics"]["test_loss"], "{:.3f}"),
            shown(runs, lambda r: r["staleness"]["update_mean"]),
            shown(runs, lambda r: r["virtual_seconds"])]


def fill(c, known, page):
    alone = mean_of(known.final(ALONE), test_accuracy)
    page.table(["N", "rule", "rate", "seeds", "test accuracy %", "points from one node",
                "test loss", "mean delay", "virtual s"],
               [line(row, known, alone) for row in rows(c)])
    page.add("At each rate that was tried, accuracy on the validation samples in %, one seed:")
    page.table(*known.accuracies())
    curves = [(rule, [(n, mean_of(known.final(f"N={n} {rule}"), test_accuracy))
                      for n in c["workers"]]) for rule in RULES]
    page.chart(c["name"], f"Test accuracy over the number of workers, {c['title']}", "workers",
               "test accuracy %", curves, x_ticks=c["workers"])


TABLE = Table("ddc_asgd", rows, make, fill)
