"""Users of Redis that the coordinator makes: one for each host, and one for its ranks in an attempt
(store/users.h, docs/decisions/0060). The test takes the credentials of a host or of a rank, and
tries to use them on what it must not touch."""
import hashlib
import hmac
import json
import pathlib
import re

import pytest
import redis

from agents import Agent, ready
from service import Service, proc_file, ranks_of, spec, until
from test_users import Store


class OwnStore(Store):
    """With the role `host`, and with a user who sees and changes all users."""
    def listen(self):
        acl = self.folder / "redis/users.acl"
        if "user admin" not in acl.read_text():
            acl.write_text(acl.read_text() + "user admin on >admin ~* &* +@all\n")
        super().listen()

    def admin(self):
        return as_user(self, "admin", "admin")


class OlderStore(OwnStore):
    """A store whose coordinator may not make users."""
    def listen(self):
        acl = self.folder / "redis/users.acl"
        acl.write_text(acl.read_text().replace(" +acl|setuser +acl|deluser", ""))
        super().listen()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    (folder / "host").mkdir()
    s = OwnStore(folder)
    yield s
    s.stop()


def options(store):
    return [str(o) for o in (
        "--store", store.url("coordinator"), "--store-password-file", store.file("coordinator"),
        "--keeper-user", "keeper", "--keeper-password-file", store.file("keeper"), "--secret-file",
        store.folder / "coordinator/secret", "--no-local-node")]


@pytest.fixture(scope="module")
def service(store):
    with Service(nodes=[], options=options(store)) as s:
        def agent(host, node):
            return Agent(s, host, node + "=cpu:1,slowdown=20", secret=store.folder / "host/secret",
                         store=store.url("host"), options=[
                             "--store-password-file", str(store.folder / "host/store-password")])
        with agent("alpha", "a") as alpha, agent("beta", "b"):
            ready(s, "a", "b")
            s.alpha = alpha
            yield s


def as_user(store, user, password):
    return redis.Redis(port=store.port, username=user, password=password, decode_responses=True)


def host_user(service, store, host):
    """Connects like somebody with the key that a host's agent was given."""
    key = bytes.fromhex((service.dir / "hosts" / f"{host}.key").read_text().strip())
    password = hmac.new(key, b"store\0password", hashlib.sha256).hexdigest()
    return as_user(store, f"host.{host}", password)


def rank_user(store, pid):
    """Connects like somebody who reads a rank's environment."""
    found = dict(v.split("=", 1) for v in proc_file(pid, "environ").decode().split("\0")
                 if v.startswith("EVENSTEP_STORE"))
    user = re.match(r"redis://([^@]+)@", found["EVENSTEP_STORE"]).group(1)
    return user, as_user(store, user, found["EVENSTEP_STORE_PASSWORD"])


def running(service):
    id = service.submit(spec(epochs=2000, max_restarts=0))
    until("it makes steps", lambda: service.job(id)["progress"]["step"] > 3)
    return id


def assert_refused(user, *commands):
    for words in commands:
        with pytest.raises(redis.exceptions.ResponseError, match="(?i)no permissions|NOPERM"):
            user.execute_command(*words)


def test_a_job_over_two_hosts_needs_no_user_that_they_share(service, store):
    id = service.submit(spec(epochs=3))
    job = service.wait(id, "succeeded")
    assert job["progress"]["samples"] == 3 * 2560
    assert {w["node"] for w in job["workers"]} == {"a", "b"}
    until("the users of its ranks are gone",
          lambda: not [u for u in store.admin().acl_users() if u.startswith("ranks.")])
    assert {"host.alpha", "host.beta"} <= set(store.admin().acl_users())


def test_a_host_writes_no_key_of_another_host(service, store):
    alpha = host_user(service, store, "alpha")
    alpha.execute_command("rpush", "es:mail:answer.0", "x")  # it may write
    alpha.hget("es:node:a", "json")
    assert_refused(
        alpha, ("hset", "es:node:b", "json", "{}"), ("del", "es:node:b"),
        ("hset", "es:host:beta", "json", "{}"), ("del", "es:host:beta"),
        ("set", "es:gpu:b", "{}"), ("rpush", "es:load:b:2", "x"), ("lpop", "es:mail:host.beta"),
        ("rpush", "es:mail:host.beta", "x"), ("rpush", "es:mail:host.alpha", "x"),
        ("hget", "es:node:b", "json"), ("del", "es:nodes"), ("set", "es:lease:launch.0", "1"),
        ("fcall", "node_remove", 3, "es:node:b", "es:nodes", "es:events", "b", 100),
        ("xadd", "es:job:0123456789abcdef:facts", "*", "j", "x"),
        ("acl", "setuser", "host.alpha", "~*"), ("eval", "return 1", 0))
    beta = host_user(service, store, "beta")
    assert json.loads(beta.hget("es:node:b", "json"))["name"] == "b"


def test_who_may_join_may_do_nothing_else(service, store):
    joins = as_user(store, "host", (store.folder / "host/store-password").read_text().strip())
    assert_refused(joins, ("hset", "es:node:a", "json", "{}"), ("lpop", "es:mail:host.alpha"),
                   ("lpop", "es:mail:join"), ("xadd", "es:events", "*", "j", "x"),
                   ("hset", "es:host:alpha", "json", "{}"), ("smembers", "es:nodes"))


def test_ranks_of_a_host_write_for_no_other_rank_and_no_other_job(service, store):
    id = running(service)
    host_of = {w["rank"]: w["node"] for w in service.job(id)["workers"]}
    mine, other = (r for r in sorted(host_of, key=lambda r: host_of[r]))
    user, rank = rank_user(store, ranks_of(id)[mine])
    assert user == f"ranks.{id}.1.alpha"
    rank.execute_command("exists", f"es:job:{id}")
    assert_refused(
        rank, ("xadd", f"es:job:{id}:rows:{other}", "*", "r", "x"),
        ("xadd", "es:job:0123456789abcdef:facts", "*", "j", "x"),
        ("hset", "es:job:0123456789abcdef:beats", "0", "x"),
        ("get", "es:job:0123456789abcdef:plan"), ("hset", f"es:job:{id}", "state", "failed"),
        ("set", f"es:job:{id}:control", "{}"), ("del", f"es:job:{id}:facts"),
        ("xadd", "es:events", "*", "j", "x"), ("lpop", "es:mail:host.alpha"))
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")
    until("it is gone with the attempt", lambda: user not in store.admin().acl_users())
    with pytest.raises(redis.exceptions.RedisError, match="WRONGPASS|invalid username"):
        rank.ping()


def test_no_process_of_a_host_has_a_password_that_others_share(service, store):
    id = running(service)
    shared = [store.file(user).read_text().strip().encode()
              for user in ("agent", "worker", "coordinator")]
    processes = [p for p in pathlib.Path("/proc").glob("[0-9]*")
                 if f"EVENSTEP_JOB={id}".encode() in proc_file(p.name, "environ")]
    assert len(processes) >= 5
    assert not [p for p in processes for s in shared if s in proc_file(p.name, "environ")]
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")


def test_a_redis_that_was_started_anew_gets_them_again(service, store):
    id = running(service)
    at = service.job(id)["progress"]["step"]
    for user in [u for u in store.admin().acl_users() if u.startswith(("host.", "ranks."))]:
        store.admin().acl_deluser(user)
    store.admin().client_kill_filter(_type="normal", skipme=True)
    until("steps are told again", lambda: service.job(id)["progress"]["step"] > at + 5)
    assert service.job(id)["attempt"] == 1
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")
    ready(service, "a", "b")


def test_where_the_coordinator_may_make_no_users_hosts_share_them_as_before(tmp_path):
    store = OlderStore(tmp_path)
    try:
        with Service(nodes=[], options=options(store)) as service, Agent(
                service, "alpha", "a=cpu:1", secret=store.folder / "agent/secret",
                store=store.url("agent"), options=[
                    "--store-password-file", str(store.file("agent")), "--worker-user", "worker",
                    "--worker-password-file", str(store.file("worker"))]):
            ready(service, "a")
            assert service.wait(service.submit(spec(workers=1)), "succeeded")["attempt"] == 1
            assert "hosts share a user of the store" in service.text()
            assert not [u for u in store.admin().acl_users() if u.startswith(("host.", "ranks."))]
    finally:
        store.stop()
