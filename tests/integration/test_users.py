"""A Redis with users by role (deploy/container/users.acl): what a job needs works, and what a
stranger with a worker's or an agent's password writes changes nothing."""
import json
import os
import pathlib
import subprocess

import pytest
import redis

from agents import Agent, ready
from redis_server import RedisServer
from service import ROOT, Service, free_port, proc_file, ranks_of, spec, until

LARGEST = "18446744073709551615-18446744073709551615"


class Store(RedisServer):
    """With the users and passwords that deploy/container/keys draws."""

    def __init__(self, folder):
        there = {path.name for path in folder.iterdir()}
        assert there <= {"host"}, "the script makes what it fills"
        subprocess.run([ROOT / "deploy/container/keys", folder], check=True)
        super().__init__(folder)

    def options(self):
        self.port = free_port()
        return ["--port", self.port, "--bind", "127.0.0.1", "--aclfile",
                self.folder / "redis/users.acl"]

    def connection(self):
        return self.of("coordinator")

    def file(self, user):
        return {"coordinator": self.folder / "coordinator/store-password",
                "keeper": self.folder / "coordinator/keeper-password",
                "agent": self.folder / "agent/store-password",
                "worker": self.folder / "agent/worker-password"}[user]

    def url(self, user):
        return f"redis://{user}@127.0.0.1:{self.port}"

    def of(self, user):
        return redis.Redis(port=self.port, username=user,
                           password=self.file(user).read_text().strip(), decode_responses=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    s = Store(tmp_path_factory.mktemp("store"))
    yield s
    s.stop()


@pytest.fixture(scope="module")
def service(store):
    options = ["--store", store.url("coordinator"), "--store-password-file",
               store.file("coordinator"), "--keeper-user", "keeper", "--keeper-password-file",
               store.file("keeper"), "--secret-file", store.folder / "coordinator/secret",
               "--no-local-node"]
    with Service(nodes=[], options=[str(o) for o in options]) as s:
        def agent(host, node):
            return Agent(s, host, node + "=cpu:1", secret=store.folder / "agent/secret",
                         store=store.url("agent"), options=[
                "--store-password-file", str(store.file("agent")), "--worker-user", "worker",
                "--worker-password-file", str(store.file("worker"))])
        with agent("alpha", "a"), agent("beta", "b"):
            ready(s, "a", "b")
            yield s


def running(service, **changes):
    """A job over both hosts that has made some steps and has many left."""
    id = service.submit(spec(**{"epochs": 60, "max_restarts": 0, **changes}))
    until("it makes steps", lambda: service.job(id)["progress"]["step"] > 20)
    return id


def fact(id, attempt, rank, **more):
    return json.dumps({"format": 1, "job": id, "attempt": attempt, "rank": rank, "number": 10**9,
                       "type": "ended", "node": "keeper", "code": "none", "message": "", **more})


def test_a_job_over_two_hosts_needs_no_more_than_its_users_may(service):
    id = service.submit(spec())
    job = service.wait(id, "succeeded")
    assert job["progress"]["samples"] == 2 * 2560 and {w["node"] for w in job["workers"]} == {
        "a", "b"}


def test_agents_tell_how_busy_their_nodes_are_with_the_rights_that_they_have(service):
    for node in ("a", "b"):
        load = until("its load is there", lambda: [
            share for share in service.get(f"nodes/{node}/load").json().get("cpu") or []
            if share is not None])
        assert all(0 <= share <= 1 for share in load)


def test_a_stranger_with_the_workers_user_ends_no_job(service, store):
    # it still runs when the forged data are read
    id, worker = running(service, epochs=200), store.of("worker")
    for attempt in (0, 1, 2, 30000):
        for text in (fact(id, attempt, 2, outcome="finished"),
                     fact(id, attempt, 0, outcome="failed", code="data")):
            worker.xadd(f"es:job:{id}:facts", {"j": text})
            worker.xadd(f"es:job:{id}:facts", {"j": "0" * 64 + "\n" + text})
    genuine = worker.hgetall(f"es:job:{id}:beats")
    for rank, text in genuine.items():
        forged = json.loads(text.partition("\n")[2])
        worker.hset(f"es:job:{id}:beats", rank, text.partition("\n")[0] + "\n"
                    + json.dumps({**forged, "samples": 10**9}))
    worker.xadd(f"es:job:{id}:rows:0", {"r": b"\xff" * 80, "bytes": 80})
    until("what was written is dropped, and said",
          lambda: all(f'"a report is dropped" job={id} attempt=1 what={what}' in service.text()
                      for what in ("fact", "rows")))
    job = service.wait(id, "succeeded", seconds=300)
    assert (job["attempt"] == 1 and job["progress"]["samples"] == 200 * 2560
            and job["progress"]["fraction"] == 1)


@pytest.mark.parametrize("stream", ["facts", "rows:0", "rows:1", "rows:2"])
def test_the_largest_of_all_ids_blocks_no_stream_of_a_job(service, store, stream):
    id = running(service)
    store.of("worker").xadd(f"es:job:{id}:{stream}", {"j": "x"}, id=LARGEST)
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1 and job["progress"]["samples"] == 60 * 2560


def test_the_largest_of_all_ids_does_not_stop_the_service(service, store):
    store.of("agent").xadd("es:events", {"j": "x"}, id=LARGEST)
    id = service.submit(spec())
    assert service.wait(id, "succeeded")["attempt"] == 1


@pytest.mark.parametrize("user", ["worker", "keeper", "agent"])
def test_no_user_but_the_coordinators_runs_scripts_or_reaches_beyond_its_role(service, store, user):
    job = "es:job:0123456789abcdef"
    refused = [("eval", "while true do end", 0), ("evalsha", "0" * 40, 0),
               ("script", "load", "return 1"), ("function", "load", "#!lua name=x\n"),
               ("function", "flush"), ("hset", job, "state", "failed"),
               ("set", job + ":plan", "{}"), ("del", job + ":facts"),
               ("set", "es:claim:a", "x"), ("get", "es:secret:1"), ("flushall",),
               ("config", "get", "*"), ("acl", "list"), ("keys", "*")]
    if user != "agent":  # nor makes a hash in place of a stream
        refused += [("hset", job + ":rows:0", "a", "b"), ("hset", job + ":facts", "a", "b"),
                    ("xadd", job + ":beats", "*", "a", "b")]
    if user == "agent":  # of shared keys it changes only its own entries
        refused += [("del", "es:events"), ("set", "es:events", "x"),
                    ("hset", "es:events", "a", "b"), ("del", "es:nodes"),
                    ("set", "es:nodes", "x"), ("del", "es:hosts"),
                    ("del", "es:mail:join"), ("set", "es:mail:join", "x"),
                    ("hset", "es:gpu:a", "a", "b"), ("set", "es:node:a", "x"),
                    ("set", "es:refused", "x"), ("del", "es:refused")]
    if user == "worker":
        refused += [("lpop", "es:mail:host.beta"), ("rpush", "es:mail:host.beta", "x"),
                    ("set", "es:lease:x", "1")]
    for words in refused:
        with pytest.raises(redis.exceptions.ResponseError, match="(?i)no permissions|NOPERM"):
            store.of(user).execute_command(*words)


def test_no_process_of_a_job_has_the_coordinators_password(service, store):
    # it runs until it is cancelled
    id = running(service, epochs=10000)
    password = store.file("coordinator").read_text().strip().encode()
    keeper = store.file("keeper").read_text().strip().encode()
    ranks = until("all ranks run", lambda: len(ranks_of(id)) == 3 and ranks_of(id))
    having = [p for p in pathlib.Path("/proc").glob("[0-9]*")
              if f"EVENSTEP_JOB={id}".encode() in proc_file(p.name, "environ")]
    assert len(having) >= 5  # mpirun, evenstep-launch, orted and the ranks
    assert not [p for p in having if password in proc_file(p.name, "environ")
                or password in proc_file(p.name, "cmdline")]
    assert keeper in proc_file(ranks[2], "environ")
    seals = (service.dir / "jobs" / id / "seals" / "1").read_bytes().split()
    assert len(seals) == 3 and os.stat(service.dir / "jobs" / id / "seals"
                                       / "1").st_mode & 0o777 == 0o600
    for p in having:
        assert not [s for s in seals if s in proc_file(p.name, "cmdline")]
    assert not [s for s in seals for rank in ranks.values() if s in proc_file(rank, "environ")]
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")
