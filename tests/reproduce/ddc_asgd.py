#!/usr/bin/env python3
"""Table 2, DDC-ASGD (P3): N = 3, 6, 12 workers; rules that compensate for delay against plain ASGD
and one node."""
from table import best, grid, job, main, markdown, mean_of, percent, rate_of, shown

RULES = {"asgd": {"type": "asgd"}, "dc-asgd": {"type": "dc-asgd", "adaptive": True, "lambda": 2.0,
                                               "m": 0.95}, "dc-asgdk": {"type": "dc-asgdk"},
         "ddc-asgd": {"type": "ddc-asgd"}}


def cluster(n):
    link = {"latency_seconds": 1e-4, "bytes_per_second": 1.25e9}
    return {"seed": 1,
            "nodes": [{"name": "node", "count": n, "fixed_seconds": 0.002,
                       "seconds_per_sample": 0.001, "jitter": 0.1}], "links": link, "server": link}


def tables(c, data, sim, page):
    rows = ["one node"] + [f"N={n} {rule}" for n in c["workers"] for rule in RULES]

    def make(row, rate, seed):
        if row == "one node":
            return job(c, data, {"type": "sync"}, 1, c["minibatch"], rate, seed), cluster(1)
        n, rule = row[2:].split(" ")
        strategy = {**RULES[rule], "scale": "per_update", "weighting": "plain"}
        return job(c, data, strategy, int(n), int(n) * c["minibatch"], rate, seed), cluster(int(n))
    cases = sim.run(grid(c, rows, make))
    lines, alone = [], mean_of(best(cases, "one node"), lambda r: r["metrics"]["test_accuracy"])
    for row in rows:
        chosen = best(cases, row)
        accuracy = mean_of(chosen, lambda r: r["metrics"]["test_accuracy"])
        lines.append(
            [row.split(" ")[0][2:] if row != "one node" else 1, "SGD" if row == "one node"
             else row.split(" ")[1], rate_of(chosen),
             shown(chosen, lambda r: percent(r["metrics"]["test_accuracy"])),
             "–" if accuracy is None or alone is None else f"{percent(accuracy - alone):+.2f}",
             shown(chosen, lambda r: r["metrics"]["test_loss"], "{:.3f}"),
             shown(chosen, lambda r: r["staleness"]["update_mean"]),
             shown(chosen, lambda r: r["virtual_seconds"])])
    page.add(markdown(["N", "rule", "rate", "test accuracy %", "points from one node", "test loss",
                       "mean delay", "virtual s"], lines))
    # at each rate of its own: what a rule does where no rate is chosen for it
    every = [[row,
              *[shown([k for k in cases if k["row"] == row and k["rate"] == r],
                      lambda r: percent(r["metrics"]["test_accuracy"])) for r in c["rates"]]]
             for row in rows]
    page.add("Test accuracy % at each rate of the grid:\n\n"
             + markdown(["", *[f"rate {r:g}" for r in c["rates"]]], every))
    curves = [(rule,
               [(n, percent(a)) for n in c["workers"]
                for a in [mean_of(best(cases, f"N={n} {rule}"),
                                  lambda r: r["metrics"]["test_accuracy"])] if a])
              for rule in RULES]
    page.chart(c["data"] + "-accuracy", "Test accuracy over the number of workers", "workers",
               "test accuracy %", curves, x_ticks=c["workers"])
    return cases


if __name__ == "__main__":
    main(__file__, tables)
