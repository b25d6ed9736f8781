"""A rack for tests: a hub (Redis and the coordinator) and hosts with agents, each in a network
namespace with its own address on a link of 1 Gbit/s, each host's programs under a CPU quota. What
they know of each other they know over TCP: store, requests, MPI.

The coordinator ends what it can see of a lost attempt (/proc), and on one machine it would see the
ranks of all hosts. So every host has its own process numbers, name
and shared memory too (`isolated`); files in /tmp are shared, as in every test of agents."""
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / room) for room in ("integration", "survival", "lab")]
import netns  # noqa: E402
import quota  # noqa: E402
from agents import Agent, states  # noqa: E402
from netns import Network  # noqa: E402
from service import DEADLINE, PATIENCE, ROOT, Service, until  # noqa: E402

# shares of a core: 1.1 in all, so that two cores suffice
QUOTAS = {"fast": 0.4, "even": 0.4, "half": 0.2, "slow": 0.1}
RATE = "1gbit"
PORT = 6379


def reason_against():
    """Why there can be no rack on this machine, or None."""
    return netns.reason_against() or quota.reason_against() or (
        None if shutil.which("redis-server") else "redis-server is not installed")


@contextlib.contextmanager
def wired(*hosts):
    """The network of a hub and these hosts; skips the tests where there can be none."""
    absent = reason_against()
    if absent:
        pytest.skip(f"clusters are not tested: {absent}")
    with Network("hub", *hosts, rate=RATE) as made:
        yield made


# PID 1 of a host: hands SIGTERM on, waits for orphans, ends with the program's code
INIT = """mount -t tmpfs tmpfs /dev/shm && hostname "$0" || exit 99
"$@" & p=$!
trap 'kill -TERM $p' TERM
while kill -0 $p 2>/dev/null; do wait $p; code=$?; done
exit $code"""


def isolated(name, command):
    """The command as the only one of a host of this name; it dies with the process that is returned
    by Popen, and all that it started with it."""
    return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "--ipc", "sh",
            "-c", INIT, name, *map(str, command)]


def terminate(process):
    """SIGTERM to what `isolated` runs: unshare itself does not hand it on."""
    for child in pathlib.Path(
            f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        with contextlib.suppress(ProcessLookupError):  # it ends by itself just now
            os.kill(int(child), signal.SIGTERM)


class Hub(Service):
    """The coordinator's host: `evenstep serve` and a Redis that asks for a password, both on the
    hub's address."""

    def __init__(self, place):
        super().__init__(nodes=(), options=())
        self.data = self.dir / "data"
        self.place, self.store = place, f"redis://{place.address}:{PORT}"
        self.password = self.dir / "store-password"
        self.password.write_text("only-for-this-test\n")
        self.options = ["--mpi-ports", "20000-20127", "--no-local-node", "--store", self.store,
                        "--store-password-file", str(self.password)]
        self.redis, self.quota = None, quota.Quota(place.name, 0.5)

    def start_redis(self):
        folder = self.dir / "redis"
        folder.mkdir(exist_ok=True)
        log = open(self.dir / "redis.log", "ab")
        command = ["redis-server", "--bind", self.place.address, "127.0.0.1", "--port", PORT,
                   "--dir", folder, "--appendonly", "yes", "--save", "", "--requirepass",
                   self.password.read_text().strip()]
        self.redis = subprocess.Popen(self.quota.command(*self.place.command(*command)), stdout=log,
                                      stderr=log)
        log.close()
        until("Redis answers", self.reaches_redis)

    def reaches_redis(self):
        try:
            with self.place:
                socket.create_connection((self.place.address, PORT), 1).close()
            return True
        except OSError:
            return False

    def start(self):
        if not self.redis:
            self.start_redis()
        with self.place:
            return super().start()

    def ask(self, *words, **kw):
        with self.place:
            return super().ask(*words, **kw)

    def wrap(self, command):
        return self.quota.command(*isolated("hub", command))

    def stop(self):
        if self.process and self.process.poll() is None:
            terminate(self.process)
            self.process.wait(DEADLINE * PATIENCE)
        if self.redis:
            self.redis.terminate()
            self.redis.wait(DEADLINE * PATIENCE)
            self.redis = None

    def __exit__(self, *why):
        super().__exit__(*why)
        self.quota.remove()


class Machine(Agent):
    """A host with an agent and a node of the place's name. `before`: words before the agent's
    command (`env …`)."""

    def __init__(self, hub, place, cores=None, host=None, node=None, before=(), options=(), **kw):
        super().__init__(hub, host or place.name, node or f"{place.name}=cpu:1", store=hub.store,
                         options=["--mpi-ports", "20000-20127", *options, "--store-password-file",
                                  str(hub.password)], **kw)
        self.dir = hub.dir / f"agent-at-{place.name}"
        self.command[self.command.index("--data-dir") + 1] = str(self.dir)
        self.place, self.quota = place, quota.Quota(place.name, cores) if cores else None
        self.command = isolated(place.name, [*before, *self.command])
        if self.quota:
            self.command = self.quota.command(*self.command)

    def start(self):
        with self.place:
            return super().start()

    def stop(self):
        if self.process.poll() is None:
            terminate(self.process)
        return self.process.wait(DEADLINE * PATIENCE)

    def __exit__(self, *why):
        self.place.up()  # or it cannot say that it leaves
        super().__exit__(*why)
        if self.quota:
            self.quota.remove()


def node(hub, name):
    return hub.get("nodes/" + name).json()


__all__ = ["Hub", "Machine", "Network", "QUOTAS", "RATE", "ROOT", "TESTS", "node", "reason_against",
           "states", "until"]


@contextlib.contextmanager
def with_programs(net, hosts, node="%s=cpu:1"):
    """A hub that takes programs, once all these hosts are ready, each with one such node."""
    hub = Hub(net["hub"])
    hub.options.append("--allow-programs")
    with hub, contextlib.ExitStack() as stack:
        for name in hosts:
            stack.enter_context(Machine(hub, net[name], node=node % name))
        until("all hosts are ready",
              lambda: [states(hub).get(n) for n in hosts] == ["ready"] * len(hosts), 60)
        yield hub
