"""Table 4, hierarchical bulk-synchronous SGD (P4): up to 128 learners in groups of four; the
speed-up over one learner, of an epoch and to the same accuracy."""
from plan import Table, accuracy, mean_of, percent, shown
from simulator import seconds_to

GROUP, FIXED, PER_SAMPLE = 4, 0.005, 0.001
ALONE = "1 SGD"


def rules(c):
    averaged = [f"hier-sgd {k1}/{k2}" for k1, k2 in c["averaging"]]
    return averaged + [f"local-sgd {c['averaging'][0][1]}", "sync", "asgd"]


def rows(c):
    return [ALONE] + [f"{n} {rule}" for n in c["learners"] for rule in rules(c)]


def strategy(rule):
    name, _, ks = rule.partition(" ")
    if name == "hier-sgd":
        k1, k2 = map(int, ks.split("/"))
        return {"type": name, "k1": k1, "k2": k2}
    if name == "local-sgd":
        return {"type": name, "k": int(ks)}
    if name == "asgd":
        return {"type": name, "scale": "per_update", "weighting": "plain"}
    return {"type": "sync"}


def cluster(learners):
    """Four GPUs of a machine beside each other, machines on 10 Gbit/s."""
    names = [f"gpu-{i + 1}" for i in range(learners)]
    link = {"latency_seconds": 2e-5, "bytes_per_second": 1.25e9}
    nodes = [{"name": "gpu", "count": learners, "fixed_seconds": FIXED,
              "seconds_per_sample": PER_SAMPLE, "jitter": 0.02}]
    groups = [names[i:i + GROUP] for i in range(0, learners, GROUP)]
    return {"seed": 1, "nodes": nodes, "links": link, "server": link,
            "group_links": {"latency_seconds": 1e-6, "bytes_per_second": 1e10},
            **({"groups": groups} if learners > 1 else {})}


def make(c, row, known):
    learners, rule = row.split(" ", 1)
    n = int(learners)
    changes = {"strategy": strategy(rule), "workers": n,
               "batching": {"global_batch": n * c["minibatch"], "policy": "equal"}}
    if n > 1:
        schedule = {"type": "constant", "warmup_epochs": c["warmup_epochs"]}
        changes["optimizer"] = {"schedule": schedule}
    return changes, cluster(n)


def reached(c, runs):
    """Mean virtual seconds to the accuracy; None where a seed does not reach it."""
    times = [seconds_to(r, c["accuracy"]) for r in runs]
    return sum(times) / len(times) if times and None not in times else None


def line(c, row, known, alone, alone_reached):
    learners, rule = row.split(" ", 1)
    runs = known.final(row)
    took, there = mean_of(runs, lambda r: r["virtual_seconds"]), reached(c, runs)
    return [learners, rule, known.shown_rate(row), len(runs), accuracy(runs),
            shown(runs, lambda r: r["virtual_seconds"]),
            f"{alone / took:.1f}" if alone and took else "–",
            "–" if there is None else f"{there:.2f}",
            f"{alone_reached / there:.1f}" if there and alone_reached else "–"]


def fill(c, known, page):
    alone = mean_of(known.final(ALONE), lambda r: r["virtual_seconds"])
    alone_reached = reached(c, known.final(ALONE))
    target = f"{percent(c['accuracy']):g} %"
    page.table(["learners", "rule", "rate", "seeds", "test accuracy %", "virtual s for all epochs",
                "speed-up of an epoch", f"virtual s to {target}", f"speed-up to {target}"],
               [line(c, row, known, alone, alone_reached) for row in rows(c)])
    page.add("At each rate that was tried, accuracy on the validation samples in %, one seed:")
    page.table(*known.accuracies())
    speed, learnt = [], []
    for rule in rules(c):
        of = [(n, known.final(f"{n} {rule}")) for n in c["learners"]]
        times = [(n, mean_of(runs, lambda r: r["virtual_seconds"])) for n, runs in of]
        speed.append((rule, [(n, alone / t if alone and t else None) for n, t in times]))
        learnt.append((rule, [(n, mean_of(runs, lambda r: percent(r["metrics"]["test_accuracy"])))
                              for n, runs in of]))
    page.chart(c["name"] + "-speedup", f"Speed-up of an epoch over one learner, {c['title']}",
               "learners", "speed-up", speed, log_x=True, log_y=True, x_ticks=c["learners"])
    page.chart(c["name"] + "-accuracy", f"Test accuracy after all epochs, {c['title']}", "learners",
               "test accuracy %", learnt, log_x=True, x_ticks=c["learners"])


TABLE = Table("hierarchical", rows, make, fill)
