"""A job with a `cluster` in its spec runs on virtual nodes through the same call, and shows like
any other."""
import json

import pytest
import redis

from service import Service, spec

CLUSTER = {"seed": 7,
           "nodes": [{"name": "fast", "count": 2, "fixed_seconds": 0.002,
                      "seconds_per_sample": 0.0005, "jitter": 0.02},
                     {"name": "slow", "fixed_seconds": 0.002, "seconds_per_sample": 0.002}],
           "links": {"latency_seconds": 0.0001, "bytes_per_second": 1.25e8}}


@pytest.fixture(scope="module")
def service():
    with Service(nodes=["real=cpu:1"]) as s:
        yield s


def virtual(**changes):
    job = spec(cluster=CLUSTER, strategy={"type": "asgd"},
               batching={"global_batch": 64, "policy": "dynamic"}, **changes)
    del job["workers"]
    return job


def test_a_virtual_job_shows_progress_workers_staleness_assignments_series_and_artifacts(service):
    id = service.submit(virtual())
    job = service.wait(id, "succeeded")
    assert job["progress"] == {**job["progress"], "epoch": 2, "epochs": 2, "samples": 2 * 2560,
                               "fraction": 1.0}
    assert [w["node"] for w in job["workers"]] == ["fast-1", "fast-2", "slow"] and {
        w["device"] for w in job["workers"]} == {"virtual"}
    assert 1.9 < job["staleness"]["update_mean"] <= 2 and job["virtual_seconds"] > 0
    assert job["seconds"] == job["virtual_seconds"]  # the job's own clock, which the page shows
    assignments = service.get(f"jobs/{id}/assignments").json()["assignments"]
    assert assignments[0]["batches"] == {"fast-1": 22, "fast-2": 21, "slow": 21}
    assert assignments[-1]["batches"]["slow"] < 12 and all(
        sum(a["batches"].values()) == 64 for a in assignments)
    nodes = service.get(f"jobs/{id}/staleness").json()["nodes"]
    assert [n["node"] for n in nodes] == ["fast-1", "fast-2", "slow"] and sum(
        sum(n["histogram"]) for n in nodes) == job["progress"]["step"]
    assert all(n["mean"] <= n["max"] and {"p50", "p95", "p99"} <= set(n) for n in nodes)
    series = service.get(f"jobs/{id}/series?names=train_loss,staleness&x=time").json()["series"]
    assert len(series) == 4 and series[0]["total_points"] == job["progress"]["step"]
    assert "model.safetensors" in [a["name"]
                                   for a in service.get(f"jobs/{id}/artifacts").json()["artifacts"]]


DEEP = {"input": [28, 28, 1], "layers": [{"type": "dense", "units": 32}] * 6 +
        [{"type": "dense", "units": 10}]}


def test_a_virtual_job_that_diverges_fails_at_once_and_says_where(service):
    """It counted as lost, and was tried in four attempts, which all end in the same step."""
    optimizer = {"type": "sgd", "learning_rate": 5}
    job = service.wait(service.submit(virtual(model=DEEP, optimizer=optimizer)), "failed")
    assert job["error"]["code"] == "not_finite" and job["attempt"] == 1
    assert "the loss became NaN or infinite: step " in job["error"]["message"]
    assert job["progress"]["step"] > 0 and job["error"]["node"] is None
    assert {w["state"] for w in job["workers"]} == {"stopped"}
    log = service.get(f"jobs/{job['id']}/logs").text  # it was empty
    assert log.count("the loss became NaN or infinite") == 1, log
    series = service.get(f"jobs/{job['id']}/series?names=train_loss").json()["series"]
    assert series[0]["total_points"] == job["progress"]["step"]


def test_times_of_a_virtual_job_that_runs_are_those_of_its_present_minibatches(service):
    """They were means over the whole run, next to the current minibatch: the slow node, 3.7 times
    slower, was called 9.5 times slower."""
    id = service.submit(virtual(model="lenet5", epochs=100))
    service.steps(id, 40)
    slow = service.job(id)["workers"][2]
    assert slow["batch"] < 12 and slow["compute_seconds"] == pytest.approx(
        0.002 + 0.002 * slow["batch"], rel=0.01)
    assert service.post(f"jobs/{id}/cancel").status_code == 200
    service.wait(id, "cancelled")


def test_a_virtual_job_has_a_test_curve_of_evaluations_on_its_own_clock(service):
    id = service.submit(virtual(evaluate={"every_epochs": 1}))
    job = service.wait(id, "succeeded")
    told = service.get(f"jobs/{id}/evaluations").json()["evaluations"]
    assert [round(t["epoch"]) for t in told] == [1, 2] and told[-1]["final"]
    assert told[-1]["accuracy"] == pytest.approx(job["metrics"]["test_accuracy"])
    assert [t["test_samples"] for t in told] == [500, 500]
    assert 0 < told[0]["time"] < told[1]["time"] <= job["virtual_seconds"]
    series = service.get(f"jobs/{id}/series?names=test_accuracy&x=step").json()["series"][0]
    assert series["mean"] == pytest.approx([t["accuracy"] for t in told])
    assert series["x"] == [t["step"] for t in told]


def test_it_takes_no_node_and_gives_the_same_bits_every_time(service):
    models = []
    for _ in range(2):
        id = service.submit(virtual())
        service.wait(id, "succeeded")
        models.append(service.artifact(id))
    assert models[0] == models[1]
    assert service.get("nodes").json()["nodes"][0]["state"] == "ready"


def test_every_mistake_of_a_cluster_is_reported_in_its_place(service):
    bad = virtual()
    bad["cluster"] = {
        "nodes": [{"name": "a", "fixed_seconds": -1},
                  {"name": "b", "count": 100000, "seconds_per_sample": 1}], "group": []}
    answer = service.post("jobs", bad)
    assert answer.status_code == 422
    assert {"/cluster/nodes/0/fixed_seconds", "/cluster/nodes/1/count", "/cluster/group"} <= {
        e["pointer"] for e in answer.json()["errors"]}


def test_a_dry_run_predicts_the_job_for_its_strategy_and_for_others(service):
    answer = service.post("jobs?dryRun=true", virtual()).json()["prediction"]
    rows = {r["strategy"]: r for r in answer["strategies"]}
    assert (answer["approximate"] and answer["reason"] is None and rows["asgd"]["chosen"]
            and "sync" in rows)
    id = service.submit(virtual())
    job = service.wait(id, "succeeded")
    assert abs(rows["asgd"]["samples_per_second"] / job["metrics"]["samples_per_second"] - 1) < 0.1
    assert abs(rows["asgd"]["staleness"]["update_mean"] - job["staleness"]["update_mean"]) < 0.1
    memory = {k: r["memory_bytes"] for k, r in rows.items()}
    assert 1e6 < memory["asgd"] < memory["hpsgd"] and memory["sync"] < memory["local-sgd"]
    assert abs(rows["asgd"]["epoch_seconds"] * 2 / job["virtual_seconds"] - 1) < 0.1


def test_a_dry_run_tells_the_cluster_and_a_dry_run_on_it_changed_tells_what_would_be(service):
    job = {**virtual(), "strategy": {"type": "sync"},
           "batching": {"global_batch": 72, "policy": "dynamic"},
           "cluster": {"nodes": [{"name": "fast", "count": 2, "seconds_per_sample": 0.001},
                                 {"name": "slow", "seconds_per_sample": 0.004}]}}
    told = service.post("jobs?dryRun=true", job).json()["prediction"]
    assert [n["name"] for n in told["cluster"]["nodes"]] == ["fast-1", "fast-2", "slow"]
    row = told["strategies"][0]
    assert [(w["node"], w["batch"]) for w in row["workers"]] == [
        ("fast-1", 32), ("fast-2", 32), ("slow", 8)]
    assert row["workers"][2]["compute_seconds"] == pytest.approx(0.032)
    assert all("workers" not in other for other in told["strategies"][1:])
    without = {**told["cluster"], "nodes": told["cluster"]["nodes"][:2]}
    row = service.post("jobs?dryRun=true",
                       {**job, "cluster": without}).json()["prediction"]["strategies"][0]
    assert row["step_seconds"] == pytest.approx(0.036, rel=0.01)


def rate_once_settled(service, id):
    """Samples per second in the second half of a job's rows: in the first half, minibatches still
    change."""
    series = service.get(f"jobs/{id}/series?names=batch&x=time&points=20000").json()["series"]
    rows = sorted((t, n) for one in series for t, n in zip(one["x"], one["mean"]))
    rows = rows[len(rows) // 2:]
    return sum(n for _, n in rows[1:]) / (rows[-1][0] - rows[0][0])


@pytest.mark.parametrize("strategy", ["sync", "asgd"])
def test_what_is_predicted_of_a_change_is_what_then_happens(service, strategy):
    """A node is removed, a copy of one and one four times as fast join, the global batch
    changes."""
    job = {**virtual(epochs=3), "strategy": {"type": strategy}}
    cluster = service.post("jobs?dryRun=true", job).json()["prediction"]["cluster"]
    nodes = cluster["nodes"]
    copy = {**nodes[2], "name": "slow-copy"}
    swift = {**copy, **{k: copy[k] / 4 for k in ("fixed_seconds", "seconds_per_sample")}}
    for changed, batch in ((nodes[:2], 64), (nodes + [copy], 64), (nodes + [swift], 64),
                           (nodes, 128)):
        job.update(cluster={**cluster, "nodes": changed},
                   batching={"global_batch": batch, "policy": "dynamic"})
        told = service.post("jobs?dryRun=true", job).json()["prediction"]["strategies"][0]
        assert told["chosen"] and told["strategy"] == strategy
        id = service.submit(job)
        done = service.wait(id, "succeeded")
        assert told["samples_per_second"] == pytest.approx(rate_once_settled(service, id), rel=0.03)
        assert told["staleness"]["update_mean"] == pytest.approx(
            done["staleness"]["update_mean"], abs=0.02)
        assert {w["node"]: w["batch"] for w in told["workers"]} == {
            w["node"]: w["batch"] for w in done["workers"]}


def test_a_dry_run_on_unequal_virtual_nodes_predicts_balanced_minibatches(service):
    """Its 20 steps of 16 nodes are too few to find the minibatches 28 and 8, which end together."""
    job = {**virtual(), "strategy": {"type": "sync"},
           "batching": {"global_batch": 12 * 28 + 4 * 8, "policy": "dynamic"},
           "cluster": {"nodes": [
               {"name": "fast", "count": 12, "fixed_seconds": 0.002, "seconds_per_sample": 0.0005},
               {"name": "slow", "count": 4, "fixed_seconds": 0.002, "seconds_per_sample": 0.002}]}}
    row = service.post("jobs?dryRun=true", job).json()["prediction"]["strategies"][0]
    assert row["strategy"] == "sync" and row["step_seconds"] == pytest.approx(0.018, rel=0.01)


def test_a_dry_run_exchanges_as_long_as_its_nodes_did_when_they_trained_together():
    """What the store keeps of the exchange is changed to times that no link between two processes
    of one host has, beyond what computing hides and below it."""
    with Service() as service:
        sent = spec(batching={"global_batch": 64, "policy": "dynamic"})
        id = service.submit(sent)
        service.wait(id, "succeeded")
        store = redis.Redis(unix_socket_path=str(service.dir / "redis.sock"), decode_responses=True)
        keys = list(store.scan_iter("es:profile:*"))
        assert len(keys) == 2, keys
        before = [json.loads(store.get(key)) for key in keys]
        for kept in before:
            assert kept["exchange"]["strategy"] == "sync" and kept["exchange"]["workers"] == 2
            assert 0 < kept["exchange"]["seconds"] < 5
        steps = []
        for seconds in (0.03, 0.09):
            for key, kept in zip(keys, before):
                kept["exchange"]["seconds"] = seconds
                store.set(key, json.dumps(kept))
            told = service.post("jobs?dryRun=true", sent).json()["prediction"]
            chosen = next(row for row in told["strategies"] if row["chosen"])
            assert [w["exchange_seconds"] for w in chosen["workers"]] == pytest.approx(
                [seconds] * 2, rel=0.05)
            steps.append(chosen["step_seconds"])
            changed = {k: v for k, v in sent.items() if k != "workers"}
            again = service.post("jobs?dryRun=true", {**changed, "cluster": told["cluster"]}).json()
            same = next(r for r in again["prediction"]["strategies"] if r["chosen"])
            assert same["step_seconds"] == pytest.approx(chosen["step_seconds"], rel=0.05)
        assert steps[1] - steps[0] == pytest.approx(0.06, rel=0.1)


def test_a_dry_run_on_nodes_that_were_never_measured_says_so_and_predicts_once_they_were(service):
    job = spec(workers=1, strategy={"type": "asgd"},
               model={"input": [28, 28, 1],
                      "layers": [{"type": "flatten"}, {"type": "dense", "units": 10}]})
    before = service.post("jobs?dryRun=true", job).json()["prediction"]
    assert before["strategies"] == [] and "'real' was not measured" in before["reason"]
    service.wait(service.submit(job), "succeeded")
    after = service.post("jobs?dryRun=true", job).json()["prediction"]
    assert after["reason"] is None and after["strategies"][0]["samples_per_second"] > 0


@pytest.mark.parametrize("change,pointers", [
    ({"cluster": {"nodes": []}}, ["/cluster/nodes"]),
    ({"cluster": {}}, ["/cluster/nodes"]),
    ({"cluster": {**CLUSTER, "groups": [["fast-1", "fast-2"], ["fast-2", "nobody"]]}},
     ["/cluster/groups/1/0", "/cluster/groups/1/1", "/cluster/groups"]),
    ({"cluster": {**CLUSTER, "links": {"latency_seconds": -1}, "seed": "x"}},
     ["/cluster/links/latency_seconds", "/cluster/seed"]),
    ({"strategy": {"type": "hier-sgd", "k1": 3, "k2": 4}}, ["/strategy/k2"]),
    ({"strategy": {"type": "softsync", "n": 4}}, ["/strategy/n"]),
    ({"strategy": {"type": "softsync", "n": 4}, "workers": 9, "epochs": 0},
     ["/workers", "/epochs"]),
])
def test_jobs_that_cannot_run_on_their_cluster_are_refused(service, change, pointers):
    answer = service.post("jobs", {**virtual(), **change})
    assert answer.status_code == 422
    assert set(pointers) <= {e["pointer"] for e in answer.json()["errors"]}


@pytest.mark.parametrize("query", ["", "?dryRun=true"])
def test_more_memory_than_the_machine_has_is_refused_before_the_start_naming_the_blocks(
        service, query):
    job = virtual(
        model={"input": [28, 28, 1],
               "layers": [{"type": "flatten"}, {"type": "dense", "units": 100000},
                          {"type": "dense", "units": 10}]})
    job.update(cluster={"nodes": [{"name": "a", "count": 1000, "fixed_seconds": 1}]},
               batching={"global_batch": 1000})
    answer = service.post("jobs" + query, job)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert (error["pointer"] == "/cluster" and "1000 virtual nodes need" in error["message"]
            and "parameters 296" in error["message"]), error


@pytest.mark.parametrize("strategy,series",
                         [({"type": "hpsgd", "k": 2}, "strategy_value"),
                          ({"type": "local-sgd", "k": 4}, "strategy_value"),
                          ({"type": "ddc-asgd"}, "strategy_value"),
                          ({"type": "ssp", "s": 0}, "wait_seconds")])
def test_what_a_strategy_does_is_a_series_per_node(service, strategy, series):
    job = virtual()
    job.update(strategy=strategy, optimizer={"learning_rate": 0.05})
    id = service.submit(job)
    service.wait(id, "succeeded")
    curves = service.get(f"jobs/{id}/series?names={series}").json()["series"]
    assert [c["node"] for c in curves] == ["fast-1", "fast-2", "slow"]
    values = [v for c in curves for v in c["mean"] if v is not None]
    assert values and max(values) > 0 and (strategy["type"] != "hpsgd" or set(values) == {2})
    rows = service.get(f"jobs/{id}/steps?last=5").json()["nodes"][0]["rows"]
    assert rows and all("strategy_value" in r for r in rows)


@pytest.mark.parametrize("strategy, each", [("sync", 320), ("asgd", 640)])
def test_a_virtual_step_takes_no_more_than_the_training_set(service, strategy, each):
    """A dry run of 10 million samples a step over 640 predicted a step of hours."""
    data = {"format": "glyphs", "samples": 640, "test_samples": 64}
    job = {**virtual(data=data, epochs=1), "strategy": {"type": strategy},
           "batching": {"global_batch": 10_000_000, "policy": "equal"},
           "cluster": {"nodes": [{"name": "a", "seconds_per_sample": 0.001},
                                 {"name": "b", "seconds_per_sample": 0.001}]}}
    told = service.post("jobs?dryRun=true", job).json()["prediction"]["strategies"][0]
    assert [w["batch"] for w in told["workers"]] == [each, each]
    assert 0.3 < told["step_seconds"] < 1
    id = service.submit(job)
    done = service.wait(id, "succeeded")
    assert [w["batch"] for w in done["workers"]] == [each, each]
    assert done["assignment"]["global_batch"] == 640
    told = service.get(f"jobs/{id}/assignments").json()["assignments"]
    assert [list(a["batches"].values()) for a in told] == [[each, each]]


def test_a_virtual_batch_above_the_training_set_is_balanced(service):
    data = {"format": "glyphs", "samples": 640, "test_samples": 64}
    job = {**virtual(data=data, epochs=40), "strategy": {"type": "sync"},
           "batching": {"global_batch": 10_000_000, "policy": "dynamic"},
           "cluster": {"nodes": [{"name": "a", "seconds_per_sample": 0.001},
                                 {"name": "b", "seconds_per_sample": 0.003}]}}
    told = service.post("jobs?dryRun=true", job).json()["prediction"]["strategies"][0]
    done = service.wait(service.submit(job), "succeeded")
    for workers in (told["workers"], done["workers"]):
        assert [w["batch"] for w in workers] == [480, 160]
