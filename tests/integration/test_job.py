"""A job from POST to its artifacts, with the real service, mpirun and Redis."""
import hashlib
import json
import signal
import socket
import struct

import pytest

from service import (PATIENCE, Service, processes_of, ranks_of, spec, standing_still, tensors,
                     until)


@pytest.fixture(scope="module")
def service():
    with Service(
        nodes=["fast=cpu:1,slowdown=2", "slow=cpu:1,slowdown=6", "other=cpu:1,slowdown=2"]) as s:
        yield s


def long_job(**changes):
    """Runs until it is told to stop."""
    return spec(epochs=1000, checkpoint={"every_steps": 20}, **changes)


def test_an_asynchronous_job_runs_to_its_end_and_every_figure_is_there(service):
    id = service.submit(
        spec(strategy={"type": "asgd"}, batching={"global_batch": 64, "policy": "dynamic"},
             workers=3, epochs=4))
    job = service.wait(id, "succeeded")
    assert job["progress"] == {**job["progress"], "samples": 4 * 2560, "fraction": 1.0, "epoch": 4,
                               "epochs": 4}
    assert (job["metrics"]["test_accuracy"] > 0.2 and job["metrics"]["train_loss"] > 0
            and job["error"] is None)
    assert job["finished"] and job["attempt"] == 1
    assert (len(job["workers"]) == 3 and sum(w["batch"] for w in job["workers"])
            == job["assignment"]["global_batch"] == 64)
    staleness = service.get(f"jobs/{id}/staleness").json()["nodes"]
    updates = sum(sum(n["histogram"]) for n in staleness)
    total = sum(t * count for n in staleness for t, count in enumerate(n["histogram"]))
    assert updates == job["progress"]["step"]
    assert abs(total / updates - job["staleness"]["update_mean"]) < 1e-9
    assert 0 < job["staleness"]["update_mean"] < 4


@pytest.mark.parametrize("strategy", ["sync", "asgd"])
def test_a_job_that_reaches_its_target_ends_there_and_says_so(service, strategy):
    id = service.submit(
        spec(epochs=200, target={"test_accuracy": 0.4}, strategy={"type": strategy}))
    job = service.wait(id, "succeeded")
    last = service.get(f"jobs/{id}/evaluations").json()["evaluations"][-1]
    assert last["accuracy"] >= 0.4 and job["metrics"]["test_accuracy"] == last["accuracy"]
    assert job["progress"]["epoch"] == last["epoch"] < 200 and job["progress"]["fraction"] == 1.0
    beyond = job["progress"]["samples"] - last["epoch"] * 2560
    assert (beyond == 0 if strategy == "sync"
            else 0 <= beyond
            < 2560), "a worker goes on while another evaluates, but not to the next epoch's end"


def test_minibatches_follow_the_measured_speeds_and_say_why():
    """Slow enough that the nodes' own speeds are measured, not the load of other processes."""
    with Service(
        nodes=["fast=cpu:1,slowdown=20", "slow=cpu:1,slowdown=80", "other=cpu:1,slowdown=20"]) as s:
        id = s.submit(
            spec(strategy={"type": "asgd"}, batching={"global_batch": 96, "policy": "dynamic"},
                 workers=3, epochs=8))
        s.wait(id, "succeeded")
        assignments = s.get(f"jobs/{id}/assignments").json()["assignments"]
        assert [a["version"] for a in assignments] == list(range(1, len(assignments) + 1))
        assert all(sum(a["batches"].values()) == 96 and a["reason"] for a in assignments)
        assert assignments[-1]["batches"]["slow"] < assignments[-1]["batches"]["fast"]
        # the reason names the cause: a sample costs the slow node more
        fits = {w["node"]: w["fit"] for w in s.job(id)["workers"]}
        step = {n: f["fixed_seconds"] + 32 * f["seconds_per_sample"] for n, f in fits.items()}
        assert step["slow"] > step["fast"] > 0 and all(f["error"] > 0 for f in fits.values())


def test_series_keep_every_row_and_never_lose_an_extreme(service):
    id = service.submit(spec(epochs=4))
    job = service.wait(id, "succeeded")  # the history is complete before the state says so
    fine = service.get(f"jobs/{id}/series?names=train_loss&points=5000").json()["series"][0]
    coarse = service.get(f"jobs/{id}/series?names=train_loss&points=10").json()["series"][0]
    assert fine["node"] is None and fine["total_points"] == job["progress"]["step"] == 160
    assert len(coarse["x"]) <= 10 and max(coarse["max"]) == max(fine["max"]) and min(
        coarse["min"]) == min(fine["min"])
    by_node = service.get(f"jobs/{id}/series?names=compute_seconds&x=samples").json()["series"]
    assert len(by_node) == 2 and all(s["total_points"] == 160 for s in by_node)


def test_the_artifact_is_a_safetensors_file_with_its_checksum(service):
    id = service.submit(spec(epochs=1))
    service.wait(id, "succeeded")
    listed = {a["name"]: a for a in service.get(f"jobs/{id}/artifacts").json()["artifacts"]}
    blob = service.artifact(id)
    assert listed["model.safetensors"]["bytes"] == len(blob)
    assert listed["model.safetensors"]["sha256"] == hashlib.sha256(blob).hexdigest()
    assert set(tensors(blob)) == {"dense1.weight", "dense1.bias", "dense2.weight", "dense2.bias"}
    part = service.get(f"jobs/{id}/artifacts/model.safetensors", headers={"Range": "bytes=8-15"})
    assert part.status_code == 206 and part.content == blob[8:16]


def test_a_cancelled_job_leaves_no_process(service):
    id = service.submit(long_job())
    service.steps(id, 5)
    assert service.post(f"jobs/{id}/cancel").status_code == 200
    service.wait(id, "cancelled")
    until("no process is left", lambda: not processes_of(id))
    until("its nodes are free",
          lambda: all(n["state"] == "ready" for n in service.get("nodes").json()["nodes"]))


def test_a_job_that_was_paused_and_resumed_ends_where_an_uninterrupted_one_ends(service):
    epochs = 120  # some seconds, so that a busy machine too sees it running
    job = spec(epochs=epochs, evaluate={"every_epochs": epochs})
    straight = service.submit(job)
    service.wait(straight, "succeeded")
    halted = service.submit(job)
    service.steps(halted, 100)
    with standing_still(halted):  # otherwise it ends before a busy machine manages to pause it
        assert service.post(f"jobs/{halted}/pause").status_code == 200
    service.wait(halted, "paused")
    until("no process is left", lambda: not processes_of(halted))
    assert 0 < service.job(halted)["progress"]["fraction"] < 1
    assert service.post(f"jobs/{halted}/resume").status_code == 200
    done = service.wait(halted, "succeeded")
    assert done["attempt"] == 2 and done["progress"]["samples"] == epochs * 2560
    assert tensors(service.artifact(halted)) == tensors(service.artifact(straight))


def test_a_job_with_two_servers_survives_a_pause_and_shows_both(service):
    id = service.submit(long_job(strategy={"type": "asgd", "servers": 2}))
    service.steps(id, 40)
    until("both servers are shown", lambda: [x["rank"] for x in service.job(id)["servers"]]
          == [2, 3])
    assert service.post(f"jobs/{id}/pause").status_code == 200
    at = service.wait(id, "paused")["progress"]["step"]
    service.post(f"jobs/{id}/resume")
    service.steps(id, at + 40)
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")


def test_jobs_run_side_by_side_where_nodes_are_free_and_by_priority_where_not(service):
    first = service.submit(long_job(workers=2))
    service.wait(first, "running")
    beside = service.submit(long_job(workers=1))
    service.wait(beside, "running")
    late = service.submit(spec(workers=3, epochs=1, name="late"))
    urgent = service.submit(spec(workers=3, epochs=1, name="urgent", priority=10))
    assert service.job(late)["state"] == service.job(urgent)["state"] == "queued"
    for id in (first, beside):
        service.post(f"jobs/{id}/cancel")
    done = [service.wait(urgent, "succeeded"), service.wait(late, "succeeded")]
    assert done[0]["started"] < done[1]["started"]


def test_a_coordinator_that_was_killed_goes_on_with_what_was_running():
    with Service(nodes=["a=cpu:1,slowdown=12", "b=cpu:1,slowdown=12"]) as s:
        id = s.submit(spec(epochs=60))
        waiting = s.submit(spec(epochs=1, name="waiting"))
        s.steps(id, 20)
        s.kill()
        assert processes_of(id), "the job's processes must outlive the coordinator"
        s.start()
        job = s.wait(id, "succeeded")
        assert job["attempt"] == 1 and job["progress"]["samples"] == 60 * 2560
        series = s.get(f"jobs/{id}/series?names=train_loss&points=20000").json()["series"][0]
        assert series["total_points"] == job["progress"]["step"]
        s.wait(waiting, "succeeded")


def test_a_coordinator_that_is_told_to_leave_tells_its_manager_and_touches_no_job(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        with Service(nodes=["a=cpu:1,slowdown=12", "b=cpu:1,slowdown=12"],
                     env={"NOTIFY_SOCKET": str(tmp_path / "notify")}) as s:
            assert manager.recv(100) == b"READY=1\nSTATUS=works"
            id = s.submit(spec(epochs=100))  # it still runs when it is adopted
            s.steps(id, 20)
            before = ranks_of(id)
            s.process.send_signal(signal.SIGUSR1)
            assert manager.recv(100) == b"STOPPING=1"
            assert s.process.wait(30 * PATIENCE) == 0
            assert before and ranks_of(id) == before, "they outlive the coordinator"
            s.start()
            job = s.wait(id, "succeeded")
            assert job["attempt"] == 1 and job["progress"]["samples"] == 100 * 2560
            assert f'msg="adopted" job={id} attempt=1 ' in s.text()


def test_every_mistake_of_a_spec_is_reported_at_once(service):
    bad = spec(epochs=0, modle="mlp", strategy={"type": "snyc"}, batching={"global_batch": 1},
               data={"format": "idx", "path": "nowhere"})
    answer = service.post("jobs", bad)
    assert answer.status_code == 422 and answer.headers["Content-Type"].startswith(
        "application/problem+json")
    pointers = {e["pointer"] for e in answer.json()["errors"]}
    assert {"/epochs", "/modle", "/strategy/type", "/batching/global_batch"} <= pointers
    missing = service.post("jobs", spec(data={"format": "idx", "path": "nowhere"}))
    assert missing.status_code == 422 and missing.json()["errors"][0]["pointer"] == "/data/path"
    torn = service.http.post(service.url + "/api/v1/jobs", data='{"name": "a",\n "name": "b"}',
                             headers={"Content-Type": "application/json"})
    assert torn.status_code == 400 and "line 2" in torn.json()["detail"]


def test_a_dry_run_queues_nothing(service):
    before = len(service.get("jobs").json()["jobs"])
    answer = service.post("jobs?dryRun=true", spec(workers=3))
    assert answer.status_code == 200 and [n["batch"] for n in answer.json()["nodes"]] == [
        22, 21, 21]
    assert all(n["memory_bytes"] > 0 for n in answer.json()["nodes"])
    assert len(service.get("jobs").json()["jobs"]) == before


@pytest.mark.parametrize("strategy", ["sync", "asgd"])
def test_a_global_batch_above_the_training_set_takes_the_memory_of_what_there_is(
        service, strategy):
    """A step has at most the 2,560 existing samples: under `sync` two workers share them; a server
    gives all of them to one worker after the other."""
    each = 1280 if strategy == "sync" else 2560
    epochs = 24  # one step each, so that the nodes are measured
    job = spec(strategy={"type": strategy}, epochs=epochs,
               batching={"global_batch": 10_000_000, "policy": "equal"})
    plan = service.post("jobs?dryRun=true", job).json()
    assert [n["batch"] for n in plan["nodes"]] == [each, each]
    assert all(0 < n["memory_bytes"] < 100e6 for n in plan["nodes"])
    assert plan["warnings"] == [{
        "code": "batch_too_large", "pointer": "/batching/global_batch",
        "message": "the training set has 2560 samples; a step takes at most 2560"}]
    id = service.submit(job)
    done = service.wait(id, "succeeded")
    assert done["progress"]["samples"] == epochs * 2560 and done["attempt"] == 1
    assert done["metrics"]["step_seconds"] < 60, "of the samples that a step has"
    assert [w["batch"] for w in done["workers"]] == [each, each]
    assert done["assignment"]["global_batch"] == 2560
    told = service.get(f"jobs/{id}/assignments").json()["assignments"]
    assert [list(a["batches"].values()) for a in told] == [[each, each]]
    assert told[0]["reason"] == "the training set has 2560 samples: equal"
    again = service.post("jobs?dryRun=true", job).json()["prediction"]["strategies"]
    row = next(r for r in again if r["chosen"])
    assert [w["batch"] for w in row["workers"]] == [each, each], "which were measured by now"


def test_a_global_batch_within_the_training_set_is_no_warning(service):
    plan = service.post("jobs?dryRun=true", spec(batching={"global_batch": 2560})).json()
    assert plan["warnings"] == []
