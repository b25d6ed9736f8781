#!/usr/bin/env python3
"""Table 1, DBS-SGD (P1): four nodes of speeds 1, 1, 1/2, 1/4; what unequal nodes do to staleness
and learning, and what dynamic batching makes of it."""
from table import best, grid, job, main, markdown, mean_of, percent, rate_of, shown
from simulator import seconds_to

SPEEDS = [1, 1, 0.5, 0.25]


def rows(c):
    """Server rules with the papers' scale (each update is a full step); sync has no other."""
    paper = {"scale": "per_update"}
    return {"asgd": ({"type": "asgd", **paper}, "equal"),
            "softsync n=1": ({"type": "softsync", "n": 1, "rate": "tau", **paper}, "equal"),
            "softsync n=λ": ({"type": "softsync", "n": 4, "rate": "tau", **paper}, "equal"),
            "dbs-sgd c=1": ({"type": "dbs-sgd", "c": 1, **paper}, "dynamic"),
            "dbs-sgd c=λ": ({"type": "dbs-sgd", "c": 4, **paper}, "dynamic"),
            "sync equal": ({"type": "sync"}, "equal"),
            "sync dynamic": ({"type": "sync"}, "dynamic")}


def cluster(c):
    nodes = [{"name": f"node-{i + 1}", "fixed_seconds": 0.002 / v, "seconds_per_sample": 0.001 / v,
              "jitter": 0.02} for i, v in enumerate(SPEEDS)]
    link = {"latency_seconds": 1e-4, "bytes_per_second": 1.25e9}
    return {"seed": 1, "nodes": nodes, "links": link, "server": link}


def tables(c, data, sim, page):
    def make(row, rate, seed):
        strategy, policy = rows(c)[row]
        return job(c, data, strategy, 4, c["global_batch"], rate, seed, policy), cluster(c)
    cases = sim.run(grid(c, rows(c), make))
    target, lines, curves = c["accuracy"], [], []
    for row in rows(c):
        chosen = best(cases, row)
        staleness = [shown(chosen, lambda r, k=k: r["staleness"][k])
                     for k in ("update_mean", "node_mean", "p99", "max")]
        lines.append(
            [row, rate_of(chosen), shown(chosen, lambda r: r["metrics"]["train_loss"], "{:.3f}"),
             shown(chosen, lambda r: percent(r["metrics"]["test_accuracy"])), *staleness,
             shown(chosen, lambda r: r["metrics"]["samples_per_second"], "{:.0f}"),
             shown(chosen, lambda r: seconds_to(r, target))])
        curves.append(
            (row, [(e["time"], percent(e["accuracy"]))
                   for e in chosen[0]["result"].get("evaluations", [])]))
    page.add(markdown(["rule", "rate", "train loss", "test accuracy %", "update-mean staleness",
                       "node-mean", "p99", "max", "samples/s",
                       f"virtual s to {percent(target):g} %"], lines))
    page.chart(c["data"] + "-accuracy", "Test accuracy over virtual time", "virtual seconds",
               "test accuracy %", curves)
    return cases


if __name__ == "__main__":
    main(__file__, tables)
