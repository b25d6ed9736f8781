"""A small cluster that faults happen to: what runs, how it is started again, where its pieces are.

`House` is one machine: `evenstep serve` with its private Redis and six nodes. Its data folder is a
disk of its own, which can be full; its /dev/shm and its TMPDIR are its own too, so that whatever is
left in them is the house's. Where nothing can be mounted the disk is not filled, and shared memory
is not looked at."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

import redis
import requests

from clock import WallClock
from jobs import Job
from power import lose_power
from service import ROOT, Service, proc_file, processes_of, program_of, until

# a disk and a /dev/shm of its own: root's only, and not every container's root
CAN_MOUNT = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"],
                           capture_output=True).returncode == 0
DISK = "192m"
PROGRAM = ROOT / "tests/program"


def parent_of(pid):
    """None: it has just ended."""
    fields = proc_file(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else None


class Place:
    """A mount namespace with its own /dev/shm, for the lifetime of this object."""

    def __init__(self):
        # it ends with its standard input, and so with this process
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c",
             "mount -t tmpfs tmpfs /dev/shm && echo && exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.shm = pathlib.Path(f"/proc/{self.holder.pid}/root/dev/shm")

    def command(self, command):
        return ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", *map(str, command)]

    def lose_power(self):
        """Ends all processes, and returns how many. What was in memory is lost."""
        ended = lose_power("mnt", f"/proc/{self.holder.pid}/ns/mnt", stays=[self.holder.pid])
        for path in self.shm.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return ended

    def close(self):
        self.holder.stdin.close()
        self.holder.wait(30)
        self.holder.stdout.close()


class Pinger(threading.Thread):
    """Asks /healthz every 50 ms, and records the longest time without an answer. Times of permitted
    silence (a coordinator that a fault has killed or stopped) are recorded separately."""

    def __init__(self, world):
        super().__init__(daemon=True)
        self.world, self.over, self.longest, self.longest_in_fault = world, threading.Event(), 0, 0

    def run(self):
        with self.world.network():
            self.ping()

    def ping(self):
        last, excused = time.monotonic(), True
        while not self.over.wait(0.05):
            excused = excused or self.world.coordinator_is_hit
            try:
                requests.get(self.world.url + "/healthz", timeout=1).raise_for_status()
            except requests.RequestException:
                continue
            now = time.monotonic()
            if excused:
                self.longest_in_fault = max(self.longest_in_fault, now - last)
            else:
                self.longest = max(self.longest, now - last)
            last, excused = now, self.world.coordinator_is_hit


class House(Service):
    """One machine with its own Redis."""
    NAMES = [f"n{i}" for i in range(1, 7)]
    HOSTS = ["house"]  # each has a clock; the first is the coordinator's
    OPTIONS = []
    JOB = Job
    coordinator_is_hit = False  # a fault has killed or stopped it

    def __init__(self, folder):
        self.disk = folder / "data"
        self.disk.mkdir()
        self.tmp = folder / "tmp"
        self.tmp.mkdir()
        if CAN_MOUNT:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "evenstep-chaos",
                            self.disk], check=True)
        self.place = Place() if CAN_MOUNT else None
        shutil.copytree(PROGRAM, self.disk / "programs/counting")
        (self.disk / "programs/counting/manifest.json").write_text(
            '{"command": ["/usr/bin/python3", "counting.py"], "arguments": {"--rate": "number"}}')
        nodes = [f"{name}=cpu:1,slowdown={30 + 10 * n}" for n, name in enumerate(self.NAMES)]
        self.clocks = {host: WallClock(folder / "clocks" / host) for host in self.HOSTS}
        super().__init__(nodes=nodes, folder=self.disk, options=self.OPTIONS,
                         env={"TMPDIR": str(self.tmp), **self.clocks[self.HOSTS[0]].env})

    def wrap(self, command):
        return self.place.command(command) if self.place else command

    def network(self):
        """The service's address, for a thread that asks it."""
        return contextlib.nullcontext()

    # -- who can be hit ----------------------------------------------------------------------------
    def redis_pid(self):
        told = (self.disk / "redis.pid").read_text()
        return int(told or self.redis().info("server")["process_id"])  # empty: the disk was full

    def mpirun(self, id):
        return next((p for p in processes_of(id) if program_of(p) == "mpirun"), None)

    def redis(self):
        return redis.Redis(unix_socket_path=str(self.disk / "redis.sock"), decode_responses=True)

    # -- what is done to it ------------------------------------------------------------------------
    def restart_coordinator(self):
        self.kill()
        self.start()

    @contextlib.contextmanager
    def coordinator_hit(self):
        self.coordinator_is_hit = True
        try:
            yield
        finally:
            self.coordinator_is_hit = False

    def lose_power(self, moment):
        with self.coordinator_hit():
            ended = self.place.lose_power()
            self.process.wait()
            self.start()
        return f"of the house, {ended} processes"

    def redis_is_back(self, old):
        """The coordinator has started another one, which could not write its pid to a full disk."""
        def back():
            try:
                return self.redis().info("server")["process_id"] != old
            except (OSError, ValueError, redis.RedisError):
                return False
        until("Redis is back", back, 60)

    def fill_disk(self, seconds):
        """Keeps it full until the store has noticed, and for that much longer."""
        old, filler = self.redis_pid(), self.disk / "filler"
        try:
            with open(filler, "ab", buffering=0) as f:
                for size in (1 << 20, 4096, 1):
                    with contextlib.suppress(OSError):
                        while True:
                            f.write(b"0" * size)
            until("the API refuses", lambda: self.http.get(
                self.url + "/api/v1/jobs", timeout=30).status_code == 503, 60)
            time.sleep(seconds)  # the fault itself
        finally:
            filler.unlink()
        self.redis_is_back(old)
        return f"for {seconds:.1f} s"

    def wake_resting(self):
        """As an operator does, so that a run does not take minutes."""
        for node in self.get("nodes").json()["nodes"]:
            if node["state"] == "resting":
                self.post(f"nodes/{node['name']}/enable")

    def wrong_with(self, job, told):
        """In addition to the checks of every job."""
        return []

    # -- what must be left -------------------------------------------------------------------------
    def leftovers(self, ids):
        """What jobs have left outside of their folders, as sentences."""
        found = [f"process {p}: {proc_file(p, 'cmdline').decode(errors='replace')}"
                 for id in ids for p in processes_of(id)]
        if self.place:
            found += [f"shared memory {p.name}" for p in self.place.shm.rglob("*") if p.is_file()]
        found += [f"file {p}" for p in self.tmp.rglob("*") if not p.is_dir()]
        return found

    def processes(self):
        return [p for p in processes_of(str(self.disk.parent)) if p != os.getpid()]

    def keep(self):
        """Keeps a copy for finding the cause."""
        kept = self.disk.parent / "kept"
        if not kept.exists():
            shutil.copytree(self.disk, kept, ignore=shutil.ignore_patterns(
                "*.safetensors", "*.sock", "filler"), symlinks=True)

    def close(self, failed):
        """Ends it, and reports processes that do not end with it."""
        self.stop()
        with contextlib.suppress(AssertionError):
            until("its processes have ended", lambda: not self.processes(), 30)
        left = self.processes()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.__exit__(AssertionError if failed else None, None, None)
        if self.place:
            self.place.close()
        if failed:
            self.keep()
        if CAN_MOUNT:
            subprocess.run(["umount", "-l", self.disk], check=True)
        return left
