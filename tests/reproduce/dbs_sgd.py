"""Table 1, DBS-SGD (P1): what unequal nodes do to staleness and to learning under server rules with
equal minibatches, and what minibatches by speed make of it."""
from plan import Table, accuracy, percent, shown
from simulator import seconds_to

SPEEDS = {"1, 1, 1/2, 1/4": lambda n: [(1, 1, 0.5, 0.25)[i % 4] for i in range(n)],
          "one of 1/8": lambda n: [1] * (n - 1) + [0.125],
          "1 to 1/4 evenly": lambda n: [1 - 0.75 * i / (n - 1) for i in range(n)]}


def every_rule(c):
    """Server rules with the papers' scale (each update is a full step); sync has no other."""
    n, paper = c["nodes"], {"scale": "per_update"}
    return {"asgd": ({"type": "asgd", **paper}, "equal"),
            "softsync n=1": ({"type": "softsync", "n": 1, "rate": "tau", **paper}, "equal"),
            "softsync n=λ": ({"type": "softsync", "n": n, "rate": "tau", **paper}, "equal"),
            "dbs-sgd c=1": ({"type": "dbs-sgd", "c": 1, **paper}, "dynamic"),
            "dbs-sgd c=λ": ({"type": "dbs-sgd", "c": n, **paper}, "dynamic"),
            "sync equal": ({"type": "sync"}, "equal"),
            "sync dynamic": ({"type": "sync"}, "dynamic")}


def rules(c):
    """Those that the setting names; all where it names none."""
    of = every_rule(c)
    return {row: of[row] for row in c.get("rules", of)}


def cluster(c):
    link = {"latency_seconds": 1e-4, "bytes_per_second": 1.25e9}
    nodes = [{"name": f"node-{i + 1}", "fixed_seconds": 0.002 / v, "seconds_per_sample": 0.001 / v,
              "jitter": 0.02} for i, v in enumerate(SPEEDS[c["speeds"]](c["nodes"]))]
    return {"seed": 1, "nodes": nodes, "links": link, "server": link}


def make(c, row, known):
    strategy, policy = rules(c)[row]
    batching = {"global_batch": c["global_batch"], "policy": policy}
    return {"strategy": strategy, "workers": c["nodes"], "batching": batching}, cluster(c)


def line(c, row, known):
    runs = known.final(row)
    stale = [shown(runs, lambda r, k=k: r["staleness"][k])
             for k in ("update_mean", "node_mean", "p99")]
    return [row, known.shown_rate(row), len(runs),
            shown(runs, lambda r: r["metrics"]["train_loss"], "{:.3f}"), accuracy(runs), *stale,
            shown(runs, lambda r: r["metrics"]["samples_per_second"], "{:.0f}"),
            shown([r for r in runs if seconds_to(r, c["accuracy"])],
                  lambda r: seconds_to(r, c["accuracy"]))]


def fill(c, known, page):
    page.table(["rule", "rate", "seeds", "train loss", "test accuracy %", "update-mean staleness",
                "node-mean", "p99", "samples/s", f"virtual s to {percent(c['accuracy']):g} %"],
               [line(c, row, known) for row in rules(c)])
    curves = []
    for row in rules(c):
        runs = [r for r in known.final(row) if "diverged" not in r][:1]
        curves += [(row, [(t, percent(a)) for t, a in zip(r["curve"]["time"],
                                                          r["curve"]["accuracy"])]) for r in runs]
    page.chart(c["name"], f"Test accuracy, {c['title']}", "virtual seconds", "test accuracy %",
               curves)
    page.add("With one rate for all rules, accuracy on the validation samples in %, one seed:")
    page.table(*known.accuracies())
    page.add("and their loss:")
    page.table(*known.losses())


TABLE = Table("dbs_sgd", rules, make, fill)
