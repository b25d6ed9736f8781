#!/usr/bin/env python3
"""Table 3, HPSGD (P2): exchanges of 0.25, 1, 4 and 16 times a step's computing; what each way to
live with them has learnt by the same moment."""
from table import best, grid, job, main, markdown, mean_of, percent, rate_of, shown
from simulator import accuracy_at

WORKERS, FIXED, PER_SAMPLE = 4, 0.002, 0.001
RULES = ["sync, blocking", "sync, overlapped", "local-sgd", "asgd", "hpsgd"]


def cluster(c, ratio):
    """Links on which a ring all-reduce of the gradient takes `ratio` times a step's computing."""
    step = FIXED + PER_SAMPLE * c["global_batch"] / WORKERS
    link = {"bytes_per_second": 2 * (WORKERS - 1) / WORKERS * 4 * c["parameters"] / (ratio * step)}
    return {"seed": 1,
            "nodes": [{"name": "node", "count": WORKERS, "fixed_seconds": FIXED,
                       "seconds_per_sample": PER_SAMPLE, "jitter": 0.02}], "links": link,
            "server": link}


def strategy_of(rule, k):
    if rule.startswith("sync"):
        return {"type": "sync"}
    return {"local-sgd": {"type": "local-sgd", "k": k},
            "asgd": {"type": "asgd", "scale": "per_update"}, "hpsgd": {"type": "hpsgd"}}[rule]


def tables(c, data, sim, page):
    def make_with(ks):
        def make(row, rate, seed):
            ratio, rule = row
            more = {"exchange": {"bucket_bytes": 1 << 28 if rule == "sync, blocking"
                                 else c["bucket_bytes"]}}
            return job(c, data, strategy_of(rule, ks.get(ratio)), WORKERS, c["global_batch"], rate,
                       seed, **more), cluster(c, ratio)
        return make
    cases = sim.run(grid(c, [(r, "hpsgd") for r in c["ratios"]], make_with({})))
    ks = {}
    for ratio in c["ratios"]:        # local-sgd gets the K that hpsgd found
        found = [case["result"]["mean_k"] for case in cases if case["row"][0] == ratio
                 and case["result"].get("mean_k")]
        ks[ratio] = max(1, round(sum(found) / len(found))) if found else 1
    cases += sim.run(grid(c, [(r, rule) for r in c["ratios"] for rule in RULES if rule != "hpsgd"],
                          make_with(ks)))
    lines, at_the_end, at_the_moment = [], [], {rule: [] for rule in RULES}
    for ratio in c["ratios"]:
        moment = min(case["result"]["virtual_seconds"]
                     for case in cases if case["row"] == (ratio, "hpsgd")
                     and "diverged" not in case["result"])
        for rule in RULES:
            chosen = best(cases, (ratio, rule), lambda r: accuracy_at(r, moment))
            reached = mean_of(chosen, lambda r: accuracy_at(r, moment))
            at_the_moment[rule].append((ratio, None if reached is None else percent(reached)))
            k = shown(chosen, lambda r: r["mean_k"],
                      "{:.1f}") if rule == "hpsgd" else ks[ratio] if rule == "local-sgd" else "–"
            exposed = shown(chosen,
                            lambda r: sum(w["exchange_seconds"] + w["wait_seconds"]
                                          for w in r["workers"]) / WORKERS * 1000, "{:.1f}")
            lines.append(
                [f"{ratio:g}", rule, rate_of(chosen), k,
                 shown(chosen, lambda r: r["metrics"]["samples_per_second"], "{:.0f}"), exposed,
                 shown(chosen, lambda r: percent(accuracy_at(r, moment))),
                 shown(chosen, lambda r: percent(r["metrics"]["test_accuracy"])),
                 shown(chosen, lambda r: r["virtual_seconds"])])
    page.add(markdown(
        ["exchange / computing", "rule", "rate", "K", "samples/s",
         "exposed exchange and waiting, ms a step", "accuracy % when hpsgd ends",
         "accuracy % at its own end", "virtual s"], lines))
    page.chart(c["data"] + "-accuracy",
               "Accuracy at the moment when hpsgd has seen all its samples",
               "exchange over computing", "test accuracy %",
               [(rule, at_the_moment[rule]) for rule in RULES], log_x=True, x_ticks=c["ratios"])
    return cases


if __name__ == "__main__":
    main(__file__, tables)
