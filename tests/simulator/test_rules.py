"""What must hold whatever the numbers: which strategies are equal, staleness, jitter,
reruns, dynamic batching, timing alone."""
import json
import os
import re

import numpy as np
import pytest

import reference
from harness import CASES, UNEQUAL, Case, make_init, moved, nodes, simulate, trim
from test_strategies import ALL, LARGE, LINKS, MOMENTUM, SERVER, SIZES, check, named

DIFFERENT = {"same": False, "batching": SIZES}


def run(folder, strategy, **how):
    return Case(folder, strategy, **how).run()


def close(a, b):
    """To 1e-6 of the way for every update (docs/semantics.md#equal-sums)."""
    off = moved(a.case, a.params(), b.params())
    assert off <= 1e-6 * max(a.summary["updates"], b.summary["updates"]), off


# ---- strategies that are equal -------------------------------------------------------------------

def test_check_1_softsync_of_all_workers_that_block_is_sync(tmp_path):
    a = run(tmp_path / "a", {"type": "softsync", "n": 1, "pull": "blocking"}, optimizer=MOMENTUM,
            **DIFFERENT)
    b = run(tmp_path / "b", {"type": "sync"}, optimizer=MOMENTUM, **DIFFERENT)
    close(a, b)
    assert a.summary["updates"] == b.summary["updates"] == 60
    assert a.summary["virtual_seconds"] == pytest.approx(b.summary["virtual_seconds"], rel=1e-9)


def test_check_2_dc_asgd_without_lambda_is_asgd(tmp_path):
    a = run(tmp_path / "a", {"type": "dc-asgd", "lambda": 0}, optimizer=MOMENTUM, **DIFFERENT)
    b = run(tmp_path / "b", {"type": "asgd"}, optimizer=MOMENTUM, **DIFFERENT)
    assert (a.params() == b.params()).all()


def test_check_3_ddc_asgd_without_staleness_is_sgd(tmp_path):
    one = {"workers": 1, "cluster": {"nodes": nodes(1.0)}, "same": False}
    close(run(tmp_path / "a", {"type": "ddc-asgd", "mu": 0.9}, **one),
          run(tmp_path / "b", {"type": "sync"}, **one))


def test_check_3_ddc_asgd_at_the_mean_staleness_is_dc_asgdk(tmp_path):
    """With mu = 0 the rules differ only where tau is not W-1: in the first W pushes of nodes that
    are almost alike."""
    alike = {"cluster": {"nodes": nodes(1.0, 1.0001, 1.0002, 1.0003)}, "same": False, "steps": 100,
             "optimizer": {"learning_rate": 0.05}}
    a, b = run(tmp_path / "a", {"type": "ddc-asgd", "mu": 0}, **alike), run(
        tmp_path / "b", {"type": "dc-asgdk"}, **alike)
    assert a.summary["staleness"]["histogram"] == [1, 1, 1, 397]
    rules = []
    for kind in ({"type": "ddc-asgd", "mu": 0.0}, {"type": "dc-asgdk"}):
        case = Case(tmp_path / kind["type"], kind, **alike)
        rule = reference.Rule(reference.Job(case.job, case.cluster, case.data, case.init))
        rule.version = 3
        for _ in range(20):
            g = rule.j.gradient(rule.w, 0, 64)
            rule.apply([(g, 16, rule.version - 3, rule.w, 0)], 1)
        rules.append(rule.w)
    assert np.abs(rules[0] - rules[1]).max() < 1e-12
    assert moved(a.case, a.params(), b.params()) < 0.05


@pytest.mark.parametrize("size", [1, 2, 4])
def test_check_4_hier_sgd_1_1_is_sync_and_so_is_local_sgd_1(tmp_path, size):
    plain = {"learning_rate": 0.1}
    sync = run(tmp_path / "a", {"type": "sync"}, optimizer=plain, **DIFFERENT)
    close(run(tmp_path / "b", {"type": "hier-sgd", "k1": 1, "k2": 1, "group_size": size},
              optimizer=plain, **DIFFERENT), sync)
    close(run(tmp_path / "c", {"type": "local-sgd", "k": 1}, optimizer=plain, **DIFFERENT), sync)


@pytest.mark.parametrize("k1,size", [(2, 1), (6, 2), (6, 4)])
def test_check_4_hier_sgd_of_groups_of_one_or_equal_periods_is_local_sgd(tmp_path, k1, size):
    a = run(tmp_path / "a", {"type": "hier-sgd", "k1": k1, "k2": 6, "group_size": size},
            optimizer=MOMENTUM, **DIFFERENT)
    close(a, run(tmp_path / "b", {"type": "local-sgd", "k": 6}, optimizer=MOMENTUM, **DIFFERENT))


def test_check_5_hpsgd_on_an_instant_network_is_sgd_a_round_late(tmp_path):
    case = Case(tmp_path, {"type": "hpsgd"}, same=False)
    ran, j = case.run(), reference.Job(case.job, case.cluster, case.data, case.init)
    w, late = j.init, np.zeros_like(j.init)
    for first in range(0, j.N, 64):
        # round r computes on w^r and applies what round r-1 found
        w, late = w - 0.2 * late, j.gradient(w, first, 64)
    assert moved(case, ran.params(), w - 0.2 * late) < 1e-4
    assert trim(ran.summary["staleness"]["histogram"]) == [0, 240]


@pytest.mark.parametrize("kind", ["sync", "asgd", "dbs-sgd", "local-sgd"])
def test_check_6_dynamic_on_equal_nodes_is_equal(tmp_path, kind):
    alike = {"cluster": {"nodes": nodes(1.0, 1.0001, 1.0002, 1.0003)}, "same": False}
    a = run(tmp_path / "a", {"type": kind}, batching={"policy": "dynamic"}, **alike)
    b = run(tmp_path / "b", {"type": kind}, batching={"policy": "equal"}, **alike)
    assert (a.params() == b.params()).all()
    assert [w["batch"] for w in a.summary["workers"]] == [16] * 4


def test_check_6_unequal_minibatches_give_the_update_of_one_worker_with_the_whole_batch(tmp_path):
    a = run(tmp_path / "a", {"type": "sync"}, optimizer=MOMENTUM, **DIFFERENT)
    b = run(tmp_path / "b", {"type": "sync"}, optimizer=MOMENTUM, same=False, workers=1)
    close(a, b)


def conserved(W, U):
    return (W - 1) * (U - W) + W * (W - 1) // 2


@pytest.mark.parametrize("kind", ["asgd", "dc-asgd", "ddc-asgd", "dbs-sgd", "ssp"])
@pytest.mark.parametrize("cluster",
                         [UNEQUAL, LINKS,
                          {"seed": 3, "nodes": nodes(1, 2, 4, 8, 1.1, 1.3, jitter=0.3)}],
                         ids=["plain", "links", "jitter"])
def test_check_7_staleness_is_conserved(tmp_path, kind, cluster):
    W = len(cluster["nodes"])
    s = run(tmp_path, {"type": kind, **({"s": 1000000} if kind == "ssp" else {})}, cluster=cluster,
            workers=W, samples=3210).summary
    histogram = s["staleness"]["histogram"]
    assert sum(histogram) == s["updates"]
    assert sum(t * n for t, n in enumerate(histogram)) == conserved(W, s["updates"])


# ---- the table of 1.4 ----------------------------------------------------------------------------

def timed(folder, strategy, times, gradients, jitter=0.02, **how):
    """Staleness of nodes that take times[i] a gradient; nothing is computed."""
    W = len(times)
    cluster = {"seed": 5, "nodes": [{"name": f"n{i + 1}", "fixed_seconds": t, "jitter": jitter}
                                    for i, t in enumerate(times)]}
    case = Case(folder, strategy, cluster=cluster, workers=W, batching={"global_batch": 4 * W},
                steps=1, **how)
    case.job.update(model="mlp",
                    data={"format": "glyphs", "samples": 4 * gradients, "test_samples": 10})
    del case.job["init"]
    case.write()
    return case.run("run", "--timing-only").summary


FREE4, BLOCK4 = {"type": "softsync", "n": 1}, {"type": "softsync", "n": 1, "pull": "blocking"}


@pytest.mark.parametrize("times,strategy,update_mean,node_mean,most", [
    ([1, 2, 4, 4], {"type": "asgd"}, 3.00, 4.50, 8),
    ([2, 2, 2, 2], {"type": "asgd"}, 3.00, 3.00, 4),
    ([1, 2, 4, 4], FREE4, 0.75, 1.125, 2),
    ([2, 2, 2, 2], FREE4, 0.75, 0.75, 1),
    ([1, 1, 1, 1, 2, 2, 4, 8], {"type": "asgd"}, 6.99, 12.4, 45),
    ([1.6] * 8, {"type": "asgd"}, 6.99, 6.99, 9),
])
def test_the_table_of_staleness(tmp_path, times, strategy, update_mean, node_mean, most):
    grouped = strategy is FREE4
    s = timed(tmp_path, strategy, times, 20000 if grouped else 5000)["staleness"]
    assert s["update_mean"] == pytest.approx(update_mean, rel=0.03)
    assert s["node_mean"] == pytest.approx(node_mean, rel=0.12 if grouped and len(set(times)) > 1
                                           else 0.03)
    assert s["max"] <= 1.4 * most + 2


def test_blocking_softsync_has_no_staleness_and_waits_for_the_slowest(tmp_path):
    slow, balanced = (timed(tmp_path / str(t[0]), BLOCK4, t, 20000)
                      for t in ([1, 2, 4, 4], [2, 2, 2, 2]))
    assert slow["staleness"]["max"] == balanced["staleness"]["max"] == 0
    assert slow["metrics"]["step_seconds"] == pytest.approx(4.03, rel=0.03)
    assert balanced["metrics"]["step_seconds"] == pytest.approx(2.02, rel=0.03)


def test_each_nodes_staleness_follows_its_rate(tmp_path):
    times = [1, 1.7, 2.9, 5.3]
    s = timed(tmp_path, {"type": "asgd"}, times, 5000)
    V = sum(1 / t for t in times)
    for t, w in zip(times, s["workers"]):
        assert w["staleness"]["mean"] == pytest.approx(V * t - 1, rel=0.03)


# ---- ssp -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("s", [0, 1, 3])
def test_ssp_keeps_its_bounds(tmp_path, s):
    cluster = {"seed": 9, "nodes": nodes(1, 1.5, 3, 11, jitter=0.3)}
    ran = run(tmp_path, {"type": "ssp", "s": s}, cluster=cluster, steps=100)
    assert ran.summary["staleness"]["max"] <= (2 * s + 1) * 3
    clock, left = [0] * 4, [len(ran.rows(i)) for i in range(4)]
    for row in ran.all_rows():
        clock[row["rank"]] += 1
        alive = [c for i, c in enumerate(clock) if c < left[i]]
        if alive and min(left) > max(clock):   # before the first of them ended
            assert clock[row["rank"]] - min(clock) <= s + 1


# ---- jitter and reruns ---------------------------------------------------------------------------

def jitters(ran, jitter):
    rows = [ran.rows(i) for i in range(len(ran.summary["workers"]))]
    whole = [n["fixed_seconds"] + n["seconds_per_sample"] * r["batch"]
             for n, r in zip(ran.case.cluster["nodes"], rows)]
    return np.concatenate([(r["compute_seconds"] / w - 1) / jitter for r, w in zip(rows, whole)])


def test_jitter_is_normal_and_within_three_deviations(tmp_path):
    z = jitters(
        run(tmp_path, {"type": "asgd"},
            cluster={"seed": 21, "nodes": nodes(1, 2, 3, 4, jitter=0.1)}, steps=1000), 0.1)
    assert np.abs(z).max() < 3.001 and np.abs(z).max() > 2.5
    assert abs(z.mean()) < 0.06 and abs(z.std() - 0.9866) < 0.04
    inside = [np.mean(np.abs(z) < k) for k in (0.5, 1, 2)]
    assert inside == pytest.approx([0.3840, 0.6845, 0.9571], abs=0.025)
    assert abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 0.06


def test_jitter_follows_the_clusters_seed_and_nothing_else_does(tmp_path):
    cluster = {"seed": 21, "nodes": nodes(1, 2, 3, 4, jitter=0.1)}
    case = Case(tmp_path, {"type": "asgd"}, cluster=cluster)
    a, b = case.run("a"), case.run("b", "--seed", "22")
    c = Case(tmp_path / "c", {"type": "asgd"}, cluster={**cluster, "seed": 22}).run()
    assert not np.array_equal(a.rows(0)["compute_seconds"][:10], b.rows(0)["compute_seconds"][:10])
    assert (b.summary["virtual_seconds"] == c.summary["virtual_seconds"]
            != a.summary["virtual_seconds"])
    d = Case(tmp_path / "d", {"type": "asgd"}, cluster=cluster, seed=2).run()
    assert d.summary["virtual_seconds"] == a.summary["virtual_seconds"]


@named({k: ALL[k] for k in ("sync", "asgd", "softsync-2", "ssp-2", "dc-asgd-adaptive", "dbs-sgd",
                            "hier-sgd-2-6-2", "hpsgd-auto")})
def test_a_rerun_repeats_every_byte(tmp_path, strategy):
    cluster = {**LINKS, "nodes": nodes(1, 1.3717, 2.1139, 4.0351, jitter=0.1)}
    case = Case(tmp_path, strategy, cluster=cluster, same=False, samples=1700, epochs=2,
                data={"shuffle": True}, batching={"policy": "dynamic"})
    first, second = case.run("first").files(), case.run("second").files()
    assert sorted(first) == sorted(second)
    assert [name for name in first if first[name] != second[name]] == []


def test_a_run_begins_afresh_where_another_one_was(tmp_path):
    case = Case(tmp_path, {"type": "asgd"}, checkpoint={"every_steps": 50})
    first, second = case.run("run").files(), case.run("run").files()
    assert first == second


# ---- dynamic batching ----------------------------------------------------------------------------

# per sample 1, 1, 2, 4 hundredths of a second and something fixed: equal minibatches are far from
# finishing together
SLOW = {"seed": 7,
        "nodes": [{"name": f"n{i + 1}", "fixed_seconds": a, "seconds_per_sample": k, "jitter": 0.02}
                  for i, (a, k) in enumerate(
                      [(0.1, 0.01), (0.13, 0.01), (0.11, 0.02), (0.07, 0.04)])]}


def ideal_seconds(cluster, B):
    a, k = ([n[key] for n in cluster["nodes"]] for key in ("fixed_seconds", "seconds_per_sample"))
    return (B + sum(x / y for x, y in zip(a, k))) / sum(1 / y for y in k)


@pytest.mark.parametrize("kind", ["asgd", "dbs-sgd", "sync", "local-sgd", "softsync"])
def test_dynamic_batching_settles_near_the_ideal(tmp_path, kind):
    # a barrier waits for the worst; multiples of 4 are fine steps
    B, jitter = 1024, 0.02 if kind in ("asgd", "dbs-sgd") else 0.005
    steady = {**SLOW,
              "nodes": [{**n, "jitter": jitter, "seconds_per_sample": n["seconds_per_sample"] / 4}
                        for n in SLOW["nodes"]]}
    ran = run(tmp_path, {"type": kind}, cluster=steady,
              batching={"global_batch": B, "policy": "dynamic"}, steps=150)
    s = ran.summary
    assert sum(w["batch"] for w in s["workers"]) == B
    assert all(w["batch"] % 4 == 0 for w in s["workers"])
    rows = ran.all_rows()
    late = rows[rows["time"] >= 0.4 * s["virtual_seconds"]]
    late = late[late["epoch"] < 0.98]
    rate = late["batch"].sum() / (late["time"].max() - 0.4 * s["virtual_seconds"])
    assert rate >= 0.97 * B / ideal_seconds(steady, B)
    if kind in ("asgd", "dbs-sgd"):
        assert s["staleness_recent"]["node_mean"] == pytest.approx(3, rel=0.05)
        assert s["staleness_recent"]["max"] <= 2 * 4


@pytest.mark.parametrize("kind", ["sync", "dbs-sgd"])
def test_noise_hardly_changes_minibatches(tmp_path, kind):
    """Steps vary by 10 %: at most one change in 500 steps once 100 are done."""
    noisy = {**SLOW, "nodes": [{**n, "jitter": 0.1} for n in SLOW["nodes"]]}
    ran = run(tmp_path, {"type": kind}, cluster=noisy, steps=600,
              batching={"global_batch": 256, "policy": "dynamic"})
    per_step = 1 if kind == "sync" else 4
    rows = ran.all_rows()
    rows = rows[(rows["step"] >= 100 * per_step) & (rows["epoch"] < 0.99)]
    changed = max(sum(np.diff(rows["batch"][rows["rank"] == i]) != 0) for i in range(4))
    assert changed <= 1


def test_without_balancing_the_node_mean_is_far_above(tmp_path):
    s = run(tmp_path, {"type": "asgd"}, cluster=SLOW, batching={"global_batch": 256},
            steps=100).summary
    v = [1 / (n["fixed_seconds"] + 64 * n["seconds_per_sample"]) for n in SLOW["nodes"]]
    want = sum(v) * sum(1 / x for x in v) / 4 - 1
    assert s["staleness"]["node_mean"] == pytest.approx(want, rel=0.03) and want > 3.8


@pytest.mark.parametrize("kind", ["sync", "local-sgd", "hpsgd"])
def test_the_minibatches_of_every_step_sum_to_the_global_batch(tmp_path, kind):
    ran = run(tmp_path, {"type": kind}, cluster=SLOW,
              batching={"global_batch": 250, "policy": "dynamic"}, steps=40)
    rows = ran.all_rows()
    assert {int(rows["batch"][rows["step"] == s].sum()) for s in np.unique(rows["step"])} == {250}
    # it did change
    assert len({tuple(rows["batch"][rows["step"] == s]) for s in np.unique(rows["step"])}) > 1


@pytest.mark.parametrize("strategy",
                         [SERVER[k] for k in ("asgd", "dc-asgd", "dc-asgd-adaptive", "dc-asgdk",
                                              "ddc-asgd", "dbs-sgd", "ssp-2")],
                         ids=lambda s: s["type"])
def test_the_trajectory_under_dynamic_batching_and_jitter_follows_from_the_order_of_events(
        tmp_path, strategy):
    own = strategy["type"] in ("dc-asgdk", "ddc-asgd")
    case = Case(tmp_path, strategy, cluster=SLOW,
                batching={"global_batch": 256, "policy": "dynamic"}, steps=70,
                optimizer={"learning_rate": 0.1, "momentum": 0 if own else 0.5,
                           "weight_decay": 0.001})
    ran = case.run()
    rows = [(int(r["rank"]), int(r["batch"]), int(r["staleness"])) for r in ran.all_rows()]
    assert len(rows) >= 200 and [int(r["step"]) for r in ran.all_rows()] == list(
        range(1, len(rows) + 1))
    assert moved(case, ran.params(),
                 reference.replay(case.job, case.cluster, case.data, case.init, rows)) < 1e-4


# ---- timing alone --------------------------------------------------------------------------------

@pytest.mark.parametrize("policy", ["equal", "dynamic"])
@named(ALL)
def test_timing_alone_gives_the_times_of_the_full_run(tmp_path, strategy, policy):
    cluster = {**LINKS, "nodes": nodes(1.0, 1.3717, 2.1139, 4.0351, jitter=0.05)}
    case = Case(tmp_path, strategy, cluster=cluster, samples=1100, epochs=3,
                batching={"policy": policy})
    same_times(case)


@pytest.mark.parametrize("kind", ["sync", "asgd", "local-sgd", "hpsgd"])
def test_timing_alone_knows_buckets_and_rings(tmp_path, kind):
    cluster = {**LINKS, "nodes": nodes(*[1 + 0.1 * i for i in range(18)], jitter=0.05)}
    same_times(Case(tmp_path, {"type": kind}, cluster=cluster, workers=18, model=LARGE,
                    init=make_init(hidden=512), steps=10, exchange={"bucket_bytes": 8192},
                    optimizer={"learning_rate": 0.01, "momentum": 0.0 if kind == "hpsgd" else 0.5}))


def test_timing_alone_cuts_buckets_where_a_device_does(tmp_path):
    """Layers without parameters are work too, and fused ones."""
    layers = [{"type": "conv2d", "filters": 8, "kernel": 5, "name": "first"},
              {"type": "batch_norm"}, {"type": "relu", "name": "r"},
              {"type": "conv2d", "filters": 8, "kernel": 3, "padding": 1, "name": "second"},
              {"type": "tanh", "name": "t"}, {"type": "add", "inputs": ["r", "t"]},
              {"type": "max_pool", "size": 2}, {"type": "flatten"}, {"type": "dense", "units": 40},
              {"type": "dropout", "rate": 0.2}, {"type": "dense", "units": 10}]
    case = Case(tmp_path, {"type": "sync"},
                cluster={**LINKS, "nodes": nodes(1.0, 1.3717, 2.1139, 4.0351, jitter=0.05)},
                exchange={"bucket_bytes": 4096})
    case.job.update(model={"input": [28, 28, 1], "layers": layers},
                    data={"format": "glyphs", "samples": 384, "test_samples": 10})
    del case.job["init"]
    case.write()
    same_times(case)


def same_times(case):
    full, timing = case.run("full").summary, case.run("timing", "--timing-only").summary
    for s in (full, timing):
        for key in ("train_loss", "test_loss", "test_accuracy", "best_test_accuracy"):
            s["metrics"].pop(key)
    assert full.pop("evaluations") and not timing.pop("evaluations")
    assert timing == full


def test_timing_alone_leaves_no_model_and_reads_no_data(tmp_path):
    case = Case(tmp_path, {"type": "asgd"})
    os.remove(tmp_path / "init.safetensors")
    ran = case.run("timing", "--timing-only")
    assert os.listdir(ran.out) == ["summary.json"]
    assert ran.summary["metrics"]["train_loss"] is None


# ---- the four shared cases -----------------------------------------------------------------------

@pytest.mark.parametrize("name", ["asgd", "softsync-1-blocking", "sync-static", "hpsgd-instant"])
def test_the_cases_with_known_results_agree(tmp_path, name):
    folder = os.path.join(CASES, name)
    if not os.path.isdir(folder):
        pytest.skip("../shared/cases is not there")
    done = simulate(folder, out=str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    scope = {}
    exec(open(os.path.join(CASES, "compare")).read().split("if __name__")[0], scope)
    said = []
    assert scope["compare"](folder, str(tmp_path / "run"), out=said.append), "\n".join(said)


# ---- several servers -----------------------------------------------------------------------------

@pytest.mark.parametrize("servers", [3])
@named({k: SERVER[k] for k in ("asgd", "softsync-2-rate-tau", "softsync-2-blocking", "ssp-2",
                               "dc-asgd-adaptive", "dc-asgdk", "ddc-asgd", "dbs-sgd-c4")})
def test_shards_on_several_servers_change_nothing(tmp_path, strategy, servers):
    one = check(Case(tmp_path / "one", strategy, **DIFFERENT))[1]
    more = check(Case(tmp_path / "more", {**strategy, "servers": servers}, **DIFFERENT))[1]
    assert (one.params() == more.params()).all()


@pytest.mark.parametrize("kind", ["asgd", "softsync"])
def test_timing_alone_knows_shards(tmp_path, kind):
    same_times(Case(tmp_path, {"type": kind, "servers": 2},
                    cluster={**LINKS, "nodes": nodes(1, 1.4, 2.2, 4.1, jitter=0.05)},
                    optimizer=MOMENTUM))


# ---- what a strategy tells of itself -------------------------------------------------------------

def told(run, workers=4):
    rows = np.concatenate([run.rows(i) for i in range(workers)])
    return rows[np.argsort(rows["time"], kind="stable")]["strategy_value"]


def test_compensating_rules_tell_what_they_did_to_the_length_of_a_gradient(tmp_path):
    plain = told(Case(tmp_path / "0", {"type": "dc-asgd", "lambda": 0}, steps=20, same=False).run())
    assert plain == pytest.approx(1, rel=1e-3)
    bent = told(Case(tmp_path / "1", {"type": "dc-asgd", "lambda": 4}, steps=20, same=False).run())
    # the first gradient is not late
    assert bent[0] == pytest.approx(1, rel=1e-3) and np.abs(bent - 1).max() > 0.02
    assert told(Case(tmp_path / "2", {"type": "dc-asgdk"}, steps=20, same=False)
                .run())[0] == pytest.approx(1 / 4, rel=1e-3)
    trusted = told(Case(tmp_path / "3", {"type": "ddc-asgd"}, steps=20, same=False).run())
    assert trusted[0] == pytest.approx(1, rel=1e-3) and trusted[1] < 1
    assert np.isnan(told(Case(tmp_path / "4", {"type": "asgd"}, steps=5).run())).all()


def test_averaging_tells_how_far_replicas_were_apart_where_all_are_averaged(tmp_path):
    run = Case(tmp_path / "a", {"type": "hier-sgd", "k1": 1, "k2": 3, "group_size": 2}, steps=9,
               same=False).run()
    rows = run.rows(0)
    assert np.isfinite(rows["strategy_value"]).tolist() == [s % 3 == 0 for s in rows["step"]] and (
        rows["strategy_value"][2::3] > 0).all()
    # every sample is the same one, so every replica is too
    equal = Case(tmp_path / "b", {"type": "local-sgd", "k": 3}, steps=9).run()
    assert np.nanmax(told(equal)) < 1e-5
    far = [np.nanmean(
        told(Case(tmp_path / str(k), {"type": "local-sgd", "k": k}, steps=24, same=False).run()))
           for k in (1, 8)]
    assert far[1] > 1.5 * far[0]


def test_hpsgd_tells_the_local_steps_of_each_round(tmp_path):
    assert set(told(Case(tmp_path, {"type": "hpsgd", "k": 3}, steps=12).run())) == {3.0}


def test_rounds_of_hpsgd_do_not_grow_where_a_node_is_slower(tmp_path):
    """The reduction of a node that is ahead waits for the slow node too: counted, each round that
    got a step longer would make the next one longer still."""
    cluster = {"seed": 3, "nodes": nodes(1, 1, 1, 1.4, jitter=0.02),
               "links": {"latency_seconds": 0.01}}
    assert set(told(Case(tmp_path, {"type": "hpsgd"}, cluster=cluster, steps=200).run())) == {1.0}
