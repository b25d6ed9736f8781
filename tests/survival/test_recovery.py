"""What dies, and what goes on: the store, mpirun, a rank, the coordinator, the disk; with the real
processes.

Slowdowns make steps of some milliseconds, so that there is time to break something in the middle. A
job that went on has counted every sample once, and its charts have every step once: that is asked
of each."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from disk import SmallDisk
from service import (BUILD, Service, processes_of, program_of, ranks_of, spec, standing_still,
                     until)

NODES = ("a=cpu:1,slowdown=80", "b=cpu:1,slowdown=80")
SAMPLES, STEPS_PER_EPOCH = 2560, 40
EPOCHS, LONG = 16, 32  # 5 and 10 seconds: a job still runs when it is disturbed or taken over


@pytest.fixture(scope="module")
def service():
    with Service(nodes=(*NODES, "c=cpu:1,slowdown=80")) as s:
        yield s


def job_spec(epochs=EPOCHS, **changes):
    return spec(
        **{"epochs": epochs, "evaluate": {"every_epochs": epochs},
           "checkpoint": {"every_steps": 20}, **changes})


def read(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:  # it does not exist yet
        return b""


def all_ranks(id, n=3):
    return until(f"{n} ranks of job {id} run", lambda: (r := ranks_of(id)) and len(r) == n and r)


def checkpoints(service, id):
    """Steps of the existing checkpoints."""
    return sorted(int(p.stem.split("-")[1]) for p in (service.dir / "jobs" / id / "checkpoints")
                  .glob("step-*.safetensors"))


def stepping_with_checkpoint(service, id):
    """The newest checkpoint's step, once there is one and the job has passed it."""
    service.wait(id, "running")
    step = until("a checkpoint is there", lambda: checkpoints(service, id))[-1]
    service.steps(id, step + 1)
    return step


def said(service, *parts, since=0):
    """The first line of the service's log after `since` that contains all these parts."""
    for line in service.text()[since:].splitlines():
        if all(p in line for p in parts):
            return line
    return None


def assert_whole(service, id, job, epochs=EPOCHS):
    """Every sample counts once, every step is charted once. What a killed rank had not reported yet
    (its last moments) counts as such."""
    lost = job["rows_dropped"]
    assert lost == 0 if job["attempt"] == 1 else lost < STEPS_PER_EPOCH
    assert job["state"] == "succeeded" and job["error"] is None
    assert job["progress"]["samples"] == epochs * SAMPLES and job["progress"]["fraction"] == 1.0
    series = service.get(
        f"jobs/{id}/series?names=train_loss,test_accuracy&points=20000").json()["series"]
    steps = next(s for s in series if s["name"] == "train_loss")
    assert steps["total_points"] == job["progress"]["step"] - lost and steps["x"] == sorted(
        set(steps["x"]))
    assert sum(s["total_points"] for s in series if s["name"] == "test_accuracy") == 1


@contextlib.contextmanager
def ends_without_its_store(service, id):
    """Redis stands still meanwhile: the job has trained to its end, and cannot report it."""
    store = int((service.dir / "redis.pid").read_text())
    os.kill(store, signal.SIGSTOP)
    try:
        model = service.dir / "jobs" / id / "artifacts/model.safetensors"
        until("the model is written", model.exists)
        yield model
    finally:
        os.kill(store, signal.SIGCONT)


def test_a_store_that_is_away_when_a_job_ends_costs_nothing_of_it():
    """Its ranks have trained to the end, and report it when the store is back."""
    with Service(nodes=NODES) as s:
        id = s.submit(job_spec(max_restarts=0))
        s.steps(id, 40)
        with ends_without_its_store(s, id) as model:
            until("it was for some seconds", lambda: time.time() - model.stat().st_mtime > 9)
        job = s.wait(id, "succeeded")
        assert job["attempt"] == 1 and job["progress"]["samples"] == EPOCHS * SAMPLES


def test_what_a_worker_could_not_tell_before_it_died_is_counted_and_its_rows_are_missed():
    """The store was away, so only the keeper knows the worker's last samples, and its last rows are
    lost: as many as the curve has gaps."""
    epochs = 6
    with Service(nodes=NODES) as s:
        id = s.submit(job_spec(epochs, strategy={"type": "asgd"}, max_restarts=0))
        s.steps(id, 40)
        with ends_without_its_store(s, id):
            os.kill(ranks_of(id)[1], signal.SIGKILL)
        job = s.wait(id, "succeeded")
        assert job["attempt"] == 1 and job["progress"]["samples"] == epochs * SAMPLES
        assert sum(w["samples"] for w in job["workers"]) == epochs * SAMPLES
        curve = s.get(f"jobs/{id}/series?names=train_loss&points=20000").json()["series"][0]
        assert curve["x"] == sorted(set(curve["x"])) and job["rows_dropped"] > 0
        assert len(curve["x"]) == job["progress"]["step"] - job["rows_dropped"]


def test_a_killed_redis_is_started_again_and_nothing_accepted_is_lost():
    with Service(nodes=NODES) as s:
        id = s.submit(job_spec(LONG))
        s.steps(id, 40)
        accepted = [s.submit(job_spec(1, name=f"waits-{i}")) for i in range(5)]
        os.kill(int((s.dir / "redis.pid").read_text()), signal.SIGKILL)
        until("it is noticed", lambda: said(s, "is away"))
        assert ranks_of(id), "training goes on without a store"
        until("the store is back", lambda: said(s, "the store is back"))
        # another thread's line: it can come after the one above
        until("its restart is told", lambda: said(s, "started again"))
        listed = until("the API answers", lambda: (r := s.get("jobs")).ok and r.json()["jobs"])
        assert {j["id"] for j in listed} == {id, *accepted}
        job = s.wait(id, "succeeded")
        assert job["attempt"] == 1
        assert_whole(s, id, job, LONG)
        for other in accepted[1:]:
            assert s.post(f"jobs/{other}/cancel").ok
        assert_whole(s, accepted[0], s.wait(accepted[0], "succeeded"), 1)


def test_a_killed_mpirun_leaves_no_orphan_and_the_job_goes_on(service):
    id = service.submit(job_spec())
    stepping_with_checkpoint(service, id)
    ranks = all_ranks(id)
    mpirun = next(p for p in processes_of(id) if program_of(p) == "mpirun")
    os.kill(mpirun, signal.SIGKILL)
    until("no rank of the attempt is left", lambda: not set(ranks.values()) & set(processes_of(id)))
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 2 and said(service, "attempt ended", id, "state=queued")
    assert_whole(service, id, job)


def test_a_stopped_rank_is_named_with_phase_and_age_and_the_job_goes_on(service):
    """For a job that needs all its workers; others continue (test_silent_worker.py)."""
    id = service.submit(job_spec(min_workers=2))
    stepping_with_checkpoint(service, id)
    ranks = all_ranks(id)
    node = next(w["node"] for w in service.job(id)["workers"] if w["rank"] == 1)
    os.kill(ranks[1], signal.SIGSTOP)
    line = until("the rank is lost", lambda: said(service, "a rank is lost", id))
    assert re.search(rf"rank 1 on node '{node}' is lost: no heartbeat for [\d.]+ s while \w+",
                     line), line
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 2 and not set(ranks.values()) & set(processes_of(id))
    assert_whole(service, id, job)


@pytest.mark.parametrize("strategy", ["sync", "asgd"])
def test_a_loss_that_becomes_nan_stops_the_job_and_names_step_and_worker(service, strategy):
    layers = [{"type": "flatten"}, {"type": "dense", "units": 64}, {"type": "dense", "units": 64},
              {"type": "dense", "units": 10}]
    diverges = {"epochs": 50, "strategy": {"type": strategy},
                "optimizer": {"type": "sgd", "learning_rate": 1000}}
    id = service.submit(spec(model={"input": [28, 28, 1], "layers": layers}, **diverges))
    job = until("it has failed", lambda: (j := service.job(id))["state"] in ("failed", "succeeded")
                and j)
    assert (job["state"] == "failed"
            and job["attempt"] == 1), "another attempt would meet the same again"
    assert job["error"]["code"] == "not_finite", job["error"]
    assert re.search(r"NaN or infinite.*step \d+ of worker \d", job["error"]["message"])
    assert job["error"]["rank"] in (0, 1) and job["error"]["node"] in ("a", "b", "c")


@pytest.mark.parametrize("strategy", ["sync", "asgd"])
def test_a_restart_goes_on_with_the_nodes_that_are_left(service, strategy):
    id = service.submit(job_spec(workers=3, strategy={"type": strategy}, min_workers=2))
    stepping_with_checkpoint(service, id)
    assert service.post("nodes/b/drain").ok
    try:
        # the keeper, which the attempt needs; it would continue without a worker
        os.kill(all_ranks(id, 4)[3], signal.SIGKILL)
        job = service.wait(id, "succeeded")
    finally:
        service.post("nodes/b/enable")
    assert job["attempt"] == 2 and [w["node"] for w in job["workers"]] == ["a", "c"]
    assert sum(w["batch"] for w in job["workers"]) == 64
    assert_whole(service, id, job)
    if strategy == "asgd":
        staleness = service.get(f"jobs/{id}/staleness").json()["nodes"]
        assert sum(sum(n["histogram"]) for n in staleness) == job["progress"]["step"]


def test_a_gradient_of_a_group_that_was_not_complete_at_a_pause_counts_once(service):
    """Three workers and groups of three: most pauses find one or two gradients in a group."""
    id = service.submit(job_spec(10, workers=3, strategy={"type": "softsync", "n": 1},
                                 optimizer={"type": "sgd", "learning_rate": 0.02}))
    for _ in range(4):
        service.steps(id, ((service.job(id)["progress"] or {}).get("step") or 0) + 10)
        assert service.post(f"jobs/{id}/pause").ok
        service.wait(id, "paused")
        assert service.post(f"jobs/{id}/resume").ok
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 5 and job["progress"]["samples"] == 10 * SAMPLES
    assert sum(w["samples"] for w in job["workers"]) == 10 * SAMPLES


def crash(service):
    begin = len(service.text())
    service.kill()
    service.start()
    return begin


def stored_state(service, id):
    return subprocess.run(["redis-cli", "-s", service.dir / "redis.sock", "hget", f"es:job:{id}",
                           "state"], check=True, capture_output=True, text=True).stdout.strip()


def slow_mpirun(folder):
    """The environment of a service whose mpirun starts once folder/hold is gone."""
    script = folder / "mpirun"
    script.write_text(f"#!/bin/sh\nwhile [ -e {folder}/hold ]; do sleep 0.05; done\n"
                      f'exec {shutil.which("mpirun")} "$@"\n')
    script.chmod(0o755)
    (folder / "hold").touch()
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def test_a_coordinator_that_dies_in_the_middle_of_a_change_of_state_completes_it(tmp_path):
    with Service(nodes=NODES, env=slow_mpirun(tmp_path)) as s:
        id = s.submit(job_spec(LONG))
        until("it is being launched", lambda: s.job(id)["state"] == "launching")
        s.kill()
        assert stored_state(s, id) == "launching"
        (tmp_path / "hold").unlink()
        s.start()
        s.steps(id, 30)

        with standing_still(id):
            assert s.post(f"jobs/{id}/pause").ok
            s.kill()
            assert stored_state(s, id) == "pausing"
        s.start()
        s.wait(id, "paused")
        until("no process is left", lambda: not processes_of(id))
        assert s.post(f"jobs/{id}/resume").ok
        attempts = s.wait(id, "succeeded")["attempt"]
        assert attempts in (2, 3), "the first launch was adopted, or lost and made again"
        assert_whole(s, id, s.job(id), LONG)

        id = s.submit(job_spec(1000))
        s.steps(id, 10)
        with standing_still(id):
            assert s.post(f"jobs/{id}/cancel").ok
            s.kill()
            assert stored_state(s, id) == "cancelling"
        s.start()
        s.wait(id, "cancelled")
        until("no process is left", lambda: not processes_of(id))
        until("its nodes are free",
              lambda: all(n["state"] == "ready" for n in s.get("nodes").json()["nodes"]))


def test_a_coordinator_killed_while_it_launches_costs_a_job_without_restarts_nothing():
    with Service(nodes=NODES) as s:
        for i in range(4):
            id = s.submit(job_spec(1, max_restarts=0))
            until("it is being launched", lambda: s.job(id)["state"] != "queued", every=0.002)
            crash(s)
            assert_whole(s, id, s.wait(id, "succeeded"), 1)


def test_an_attempt_whose_record_is_lost_is_found_by_what_it_carries():
    with Service(nodes=NODES) as s:
        id = s.submit(job_spec(LONG, max_restarts=0))
        s.steps(id, 20)
        ranks = ranks_of(id)
        s.kill()
        subprocess.run(["redis-cli", "-s", s.dir / "redis.sock", "hdel", f"es:job:{id}", "launch"],
                       check=True, capture_output=True)
        s.start()
        until("it is adopted", lambda: said(s, 'msg="adopted"', id, "alive=1"))
        assert ranks_of(id) == ranks
        job = s.wait(id, "succeeded")
        assert job["attempt"] == 1
        assert_whole(s, id, job, LONG)


def test_a_clean_stop_writes_a_checkpoint_and_the_next_start_goes_on_from_it():
    with Service(nodes=NODES) as s:
        id = s.submit(job_spec(checkpoint={"every_seconds": 3600}))
        s.steps(id, 40)
        step = s.job(id)["progress"]["step"]
        s.stop()
        assert not processes_of(str(s.dir)) and not processes_of(
            id), "nothing is left of a service that was stopped"
        kept = checkpoints(s, id)
        assert kept and kept[-1] >= step
        begin = len(s.text())
        s.start()
        job = s.wait(id, "succeeded")
        assert job["attempt"] == 2 and said(s, "continues from a checkpoint", f"step={kept[-1]}",
                                            since=begin)
        assert_whole(s, id, job)


def test_a_second_coordinator_on_the_same_folder_is_refused_and_harms_nobody(service):
    command = [str(BUILD / "evenstep"), "serve", "--data-dir", str(service.dir), "--listen",
               "127.0.0.1:0"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (second.returncode == 1 and "another evenstep serve works in" in second.stderr
            + second.stdout)
    assert {n["name"]: n["state"] for n in service.get("nodes").json()["nodes"]} == {
        "a": "ready", "b": "ready", "c": "ready"}


@pytest.mark.parametrize("harm", ["altered", "cut"])
def test_a_newest_checkpoint_that_is_damaged_is_passed_over_for_the_one_before(service, harm):
    id = service.submit(job_spec())
    service.steps(id, 50)
    assert service.post(f"jobs/{id}/pause").ok
    service.wait(id, "paused")
    *_, before, newest = checkpoints(service, id)
    path = next((service.dir / "jobs" / id / "checkpoints").glob(f"step-*{newest}.safetensors"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content if harm == "altered" else content[:-1])
    assert service.post(f"jobs/{id}/resume").ok
    job = service.wait(id, "succeeded")
    assert said(service, "continues from a checkpoint", id, f"step={before} ")
    assert_whole(service, id, job)


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted as root only")
def test_a_full_disk_costs_a_checkpoint_but_neither_the_older_one_nor_the_job(service):
    for node in "abc":
        assert service.post(f"nodes/{node}/drain").ok
    id = service.submit(job_spec(LONG))
    # a checkpoint has 814 KB
    disk = SmallDisk(service.dir / "jobs" / id / "checkpoints", 1200 * 1024)
    try:
        for node in "abc":
            assert service.post(f"nodes/{node}/enable").ok
        log = service.dir / "jobs" / id / "logs" / "rank-2.log"
        until("a checkpoint was refused", lambda: b"could not save" in read(log))
        assert b"No space left on device" in read(log) and service.job(id)["state"] == "running"
        kept = checkpoints(service, id)
        assert len(kept) == 1, "the older one stands, and no part of another"
        disk.grow(16 << 20)
        until("checkpoints are written again", lambda: checkpoints(service, id)[-1] > kept[0])
        os.kill(all_ranks(id)[2], signal.SIGKILL)  # and are useful
        job = service.wait(id, "succeeded")
        assert job["attempt"] == 2 and said(service, "continues from a checkpoint", id)
        assert_whole(service, id, job, LONG)
    finally:
        disk.remove()


def fill(path):
    """Takes all free space of this file's disk."""
    with open(path, "ab", buffering=0) as f:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    f.write(b"0" * size)
            except OSError:
                pass


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted as root only")
def test_a_full_disk_of_the_service_is_the_reason_in_the_503_and_in_the_log(tmp_path):
    disk = SmallDisk(tmp_path / "small", 24 << 20)
    try:
        with Service(nodes=NODES, folder=disk.path) as s:
            until("it is told before",
                  lambda: said(s, "the disk is nearly full", "bytes_that_can_go="))
            assert s.get("disk").json()["low"]
            ended = s.submit(job_spec(1, workers=1))
            s.wait(ended, "succeeded")
            until("what it could give back is told",
                  lambda: [j["can_go_bytes"] for j in s.get("disk").json()["jobs"]][:1] > [1 << 20])

            def refused():
                answer = s.http.post(s.url + "/api/v1/jobs", json=job_spec(1, name="x" * 60),
                                     timeout=60)
                # an answer of 503 is an error by itself
                return [answer] if answer.status_code == 503 else None

            fill(disk.path / "filler")
            answer = until("the API refuses", refused)[0]
            assert (f"the disk of '{disk.path}' is full" in answer.json()["detail"]
                    and "by hand" in answer.json()["hint"]), answer.text
            assert s.http.delete(s.url + "/api/v1/jobs/" + ended).status_code == 503
            until("the log says so too",
                  lambda: said(s, "is away", f"the disk of '{disk.path}' is full"))
            told = s.http.get(s.url + "/api/v1/disk", timeout=60)
            assert told.status_code == 200 and told.json()["low"], "though the store is away"
            for part in ("history", "checkpoints"):  # as the hint says
                shutil.rmtree(disk.path / "jobs" / told.json()["jobs"][0]["id"] / part)
            until("jobs can be deleted when there is room again",
                  lambda: s.http.delete(s.url + "/api/v1/jobs/" + ended).status_code == 204)
    finally:
        disk.remove()
