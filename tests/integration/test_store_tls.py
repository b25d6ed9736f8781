"""A store that speaks TLS only and asks for a certificate: service, agents, workers and what they
start reach it by rediss://, come back after their connections were cut, and say what is wrong."""

import pytest
import redis

from agents import Agent, ready
from authority import Authority
from redis_server import RedisServer
from service import Service, free_port, spec, until


class TlsStore(RedisServer):
    """On 127.0.0.1 and 127.0.0.2; its certificate is only for the first one. It also answers
    without TLS, on another port."""

    def __init__(self, folder):
        self.authority = Authority(folder)
        for i, name in enumerate(("server", "client")):
            self.authority.issue(folder / f"{name}.pem", folder / f"{name}.key", i + 1)
        super().__init__(folder)

    def options(self):
        self.port, self.plain = free_port(), free_port()
        return ["--tls-port", self.port, "--port", self.plain, "--bind", "127.0.0.1", "127.0.0.2",
                "--tls-cert-file", self.folder / "server.pem", "--tls-key-file",
                self.folder / "server.key", "--tls-ca-cert-file", self.authority.file]

    def connection(self):
        return redis.Redis(port=self.plain)

    def url(self, host="127.0.0.1", **changes):
        files = {"ca": self.authority.file, "cert": self.folder / "client.pem",
                 "key": self.folder / "client.key", **changes}
        return (f"rediss://{host}:{self.port}/0?"
                + "&".join(f"{name}={file}" for name, file in files.items() if file))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    s = TlsStore(tmp_path_factory.mktemp("store"))
    yield s
    s.stop()


@pytest.fixture(scope="module")
def service(store):
    with Service(nodes=["own=cpu:1"], options=["--store", store.url()]) as s:
        yield s


def test_a_job_runs_by_tls_and_outlives_cut_connections(store, service):
    with Agent(service, "far", "far=cpu:1", store=store.url()):
        ready(service, "own", "far")
        id = service.submit(spec(epochs=30, max_restarts=0))
        service.steps(id, 20)
        clients = redis.Redis(port=store.plain)
        cut = clients.client_kill_filter(_type="normal", skipme=True)
        assert cut >= 4, "service, agent and two workers have connections"
        job = service.wait(id, "succeeded")
        assert job["progress"]["samples"] == 30 * 2560
        assert {w["node"] for w in job["workers"]} == {"own", "far"}


@pytest.mark.parametrize("host, files, words", [
    ("127.0.0.2", {}, "IP address mismatch"),
    ("127.0.0.1", {"ca": None}, "self-signed certificate"),
    ("127.0.0.1", {"ca": "/nowhere/ca.pem"}, "cannot use /nowhere/ca.pem for TLS"),
    ("127.0.0.1", {"key": "/nowhere/key.pem"}, "cannot use /nowhere/key.pem for TLS"),
])
def test_what_is_wrong_with_tls_is_said(store, service, host, files, words):
    with Agent(service, "wrong", store=store.url(host, **files)) as agent:
        agent.says("cannot join yet", words)


def test_a_certificate_that_the_store_asks_for_is_missed_by_name(store, service):
    with Agent(service, "bare", store=store.url(cert=None, key=None)) as agent:
        agent.says("cannot join yet", "the store at 'rediss://", "is away")


def test_a_port_without_tls_is_noticed(store, service):
    url = store.url().replace(f":{store.port}/", f":{store.plain}/")
    with Agent(service, "plain", store=url) as agent:
        agent.says("cannot join yet", "TLS failed")
