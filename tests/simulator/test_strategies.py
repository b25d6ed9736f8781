"""Every strategy in evenstep-simulate against the second implementation of the rules
(reference.py).

Compared are the parameters (to 1e-4 of how far they moved; float32 gives about 1e-6), the number of
updates, the staleness histograms of every worker, and the virtual seconds."""
import pytest

from harness import UNEQUAL, Case, compare, make_init, merge, nodes

SIZES = {"policy": "static", "sizes": [28, 20, 12, 4]}
# An epoch of 1100 samples is 17 steps of 64 and 12 samples more, three times: the rate falls,
# momentum and decay pull
THREE_EPOCHS = {"same": False, "samples": 1100, "epochs": 3, "batching": SIZES}
STEPS = {"learning_rate": 0.05, "schedule": {"type": "step", "at_epochs": [1, 2], "factor": 0.3}}
# no step so large that float32 crosses a kink of relu elsewhere
MOMENTUM = {"learning_rate": 0.04, "momentum": 0.6, "weight_decay": 0.01}
LINKS = {**UNEQUAL, "links": {"latency_seconds": 0.013, "bytes_per_second": 1000},
         "server": {"bytes_per_second": 700}}


def check(case, **how):
    want, run, wrong = compare(case, **how)
    assert not wrong, "; ".join(wrong) + f" (in {case.folder})"
    return want, run


SERVER = {
    "asgd": {"type": "asgd"},
    "softsync-1": {"type": "softsync", "n": 1},
    "softsync-2": {"type": "softsync", "n": 2},
    "softsync-1-blocking": {"type": "softsync", "n": 1, "pull": "blocking"},
    "softsync-2-blocking": {"type": "softsync", "n": 2, "pull": "blocking"},
    "softsync-2-rate-n": {"type": "softsync", "n": 2, "rate": "n"},
    "softsync-2-rate-tau": {"type": "softsync", "n": 2, "rate": "tau"},
    "softsync-4-rate-tau": {"type": "softsync", "n": 4, "rate": "tau"},
    "ssp-0": {"type": "ssp", "s": 0},
    "ssp-2": {"type": "ssp", "s": 2},
    "dc-asgd": {"type": "dc-asgd", "lambda": 1.0},
    "dc-asgd-adaptive": {"type": "dc-asgd", "adaptive": True, "lambda": 2.0},
    "dc-asgd-adaptive-own": {"type": "dc-asgd", "adaptive": True, "lambda": 0.5, "m": 0.5,
                             "eps": 1e-3}, "dc-asgdk": {"type": "dc-asgdk"},
    "ddc-asgd": {"type": "ddc-asgd"},
    "ddc-asgd-mu": {"type": "ddc-asgd", "mu": 0.5},
    "dbs-sgd": {"type": "dbs-sgd"},
    "dbs-sgd-c4": {"type": "dbs-sgd", "c": 4},
    "dbs-sgd-n2-blocking": {"type": "dbs-sgd", "n": 2, "pull": "blocking", "rate": "tau"},
}
OWN_MOMENTUM = ("dc-asgdk", "ddc-asgd")
LOCKSTEP = {
    "sync": {"type": "sync"},
    "local-sgd-1": {"type": "local-sgd", "k": 1},
    "local-sgd-3": {"type": "local-sgd", "k": 3},
    "local-sgd-8": {"type": "local-sgd", "k": 8},
    "hier-sgd-1-4-2": {"type": "hier-sgd", "k1": 1, "k2": 4, "group_size": 2},
    "hier-sgd-2-6-2": {"type": "hier-sgd", "k1": 2, "k2": 6, "group_size": 2},
    "hier-sgd-3-9-4": {"type": "hier-sgd", "k1": 3, "k2": 9, "group_size": 4},
    "hier-sgd-default-groups": {"type": "hier-sgd", "k1": 2, "k2": 4},
}
HPSGD = {"hpsgd-auto": {"type": "hpsgd"}, "hpsgd-1": {"type": "hpsgd", "k": 1},
         "hpsgd-2": {"type": "hpsgd", "k": 2}, "hpsgd-5": {"type": "hpsgd", "k": 5}}
ALL = {**SERVER, **LOCKSTEP, **HPSGD}
named = lambda table: pytest.mark.parametrize("strategy", table.values(), ids=table.keys())


@named(ALL)
def test_same_samples_unequal_nodes(tmp_path, strategy):
    check(Case(tmp_path, strategy))


@named(ALL)
def test_different_samples_three_epochs_of_no_whole_number_of_steps_with_a_falling_rate(
        tmp_path, strategy):
    check(Case(tmp_path, strategy, optimizer=STEPS, **THREE_EPOCHS))


@named(ALL)
def test_momentum_and_weight_decay(tmp_path, strategy):
    own = strategy["type"] in OWN_MOMENTUM + ("hpsgd",)
    check(Case(tmp_path, strategy, same=False, batching=SIZES,
               optimizer={**MOMENTUM, "momentum": 0 if own else 0.6}))


@named({k: v for k, v in ALL.items() if k in ("sync", "asgd", "dc-asgd", "dc-asgdk", "ddc-asgd",
                                              "softsync-2", "local-sgd-3", "hpsgd-2")})
def test_clipping_is_per_gradient(tmp_path, strategy):
    check(Case(tmp_path, strategy, same=False, optimizer={"clip_norm": 0.3}))


@pytest.mark.parametrize("weighting", ["sample", "plain"])
@pytest.mark.parametrize("scale", ["global", "per_update"])
@named(SERVER)
def test_weighting_and_scale(tmp_path, strategy, weighting, scale):
    check(Case(tmp_path, {**strategy, "weighting": weighting, "scale": scale}, same=False,
               samples=3300, batching=SIZES, optimizer={"learning_rate": 0.05}))


@named(SERVER)
def test_pushes_over_links_and_a_shared_link_of_the_server(tmp_path, strategy):
    check(Case(tmp_path, strategy, cluster=LINKS, same=False))


@named({k: SERVER[k] for k in ("asgd", "softsync-2", "ssp-2", "ddc-asgd")})
def test_an_evaluation_costs_nothing_while_others_gradients_are_under_way(tmp_path, strategy):
    """Seven of them: the server must not let an evaluating worker wait until it has a gradient
    whose bytes are still coming."""
    check(Case(tmp_path, strategy,
               cluster={**UNEQUAL, "links": {"latency_seconds": 0.013, "bytes_per_second": 300}},
               evaluate={"every_steps": 30}, same=False))


@named({k: v for k, v in {**LOCKSTEP, **HPSGD}.items()
        if k in ("sync", "local-sgd-8", "hier-sgd-2-6-2", "hpsgd-auto", "hpsgd-5")})
@pytest.mark.parametrize("workers", [4, 20])
def test_an_evaluation_is_no_barrier_on_the_clock(tmp_path, strategy, workers):
    """All take part in it, and each goes on at the time at which it came."""
    cluster = {"seed": 4, "nodes": nodes(*[1 + i % 7 / 3 for i in range(workers)], jitter=0.3),
               "links": {"latency_seconds": 0.2, "bytes_per_second": 3000}}
    left = []
    for often in (3, 1000):
        # rings of one event
        how = {"model": LARGE, "init": make_init(hidden=512)} if workers > 16 else {}
        ran = Case(tmp_path / str(often), strategy, cluster=cluster, workers=workers,
                   evaluate={"every_steps": often}, same=False, steps=30, **how).run()
        left.append(
            (ran.summary["virtual_seconds"], ran.params().tobytes(),
             [ran.rows(i).tobytes() for i in range(workers)]))
    assert left[0] == left[1]


@named({**LOCKSTEP, **HPSGD})
def test_reductions_over_links(tmp_path, strategy):
    check(Case(tmp_path, strategy, cluster={**UNEQUAL, "links": LINKS["links"]}, same=False))


def test_nesterov_in_sync(tmp_path):
    check(Case(tmp_path, {"type": "sync"}, same=False,
               optimizer={"learning_rate": 0.05, "momentum": 0.9, "nesterov": True}))


@pytest.mark.parametrize("k1,k2", [(1, 4), (2, 6)])
def test_groups_of_the_cluster_and_their_links(tmp_path, k1, k2):
    cluster = {**UNEQUAL, "links": {"latency_seconds": 0.3},
               "group_links": {"latency_seconds": 0.01}, "groups": [["n1", "n3"], ["n4", "n2"]]}
    a, _ = check(Case(tmp_path / "a", {"type": "hier-sgd", "k1": k1, "k2": k2}, cluster=cluster,
                      same=False, optimizer=MOMENTUM))
    b, _ = check(Case(tmp_path / "b", {"type": "hier-sgd", "k1": k1, "k2": k2, "group_size": 2},
                      cluster=cluster, same=False, optimizer=MOMENTUM))
    assert (a.params == b.params).all()   # S says no more than the groups do


def test_hpsgd_chooses_k_by_the_ratio_of_exchange_to_step(tmp_path):
    cluster = {"nodes": [
        {"name": "a", "count": 4, "fixed_seconds": 0.5, "seconds_per_sample": 0.01}],
               "links": {"latency_seconds": 1.0}}
    _, run = check(Case(tmp_path, {"type": "hpsgd"}, cluster=cluster, same=False))
    k = [int(x) for x in run.rows(0)["strategy_value"]]
    assert k[:3] == [1, 1, 1] and set(k[3:]) == {4}, k   # 2 s of two messages over 0.66 s of a step


def test_an_automatic_round_of_hpsgd_is_no_longer_than_an_epoch(tmp_path):
    """Of 5 steps; an exchange takes as long as 30."""
    cluster = {"nodes": [
        {"name": "a", "count": 4, "fixed_seconds": 0.5, "seconds_per_sample": 0.01}],
               "links": {"latency_seconds": 10.0}}
    _, run = check(Case(tmp_path, {"type": "hpsgd"}, cluster=cluster, same=False, samples=5 * 64,
                        epochs=8))
    assert max(int(x) for x in run.rows(0)["strategy_value"]) == 5
    assert "fewer synchronisations" not in run.process.stderr


def test_a_job_that_ends_with_fewer_synchronisations_than_planned_says_so(tmp_path):
    run = Case(tmp_path, {"type": "hpsgd", "k": 40}, evaluate={"every_steps": 10}, same=False).run()
    assert "fewer synchronisations than its plan" in run.process.stderr


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("kind", ["sync", "asgd", "local-sgd", "hpsgd", "ddc-asgd", "softsync"])
def test_any_number_of_workers(tmp_path, kind, workers):
    cluster = {"nodes": nodes(*[1 + 0.2137 * i ** 1.3 for i in range(workers)])}
    check(Case(tmp_path, {"type": kind}, cluster=cluster, workers=workers, same=False, steps=20))


LARGE = {"input": [5], "layers": [{"type": "dense", "name": "hidden", "units": 512},
                                  {"type": "relu"}, {"type": "dense", "name": "out", "units": 4}]}


@pytest.mark.parametrize("workers", [2, 4, 16, 17, 24])
@pytest.mark.parametrize("kind", ["sync", "local-sgd", "hpsgd"])
def test_a_ring_costs_what_its_messages_cost_and_so_does_its_closed_form(tmp_path, kind, workers):
    """Up to 16 workers the messages are passed; beyond, the closed form is used. Both must end when
    the reference says."""
    cluster = {"nodes": [{"name": "a", "count": workers, "fixed_seconds": 0.5}],
               "links": {"latency_seconds": 0.01, "bytes_per_second": 1e5}}
    check(Case(tmp_path, {"type": kind}, cluster=cluster, workers=workers, model=LARGE,
               init=make_init(hidden=512), same=False, steps=10,
               # chunks differ by a float; the reference takes the larger ones
               optimizer={"learning_rate": 0.01}), seconds=1e-4)


def test_the_closed_form_of_a_ring_adds_in_the_order_of_its_messages(tmp_path):
    """Links that are not all the same have to be simulated by messages."""
    plain = {"nodes": [{"name": "a", "count": 20, "fixed_seconds": 0.5}],
             "links": {"latency_seconds": 0.01}}
    unequal = {**plain,
               "groups": [[f"a-{i + 1}" for i in range(10)], [f"a-{i + 1}" for i in range(10, 20)]],
               "group_links": {"latency_seconds": 0.001}}
    runs = [Case(tmp_path / str(i), {"type": "sync"}, cluster=c, workers=20, model=LARGE,
                 init=make_init(hidden=512), same=False, steps=10).run()
            for i, c in enumerate((plain, unequal))]
    assert (runs[0].params() == runs[1].params()).all()
    assert (runs[0].summary["virtual_seconds"] > runs[1].summary["virtual_seconds"] > 0.95
            * runs[0].summary["virtual_seconds"])


def test_static_weights_share_the_batch_in_proportion(tmp_path):
    case = Case(tmp_path, {"type": "sync"}, batching={"policy": "static", "weights": [4, 2, 1, 1]})
    assert [w["batch"] for w in case.run().summary["workers"]] == [32, 16, 8, 8]


def test_equal_gives_the_first_ranks_one_more(tmp_path):
    case = Case(tmp_path, {"type": "asgd"}, batching={"global_batch": 66, "policy": "equal"},
                same=False, steps=20)
    _, run = check(case)
    assert [w["batch"] for w in run.summary["workers"]] == [17, 17, 16, 16]


@pytest.mark.parametrize("change",
                         [{"policy": "static", "sizes": [61, 1, 1, 1]},
                          {"policy": "static", "sizes": [1, 1, 1, 61]}])
@pytest.mark.parametrize("kind", ["sync", "local-sgd", "hpsgd"])
def test_a_rank_without_samples_in_an_epochs_last_step(tmp_path, kind, change):
    check(Case(tmp_path, {"type": kind, **({"k": 2} if kind != "sync" else {})}, same=False,
               samples=64 * 5 + 7, epochs=3, batching=change))


@pytest.mark.parametrize("workers", [4, 20])
def test_reductions_under_way_at_once_share_their_links(tmp_path, workers):
    """On a slow link the step of `sync` takes the time of its bytes, into however many buckets they
    are cut."""
    cluster = {"nodes": [{"name": "a", "count": workers, "fixed_seconds": 0.001}],
               "links": {"bytes_per_second": 1e5}}
    two = {"input": [5], "layers": [{"type": "dense", "name": "hidden", "units": 1200},
                                    {"type": "relu"},
                                    {"type": "dense", "name": "middle", "units": 20},
                                    {"type": "relu"},
                                    {"type": "dense", "name": "out", "units": 600},
                                    {"type": "relu"},
                                    {"type": "dense", "name": "last", "units": 8}]}
    took = []
    for size in (1 << 24, 20000):
        case = Case(tmp_path / str(size), {"type": "sync"}, cluster=cluster, workers=workers,
                    model=two, steps=10, exchange={"bucket_bytes": size})
        del case.job["init"]
        case.write()
        took.append(case.run("run", "--timing-only").summary["virtual_seconds"])
    parameters = 1200 * 6 + 20 * 1201 + 600 * 21 + 8 * 601
    assert took[1] == pytest.approx(took[0], rel=0.02)
    assert took[0] == pytest.approx(
        10 * (0.001 + 2 * (workers - 1) / workers * 4 * parameters / 1e5), rel=0.01)


def test_a_push_with_running_statistics_costs_one_latency(tmp_path):
    """latency + bytes/bandwidth there, the same back, whatever the message is made of
    (docs/virtual-cluster.md#the-clock)."""
    layers = [{"type": "dense", "name": "hidden", "units": 40}, {"type": "batch_norm"},
              {"type": "relu"}, {"type": "dense", "name": "out", "units": 4}]
    link = {"latency_seconds": 0.5, "bytes_per_second": 1e4}
    case = Case(tmp_path, {"type": "asgd"},
                cluster={"nodes": [{"name": "a", "fixed_seconds": 1}], "links": link}, workers=1,
                steps=10, model={"input": [5], "layers": layers})
    del case.job["init"]
    case.write()
    floats = 40 * 6 + 2 * 40 + 41 * 4 + 2 * 40      # parameters, then mean and variance
    one_way = 0.5 + 4 * floats / 1e4
    for options in ((), ("--timing-only",)):
        summary = case.run("run" + "".join(options), *options).summary
        assert summary["virtual_seconds"] == pytest.approx(10 * (one_way + 1 + one_way), rel=1e-6)
