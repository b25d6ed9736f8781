"""evenstep-simulate as a program: what it writes, and how it refuses what cannot run."""
import json
import os

import numpy as np
import pytest

import reference
from harness import PROGRAM, UNEQUAL, Case, nodes, simulate

import subprocess

NUMBER, TEXT, LIST = (int, float), str, list


def test_the_summary_has_the_form_of_a_job(tmp_path):
    case = Case(tmp_path, {"type": "asgd"}, name="form")
    s = case.run().summary
    for key, kind in {"name": TEXT, "strategy": TEXT, "batching": TEXT, "virtual_seconds": NUMBER,
                      "updates": int, "epochs": NUMBER, "samples": int, "speedup": NUMBER,
                      "metrics": dict, "staleness": dict, "staleness_recent": dict,
                      "workers": LIST}.items():
        assert isinstance(s[key], kind), key
    assert (s["name"], s["strategy"], s["batching"], s["epochs"], s["samples"]) == (
        "form", "asgd", "equal", 1, 3840)
    for key in ("train_loss", "test_loss", "test_accuracy", "best_test_accuracy",
                "samples_per_second", "step_seconds"):
        assert isinstance(s["metrics"][key], NUMBER), key
    for figures in (s["staleness"], s["staleness_recent"]):
        for key in ("update_mean", "node_mean", "sample_mean", "p50", "p95", "p99", "max"):
            assert isinstance(figures[key], NUMBER), key
    assert [(w["rank"], w["node"]) for w in s["workers"]] == [
        (0, "n1"), (1, "n2"), (2, "n3"), (3, "n4")]
    for w in s["workers"]:
        for key, kind in {"device": TEXT, "batch": int, "updates": int,
                          "samples_per_second": NUMBER, "compute_seconds": NUMBER,
                          "exchange_seconds": NUMBER, "wait_seconds": NUMBER, "staleness": dict,
                          "heartbeat_age_seconds": NUMBER, "state": TEXT}.items():
            assert isinstance(w[key], kind), key
        assert {"mean", "max", "histogram"} <= set(w["staleness"])
        assert sum(w["staleness"]["histogram"]) == w["updates"]
    assert sum(w["updates"] for w in s["workers"]) == s["updates"] == 240


def test_speedup_and_rates_are_what_the_virtual_seconds_say(tmp_path):
    s = Case(tmp_path, {"type": "sync"}).run().summary
    assert s["metrics"]["samples_per_second"] == pytest.approx(3840 / s["virtual_seconds"])
    assert s["metrics"]["step_seconds"] == pytest.approx(s["virtual_seconds"] / s["updates"])
    alone = 64 / (0.2 + 64 * 0.05)   # samples a second of n1 with the whole batch
    assert s["speedup"] == pytest.approx(3840 / s["virtual_seconds"] / alone)


@pytest.mark.parametrize("kind", ["sync", "local-sgd", "asgd", "softsync"])
def test_the_training_loss_is_that_of_the_last_hundred_updates(tmp_path, kind):
    """However many rows an update has (docs/semantics.md#samples)."""
    ran = Case(tmp_path, {"type": kind}, same=False, steps=150,
               batching={"policy": "static", "sizes": [28, 20, 12, 4]}).run()
    rows = ran.all_rows()
    rows = rows[rows["step"] > rows["step"].max() - 100]
    assert ran.summary["metrics"]["train_loss"] == pytest.approx(
        (rows["loss"] * rows["batch"]).sum() / rows["batch"].sum(), rel=1e-6)


@pytest.mark.parametrize("kind", ["sync", "local-sgd", "hier-sgd", "hpsgd", "asgd", "softsync",
                                  "dbs-sgd"])
def test_the_test_figures_are_those_of_the_model_that_is_left(tmp_path, kind):
    """The test samples are shared out, so loss and accuracy are sums over workers."""
    case = Case(tmp_path, {"type": kind}, same=False)
    for name in ("x", "y"):
        np.save(tmp_path / "data" / f"test_{name}.npy", case.data[name][:101])
    ran = case.run()
    x, y = case.data["x"][:101] / 255, case.data["y"][:101]
    loss, accuracy = reference.Network(*ran.shape()).test(ran.params(), x, y)
    assert 0 < accuracy < 1
    assert ran.summary["metrics"]["test_accuracy"] == pytest.approx(accuracy, abs=1e-9)
    assert ran.summary["metrics"]["test_loss"] == pytest.approx(loss, rel=1e-5)


def test_a_worker_tells_where_its_time_went(tmp_path):
    cluster = {**UNEQUAL, "links": {"latency_seconds": 0.02}}
    for w, n in zip(Case(tmp_path / "a", {"type": "asgd"}, cluster=cluster).run()
                    .summary["workers"], cluster["nodes"]):
        assert w["compute_seconds"] == pytest.approx(n["fixed_seconds"] + 0.8, rel=1e-5)
        assert w["exchange_seconds"] == pytest.approx(0.04, rel=0.05) and w["wait_seconds"] <= 0.04
    fast, slow = (Case(tmp_path / "s", {"type": "sync"}, cluster=cluster).run()
                  .summary["workers"][i] for i in (0, 3))
    assert (fast["wait_seconds"] == pytest.approx(3.0351, rel=1e-3)
            and slow["wait_seconds"] == pytest.approx(0, abs=1e-6))


def test_the_job_may_bring_its_own_cluster_and_the_data_folder_be_named(tmp_path):
    case = Case(tmp_path, {"type": "asgd"})
    want = case.run().summary["virtual_seconds"]
    case.job["cluster"] = case.cluster
    case.write()
    done = subprocess.run(
        [PROGRAM, "--job", str(tmp_path / "job.json"), "--out", str(tmp_path / "own"), "--data",
         str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.load(open(tmp_path / "own" / "summary.json"))["virtual_seconds"] == want


def refused(case, *places):
    """The run ends with an error that names every place."""
    done = simulate(case.folder)
    assert done.returncode not in (0, -6, -11), done.stderr
    missing = [p for p in places if p not in done.stderr]
    assert not missing, f"{missing} not in:\n{done.stderr}"
    assert not os.path.exists(os.path.join(case.folder, "run", "summary.json"))
    return done.stderr


def test_every_mistake_of_a_cluster_is_told_with_its_place(tmp_path):
    bad = {"seed": -1, "nodes": [{"name": "a", "fixed_seconds": -1}, {"fixed_seconds": 1},
                                 {"name": "b", "fixed_second": 1},
                                 {"name": "c", "seconds_per_sample": 1, "jitter": 0.9},
                                 {"name": "d", "fixed_seconds": 1, "count": 0}],
           "links": {"latency": 1}, "server": {"bytes_per_second": -5},
           "groups": [["a", "c"], ["nobody"]], "extra": 1}
    text = refused(Case(tmp_path, {"type": "asgd"}, cluster=bad), "/seed", "/nodes/0/fixed_seconds",
                   "/nodes/1/name", "/nodes/2/fixed_second", "/nodes/3/jitter", "/nodes/4/count",
                   "/links/latency", "/server/bytes_per_second", "/groups/1/0", "/extra")
    assert "/groups/0" not in text   # nodes with mistakes are nodes all the same
    bad["nodes"][3]["name"] = "a"
    refused(Case(tmp_path / "twice", {"type": "asgd"}, cluster=bad), "/nodes/3/jitter",
            "/nodes/3/name: there are two nodes 'a'")


def test_groups_that_overlap_miss_nodes_or_name_unknown_ones(tmp_path):
    bad = {**UNEQUAL, "groups": [["n1", "n2"], ["n2", "nobody"]]}
    text = refused(Case(tmp_path, {"type": "hier-sgd"}, cluster=bad), "/groups/1/0", "/groups/1/1")
    assert "'n3' is in no group" in text and "'n4' is in no group" in text


@pytest.mark.parametrize("cluster,place",
                         [({"nodes": []}, "/nodes"), ({}, "/nodes"),
                          ({"nodes": [{"name": "a", "count": 100000, "fixed_seconds": 1}]},
                           "/nodes/0/count"),
                          (
                              {"nodes": [{"name": "a", "fixed_seconds": 1},
                                         {"name": "a", "fixed_seconds": 1}]}, "/nodes/1/name"),
                          ({"nodes": nodes(*[1] * 100000)},
                           "/nodes: a cluster has at most 1024 nodes, not 100000"),
                          ({"nodes": nodes(1, 2)}, "/workers"), ([], "/")])
def test_clusters_that_cannot_be(tmp_path, cluster, place):
    refused(Case(tmp_path, {"type": "asgd"}, cluster=cluster), place)


@pytest.mark.parametrize("strategy,changes,place", [
    ({"type": "hier-sgd", "k1": 3, "k2": 4}, {}, "/strategy/k2"),
    ({"type": "softsync", "n": 5}, {}, "/strategy/n"),
    ({"type": "ssp", "s": -1}, {}, "/strategy/s"),
    ({"type": "asdg"}, {}, "/strategy/type"),
    ({"type": "asgd", "lambda": 1}, {}, "/strategy/lambda"),
    ({"type": "asgd"}, {"optimizer": {"type": "adam"}}, "/optimizer/type"),
    ({"type": "hpsgd"}, {"optimizer": {"momentum": 0.9}}, "/optimizer/momentum"),
    ({"type": "dc-asgdk"}, {"optimizer": {"momentum": 0.9}}, "/optimizer/momentum"),
    ({"type": "ddc-asgd"}, {"optimizer": {"momentum": 0.9}}, "/optimizer/momentum"),
    ({"type": "ddc-asgd", "mu": 1.0}, {}, "/strategy/mu"),
    ({"type": "dbs-sgd", "c": 9}, {}, "/strategy/c"),
    ({"type": "dbs-sgd", "c": 3, "n": 2}, {}, "/strategy/c"),
    ({"type": "hier-sgd", "group_size": 3}, {}, "/strategy/group_size"),
    ({"type": "sync"}, {"batching": {"global_batch": 3}}, "/batching/global_batch"),
    ({"type": "sync"}, {"batching": {"policy": "static", "sizes": [1, 2, 3]}}, "/batching/sizes"),
])
def test_combinations_that_make_no_sense_are_refused(tmp_path, strategy, changes, place):
    refused(Case(tmp_path, strategy, **changes), place)


def test_a_group_size_that_contradicts_the_groups_of_the_cluster(tmp_path):
    refused(Case(tmp_path, {"type": "hier-sgd", "group_size": 4},
                 cluster={**UNEQUAL, "groups": [["n1", "n2"], ["n3", "n4"]]}),
            "/strategy/group_size")


def test_all_mistakes_of_job_and_cluster_come_at_once(tmp_path):
    case = Case(tmp_path, {"type": "softsync", "n": 9},
                cluster={"nodes": [{"name": "a", "fixed_seconds": -1}]}, epochs=0,
                optimizer={"learning_rate": -1})
    refused(case, "/strategy/n", "/epochs", "/optimizer/learning_rate", "/nodes/0/fixed_seconds")
    case.cluster["nodes"][0]["fixed_seconds"] = 1
    case.write()
    refused(case, "/strategy/n", "/epochs", "the job has 4 workers, the cluster 1 nodes")


@pytest.mark.parametrize("text,said",
                         [("{", "line 1"), ('{"seed": 1, "seed": 2}', "seed"), ("", "empty"),
                          ("[1]", "object")])
def test_files_that_are_no_json_documents(tmp_path, text, said):
    case = Case(tmp_path, {"type": "asgd"})
    for name in ("cluster.json", "job.json"):
        case.write()
        (tmp_path / name).write_text(text)
        done = simulate(case.folder)
        assert done.returncode not in (0, -6, -11)
        assert name in done.stderr or said in done.stderr, done.stderr


@pytest.mark.parametrize("missing",
                         ["data/x.npy", "data/test_y.npy", "init.safetensors", "cluster.json",
                          "job.json"])
def test_a_file_that_is_not_there_is_named(tmp_path, missing):
    case = Case(tmp_path, {"type": "asgd"})
    os.remove(tmp_path / missing)
    done = simulate(case.folder)
    assert done.returncode == 1 and os.path.basename(missing).split(".")[0] in done.stderr


def test_an_init_of_another_shape_names_the_tensor(tmp_path):
    case = Case(tmp_path, {"type": "asgd"},
                model={"layers": [{"type": "dense", "name": "hidden", "units": 6}, {"type": "relu"},
                                  {"type": "dense", "name": "out", "units": 4}]})
    assert "hidden" in refused(case, "hidden.weight")


def test_without_a_job_or_a_place_to_write_it_says_how_to_use_it():
    done = subprocess.run([PROGRAM, "--job", "x"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "usage" in done.stderr
    told = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, timeout=60)
    assert told.returncode == 0 and "--timing-only" in told.stdout


# ---- memory and cores ----------------------------------------------------------------------------

def wide(nodes, strategy, **more):
    """A job of `nodes` nodes, each with a network of 100,000 parameters and four samples a step."""
    return {"name": "wide",
            "model": {"input": [28, 28, 1],
                      "layers": [{"type": "flatten"}, {"type": "dense", "units": 126},
                                 {"type": "relu"}, {"type": "dense", "units": 10}]},
            "data": {"format": "glyphs", "samples": 12 * nodes, "test_samples": 20},
            "strategy": strategy, "batching": {"global_batch": 4 * nodes, "policy": "equal"},
            "epochs": 1, "seed": 1,
            "cluster": {
                "nodes": [{"name": "a", "count": nodes, "fixed_seconds": 0.1,
                           "seconds_per_sample": 0.01, "jitter": 0.1}],
                "links": {"latency_seconds": 0.0001}}, **more}


def ask(folder, job, *options):
    (folder / "job.json").write_text(json.dumps(job))
    return subprocess.run([PROGRAM, "--job", "job.json", *options], cwd=folder, capture_output=True,
                          text=True, timeout=120)


def test_more_memory_than_there_is_is_refused_before_anything_is_made_naming_every_block(tmp_path):
    done = ask(tmp_path, wide(64, {"type": "local-sgd"}, optimizer={"momentum": 0.9}), "--out",
               "run", "--memory", "5e7")
    assert done.returncode == 1 and not (tmp_path / "run").exists()
    for part in ("64 virtual nodes need", "0.0466 are free", "parameters 0.0", "gradients",
                 "optimizer state", "what is summed", "replicas set aside", "programs"):
        assert part in done.stderr, done.stderr
    huge = wide(1000, {"type": "asgd"})
    huge["model"]["layers"][1]["units"] = 100000
    answer = json.loads(ask(tmp_path, huge, "--check").stdout)
    assert (answer["errors"][0]["pointer"] == "/cluster"
            and "server: what each node has" in answer["errors"][0]["message"])
    assert answer["memory"]["parameters"] == 1000 * 4 * (785 * 100000 + 100001 * 10)


def test_the_memory_of_a_real_rank_has_the_average_that_it_goes_back_to(tmp_path):
    """A worker that may have to go on without another one keeps its replica as all averaged it."""
    told = {}
    for workers in (1, 2):
        job = wide(workers, {"type": "local-sgd", "k": 2}, optimizer={"momentum": 0.9})
        assert ask(tmp_path, job, "--out", f"run-{workers}", "--timing-only").returncode == 0
        told[workers] = json.loads((tmp_path / f"run-{workers}" / "summary.json").read_text())[
            "rank_memory_bytes"]
    parameters = 4 * (785 * 126 + 127 * 10)
    # two chunks of a ring, and the copy: parameters and momentum
    assert told[2] - told[1] >= parameters + 2 * parameters


def sanitized():
    with open(PROGRAM, "rb") as f:
        return b"__asan_init" in f.read()


@pytest.mark.skipif(sanitized(), reason="AddressSanitizer's own memory is not told")
@pytest.mark.parametrize("strategy,optimizer",
                         [({"type": "sync"}, {"momentum": 0.9}),
                          ({"type": "local-sgd", "k": 2}, {"type": "adam"}),
                          ({"type": "hpsgd"}, {}),
                          ({"type": "hier-sgd", "k1": 1, "k2": 2, "group_size": 4}, {}),
                          ({"type": "dc-asgd", "adaptive": True}, {}), ({"type": "softsync"}, {})],
                         ids=lambda x: x.get("type"))
def test_the_memory_that_is_told_is_what_a_run_takes_at_most(tmp_path, strategy, optimizer):
    """A node costs the blocks that its strategy needs: 1,000 nodes of 100,000 parameters are within
    8 GiB."""
    used = {}
    for nodes in (20, 100):
        told = json.loads(ask(tmp_path, wide(nodes, strategy, optimizer=optimizer), "--check")
                          .stdout)
        process = subprocess.Popen([PROGRAM, "--job", "job.json", "--out", f"run-{nodes}"],
                                   cwd=tmp_path)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        used[nodes] = usage.ru_maxrss * 1024
        assert status == 0 and told["errors"] == []
    assert used[100] <= told["memory_bytes"] <= 2 * used[100]
    assert (used[100] - used[20]) / 80 * 1000 < 8 * 2 ** 30


@pytest.mark.parametrize("kind", ["sync", "asgd", "hier-sgd", "hpsgd"])
def test_the_number_of_gradients_at_a_time_changes_no_bit(tmp_path, kind):
    job = wide(6, {"type": kind}, seed=3)
    job["batching"] = {"global_batch": 64, "policy": "dynamic"}
    job["data"]["samples"] = 640
    left = []
    for threads in ("1", "5"):
        assert ask(tmp_path, job, "--out", threads, "--threads", threads).returncode == 0
        left.append(
            {f: (tmp_path / threads / f).read_bytes()
             for f in ("summary.json", "model.safetensors", "history/rows-5.bin")})
    assert left[0] == left[1]
