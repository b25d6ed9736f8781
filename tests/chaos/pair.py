"""Two hosts with agents, a coordinator and its standby, and a Redis that belongs to neither: each
host in a network namespace of its own (tests/lab/netns.py), so that links can go down.

    hub 10.77.0.1   redis-server, `serve --standby` twice on one data folder, the keepers
    alpha, beta     an agent each, with two nodes

A killed coordinator is replaced by its standby, and another standby is started; a killed Redis is
started again by this program, as a supervisor would. Redis's clock is right: where it is set ahead
the lease runs out, and the standby takes over. Whoever uses a Pair is on the hub: its thread is in
the hub's network from start() to close()."""
import contextlib
import os
import re
import signal
import subprocess
import time

import redis

from agents import Agent
from netns import Network, reason_against
from power import lose_power
from programs import AT_ROOT, BUILD
from service import PATIENCE, processes_of, program_of, until
from world import House, parent_of

PORT, TAKEN_OVER = 6379, 60
RATE, SLOW_RATE = "1gbit", "4mbit"


class Pair(House):
    standby = None
    HOSTS = ["hub", "alpha", "beta"]
    NAMES = [f"{host}-{n}" for host in ("alpha", "beta") for n in (1, 2)]
    reason_against = staticmethod(reason_against)

    def start(self):
        self.net = Network("hub", "alpha", "beta", rate=RATE)
        self.hub = self.net["hub"]
        self.hub.__enter__()
        self.starts, self.agents, self.log = 0, {}, open(os.devnull, "wb")
        self.start_redis()
        self.process, log = self.start_coordinator()
        self.take_over(self.process, log)
        self.standby = self.start_coordinator()
        for host in ("alpha", "beta"):
            self.agents[host] = self.agent(host).start()
        until("all nodes are ready", lambda: [n["state"] for n in self.get("nodes").json()["nodes"]]
              == ["ready"] * len(self.NAMES), 60)
        return self

    def network(self):
        return self.hub

    # -- processes ---------------------------------------------------------------------------------
    def start_redis(self):
        folder = self.disk.parent / "redis"
        folder.mkdir(exist_ok=True)
        self.server = subprocess.Popen(
            ["redis-server", "--bind", self.hub.address, "--port", str(PORT), "--dir", folder,
             "--appendonly", "yes", "--appendfsync", "always", "--save", "", "--protected-mode",
             "no", "--logfile", folder / "log"], stdout=subprocess.DEVNULL)

        def answers():
            try:
                return self.redis().ping()
            except redis.RedisError:  # it is loading its file, or not up yet
                return False
        until("Redis answers", answers, 60)

    def redis(self):
        return redis.Redis(host=self.hub.address, port=PORT, decode_responses=True)

    def redis_pid(self):
        return self.server.pid

    def redis_is_back(self, old):
        self.server.wait()
        self.start_redis()

    def start_coordinator(self):
        """Returns the process and the file with its log."""
        self.starts += 1
        path = self.disk / f"serve-{self.starts}.log"
        command = [BUILD / "evenstep", "serve", "--data-dir", self.disk, "--listen", "127.0.0.1:0",
                   "--store", f"redis://{self.hub.address}:{PORT}", "--no-local-node", "--standby",
                   "--mpi-ports", "20000-20127", *self.OPTIONS]
        with open(path, "ab") as log:
            return subprocess.Popen(self.wrap(command), stdout=log, stderr=subprocess.STDOUT,
                                    env={**os.environ, **AT_ROOT, **self.env}), path

    def take_over(self, process, path):
        """Waits until this coordinator is the active one, and uses it from then on."""
        def ready():
            text = path.read_text(errors="replace")
            assert process.poll() is None, text
            return re.search(r'msg="?ready"? url=(\S+)', text)
        url = until("a coordinator is ready", ready, TAKEN_OVER).group(1)
        self.log_path = path
        self.adopt(process, url)

    def restart_coordinator(self):
        self.process.kill()
        self.process.wait()
        self.replace()

    def replace(self):
        self.take_over(*self.standby)
        self.standby = self.start_coordinator()

    def freeze_coordinator(self):
        """Stops it until its standby has taken over; then it ends by itself."""
        first = self.process
        first.send_signal(signal.SIGSTOP)
        try:
            self.replace()
        finally:
            first.send_signal(signal.SIGCONT)
        code = first.wait(60 * PATIENCE)
        assert code == 3, f"a coordinator that was replaced ended with {code}"

    def agent(self, host):
        nodes = [f"{n}=cpu:1,slowdown=40" for n in self.NAMES if n.startswith(host)]
        made = Agent(self, host, *nodes, store=f"redis://{self.hub.address}:{PORT}",
                     env={**AT_ROOT, **self.env, **self.clocks[host].env},
                     options=["--mpi-ports", "20000-20127"])
        made.command = self.wrap(self.net[host].command(*made.command))
        return made

    def daemons(self, id):
        """The daemons start the ranks, or their guards, and are recognised by that."""
        parents = {parent_of(p) for p in processes_of(id) if program_of(p) == "evenstep-worker"}
        guards = {p for p in parents if p and program_of(p) == "evenstep-guard"}
        return sorted(p for p in {*parents, *map(parent_of, guards)}
                      if p and program_of(p) == "orted")

    @contextlib.contextmanager
    def cut(self, host):
        self.net[host].down()
        try:
            yield
        finally:
            self.net[host].up()

    def slow_link(self, host, seconds):
        self.net[host].set_rate(SLOW_RATE)
        try:
            time.sleep(seconds)  # the fault itself
        finally:
            self.net[host].set_rate(RATE)

    def lose_power(self, moment):
        """One of the hosts, or the hub with the store, both coordinators and the keepers. The
        network does not report it either."""
        names = sorted(self.net.hosts)
        host = self.net[names[moment.pick % len(names)]]
        seconds, is_hub = 4 * moment.seconds, host is self.hub
        with self.coordinator_hit() if is_hub else contextlib.nullcontext():
            with self.cut(host.name):
                ended = lose_power("net", host.path)
                time.sleep(seconds)  # the fault itself
            self.start_hub() if is_hub else self.start_host(host.name)
        return f"of {host.name} for {seconds:.1f} s, {ended} processes"

    def start_hub(self):
        for process in (self.process, self.standby[0]):
            process.wait()
        self.redis_is_back(self.server)
        self.take_over(*self.start_coordinator())
        self.standby = self.start_coordinator()

    def start_host(self, name):
        self.agents[name].process.wait()
        self.agents[name].start()

    def text(self):
        return self.log_path.read_text(errors="replace")

    def close(self, failed):
        if failed:
            for path in [*self.disk.glob("serve-*.log"), *self.disk.glob("agent-*.log")]:
                print(f"{path.name}:\n" + path.read_text(errors="replace")[-3000:])
        ends = [p for p in (self.standby and self.standby[0], self.process) if p]
        ends += [a.process for a in self.agents.values()]
        for process in ends:
            process.send_signal(signal.SIGTERM)
        for process in ends:
            process.wait(60 * PATIENCE)
        self.server.kill()
        self.server.wait()
        try:
            return super().close(failed)
        finally:
            self.hub.__exit__()
            self.net.close()
