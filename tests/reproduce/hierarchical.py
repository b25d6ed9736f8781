#!/usr/bin/env python3
"""Table 4, hierarchical bulk-synchronous SGD (P4): 1 to 128 learners in groups of four; speed-up
over one learner at similar accuracy."""
from table import best, grid, job, main, markdown, mean_of, percent, rate_of, shown
from simulator import final_accuracy, seconds_to

GROUP, FIXED, PER_SAMPLE = 4, 0.005, 0.001


def strategies(c):
    return {"hier-sgd": {"type": "hier-sgd", "k1": c["k1"], "k2": c["k2"]},
            "local-sgd": {"type": "local-sgd", "k": c["k2"]}, "sync": {"type": "sync"},
            "asgd": {"type": "asgd", "scale": "per_update", "weighting": "plain"}}


def cluster(learners):
    """Four GPUs of a machine beside each other, machines on 10 Gbit/s."""
    names = [f"gpu-{i + 1}" for i in range(learners)]
    link = {"latency_seconds": 2e-5, "bytes_per_second": 1.25e9}
    out = {"seed": 1,
           "nodes": [{"name": "gpu", "count": learners, "fixed_seconds": FIXED,
                      "seconds_per_sample": PER_SAMPLE, "jitter": 0.02}], "links": link,
           "group_links": {"latency_seconds": 1e-6, "bytes_per_second": 1e10}, "server": link}
    if learners > 1:
        out["groups"] = [names[i:i + GROUP] for i in range(0, learners, GROUP)]
    return out


def tables(c, data, sim, page):
    rows = [(1, "SGD")] + [(n, rule) for n in c["learners"] for rule in strategies(c)]

    def make(row, rate, seed):
        n, rule = row
        return job(c, data, strategies(c).get(rule, {"type": "sync"}), n, n * c["minibatch"], rate,
                   seed), cluster(n)
    cases = sim.run(grid(c, rows, make))
    target, lines, alone = c["accuracy"], [], best(cases, (1, "SGD"))
    epoch_alone, reach_alone = mean_of(alone, lambda r: r["virtual_seconds"]), mean_of(
        alone, lambda r: seconds_to(r, target))
    speed, accuracy = {rule: [] for rule in strategies(c)}, {rule: [] for rule in strategies(c)}
    for n, rule in rows:
        chosen = best(cases, (n, rule))
        # to the target: the rate that gets there first
        first = best(cases, (n, rule), lambda r: -(seconds_to(r, target) or 1e30))
        took, reach = mean_of(chosen, lambda r: r["virtual_seconds"]), mean_of(
            first, lambda r: seconds_to(r, target))
        lines.append(
            [n, rule, rate_of(chosen),
             shown(chosen, lambda r: percent(r["metrics"]["test_accuracy"])),
             shown(chosen, lambda r: r["virtual_seconds"]), "–" if not took or not epoch_alone
             else f"{epoch_alone / took:.1f}", "–" if reach is None else f"{reach:.2f}",
             "–" if not reach or not reach_alone else f"{reach_alone / reach:.1f}"])
        if rule in speed:
            speed[rule].append((n, epoch_alone / took if took and epoch_alone else None))
            accuracy[rule].append((n, percent(final_accuracy(chosen[0]["result"]))))
    page.add(markdown(["learners", "rule", "rate", "test accuracy %", "virtual s for all epochs",
                       "speed-up of an epoch", f"virtual s to {percent(target):g} %",
                       f"speed-up to {percent(target):g} %"], lines))
    page.chart(c["data"] + "-speedup", "Speed-up of an epoch over one learner", "learners",
               "speed-up", list(speed.items()), log_x=True, log_y=True, x_ticks=c["learners"])
    page.chart(c["data"] + "-accuracy", "Test accuracy after all epochs", "learners",
               "test accuracy %", list(accuracy.items()), log_x=True, x_ticks=c["learners"])
    return cases


if __name__ == "__main__":
    main(__file__, tables)
