"""Two coordinators on one store: only one works, the other waits or ends, and takes over when the
first one is gone (docs/decisions/0016). Real programs, and a Redis of the test."""
import contextlib
import os
import re
import signal
import subprocess
import tempfile
import pathlib
import shutil

import pytest

from service import BUILD, DEADLINE, PATIENCE, Service, ranks_of, spec, until

NODES = ("a=cpu:1,slowdown=160", "b=cpu:1,slowdown=40")


class Redis:
    """A redis-server that belongs to no coordinator."""

    def __enter__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="evenstep-redis-"))
        self.socket = self.dir / "sock"
        self.url = f"unix:{self.socket}"
        self.start()
        return self

    def start(self):
        command = ["redis-server", "--port", "0", "--unixsocket", str(self.socket), "--dir",
                   str(self.dir), "--appendonly", "yes", "--logfile", str(self.dir / "log")]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        until("redis answers", lambda: self.ask("ping") == "PONG")

    def ask(self, *words):
        return subprocess.run(["redis-cli", "-s", str(self.socket), *words], capture_output=True,
                              text=True).stdout.strip()

    def stop(self):
        self.process.terminate()
        self.process.wait(60)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class Standby:
    """`evenstep serve --standby`, which is ready only after it has taken over."""

    def __init__(self, redis, folder, nodes=NODES):
        command = [str(BUILD / "evenstep"), "serve", "--data-dir", str(folder), "--listen",
                   "127.0.0.1:0", "--store", redis.url, "--standby"]
        for node in nodes:
            command += ["--local-node", node]
        self.out = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdout=self.out, stderr=subprocess.STDOUT,
                                        env={**os.environ})

    def text(self):
        self.out.seek(0)
        return self.out.read()

    def ready(self):
        assert self.process.poll() is None, self.text()
        return re.search(r"msg=\"?ready\"? url=(\S+)", self.text())

    def __enter__(self):
        until("it waits", lambda: 'msg="standby"' in self.text() or self.ready())
        return self

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(DEADLINE * PATIENCE)
        if kind:
            print("standby:\n" + self.text()[-6000:])


@pytest.fixture
def redis():
    with Redis() as r:
        yield r


def job_spec(epochs=5, **changes):
    return spec(
        **{"epochs": epochs, "evaluate": {"every_epochs": epochs},
           "checkpoint": {"every_steps": 20}, "max_restarts": 0, **changes})


def test_a_second_coordinator_on_a_store_says_who_works_there_and_ends(redis):
    with Service(nodes=NODES,
                 options=("--store", redis.url)) as s, tempfile.TemporaryDirectory() as other:
        id = s.submit(job_spec())
        s.steps(id, 10)
        command = [str(BUILD / "evenstep"), "serve", "--data-dir", other, "--listen", "127.0.0.1:0",
                   "--store", redis.url]
        second = subprocess.run(command, capture_output=True, text=True, timeout=60)
        said = second.stdout + second.stderr
        rival = f"another coordinator works on this store: process {s.process.pid} on host"
        assert second.returncode == 3 and rival in said, said
        assert "--standby" in said and str(s.dir) in said
        job = s.wait(id, "succeeded")
        assert job["attempt"] == 1 and s.process.poll() is None


def test_a_killed_coordinator_is_replaced_by_its_standby_and_the_job_goes_on(redis):
    with Service(nodes=NODES, options=("--store", redis.url)) as s, Standby(
            redis, s.dir) as standby:
        id = s.submit(job_spec(15))  # still runs when it is adopted
        s.steps(id, 20)
        ranks = ranks_of(id)
        assert 'msg="standby"' in standby.text() and not standby.ready()
        s.kill()
        until("the standby has taken over", standby.ready)
        s.adopt(standby.process, standby.ready().group(1))
        until("it adopts the job", lambda: f'msg="adopted" job={id} attempt=1 ' in standby.text())
        assert ranks_of(id) == ranks, "nothing was started again"
        job = s.wait(id, "succeeded")
        assert job["attempt"] == 1 and job["progress"]["samples"] == 15 * 2560


@pytest.mark.parametrize("next", ["started again", "standby"])
def test_a_batch_above_the_training_set_is_the_same_one_to_the_next_coordinator(redis, next):
    """The ranks know shares of the requested batch; people and the balancer know those of a step.
    The next coordinator derives one from the other, tells nothing again, and continues
    balancing."""
    epochs, samples = 60, 2560  # a step each
    spec = job_spec(epochs, batching={"global_batch": 10_000_000, "policy": "dynamic"})
    with Service(nodes=NODES, options=("--store", redis.url)) as s, (
            Standby(redis, s.dir) if next == "standby" else contextlib.nullcontext()) as standby:
        id = s.submit(spec)

        def told():
            return s.get(f"jobs/{id}/assignments").json()["assignments"]

        until("minibatches follow the speeds", lambda: len(told()) > 1)
        before, ranks, step = told(), ranks_of(id), s.job(id)["progress"]["step"]
        s.kill()
        if standby:
            until("the standby has taken over", standby.ready)
            s.adopt(standby.process, standby.ready().group(1))
        else:
            s.start()
        s.steps(id, step + 8)
        job, now = s.job(id), told()
        assert ranks_of(id) == ranks, "nothing was started again"
        assert job["assignment"]["global_batch"] == samples
        assert {w["node"]: w["batch"] for w in job["workers"]} == now[-1]["batches"]
        job, after = s.wait(id, "succeeded"), told()
        assert job["attempt"] == 1 and job["progress"]["samples"] == epochs * samples
        assert job["rows_dropped"] == 0
        assert after[:len(before)] == before and len({a["version"] for a in after}) == len(after)
        assert all(sum(a["batches"].values()) == samples for a in after)
        assert ["training set" in a["reason"] for a in after] == [True] + [False] * (len(after) - 1)
        assert after[-1]["batches"]["b"] > 2 * after[-1]["batches"]["a"]


def test_a_coordinator_that_stood_still_too_long_stops_without_a_change(redis):
    with Service(nodes=NODES, options=("--store", redis.url)) as s, Standby(
            redis, s.dir) as standby:
        id = s.submit(job_spec(24))
        s.steps(id, 20)
        ranks, first = ranks_of(id), s.process
        first.send_signal(signal.SIGSTOP)
        try:
            until("the standby has taken over", standby.ready)
        finally:
            first.send_signal(signal.SIGCONT)
        assert first.wait(60 * PATIENCE) == 3
        assert "another coordinator has taken over" in s.text()
        assert ranks_of(id) == ranks, "its end touched no rank"
        s.adopt(standby.process, standby.ready().group(1))
        job = s.wait(id, "succeeded", seconds=300)
        assert job["attempt"] == 1 and job["progress"]["samples"] == 24 * 2560
        assert {n["name"] for n in s.get("nodes").json()["nodes"]} == {"a", "b"}


def test_a_store_that_was_away_ends_neither_the_coordinator_nor_its_wait(redis):
    with Service(nodes=NODES, options=("--store", redis.url)) as s, Standby(
            redis, s.dir) as standby:
        id = s.submit(job_spec(10))
        s.steps(id, 20)
        redis.stop()
        until("the coordinator notices", lambda: "the store is away; jobs go on" in s.text())
        redis.start()
        until("the store is back", lambda: "the store is back" in s.text())
        job = s.wait(id, "succeeded")
        assert job["attempt"] == 1 and s.process.poll() is None and not standby.ready()


def test_a_coordinator_in_another_folder_waits_until_a_killed_ones_lease_has_run_out(redis):
    with Service(nodes=NODES, options=("--store", redis.url)) as s:
        s.kill()
        with Service(nodes=NODES, options=("--store", redis.url)) as next:
            assert "waits for another coordinator's lease" in next.text()
            id = next.submit(job_spec(1))
            assert next.wait(id, "succeeded")["attempt"] == 1
