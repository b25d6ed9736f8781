"""The real service for tests: `evenstep serve` with a private Redis and local nodes, on a free port
and a temporary folder.

    with Service(nodes=["a=cpu:1", "b=cpu:1"]) as s:
        job = s.submit(spec())
        s.wait(job, "succeeded")

Tests wait for conditions; nothing here asserts a time. When a test fails, the folder with logs is
printed and kept."""
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import requests

from programs import AT_ROOT, BUILD, ROOT  # noqa: F401  (ROOT for those who import it from here)

# a sanitizer's programs take several times as long (tests/run)
PATIENCE = float(os.environ.get("EVENSTEP_TEST_PATIENCE", "1"))
DEADLINE = 120


def until(what, condition, seconds=DEADLINE, every=None):
    """The first true value of condition(); fails after `seconds` times PATIENCE. Without `every` it
    asks less and less often: a long wait may take 0.2 s more, and asking a service costs as much as
    some steps of a small job."""
    seconds *= PATIENCE
    pause = every or 0.02
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds} s still not: {what}")
        time.sleep(pause)
        pause = every or min(1.25 * pause, 0.2)


def tensors(blob):
    """The bytes of each tensor of a safetensors file, without the notes in its header."""
    n = struct.unpack("<Q", blob[:8])[0]
    head = json.loads(blob[8:8 + n])
    return {k: blob[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]
            for k, v in head.items() if k != "__metadata__"}


def free_port():
    """A free port of 127.0.0.1. It is below the ports that the kernel assigns by itself, so that no
    other process gets it before it is used."""
    low = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    draw = random.Random()
    while True:
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", draw.randrange(21000, low) if low > 22000 else 0))
            return s.getsockname()[1]


def proc_file(pid, name):
    """What /proc says about a process; empty once it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def runs(pid, thread):
    """Is a thread of this name running right now, and not waiting?"""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        threads = []
    stats = [proc_file(f"{pid}/task/{t}", "stat").rpartition(b")") for t in threads]
    return any(head.endswith(f"({thread}".encode()) and rest.split()[:1] == [b"R"]
               for head, _, rest in stats)


def program_of(pid):
    return os.path.basename(proc_file(pid, "cmdline").split(b"\0")[0].decode(errors="replace"))


def processes_of(text):
    """Pids of living processes whose command line names `text`."""
    found = []
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (p / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                continue
            if text.encode() in (p / "cmdline").read_bytes():
                found.append(int(p.name))
        except (OSError, IndexError):
            pass
    return found


def ranks_of(id):
    """{rank: pid} of the job's current attempt. A guard has the worker's name for a moment; the
    worker, which it starts, has a higher pid."""
    ranks = {p: re.search(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)\0", proc_file(p, "environ"))
             for p in sorted(processes_of(id)) if program_of(p) == "evenstep-worker"}
    return {int(rank.group(1)): p for p, rank in ranks.items() if rank}


@contextlib.contextmanager
def standing_still(id):
    """Stops the job's ranks meanwhile: they make no step, and follow no request."""
    ranks = ranks_of(id).values()
    for pid in ranks:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in ranks:
            with contextlib.suppress(ProcessLookupError):  # it was given up and killed
                os.kill(pid, signal.SIGCONT)


def spec(**changes):
    """A small job on drawn digits, with a few seconds of training on two cores."""
    job = {
        "name": "test", "model": "mlp",
        "data": {"format": "glyphs", "samples": 2560, "test_samples": 500},
        "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9},
        "strategy": {"type": "sync"}, "batching": {"global_batch": 64, "policy": "equal"},
        "workers": 2, "epochs": 2, "seed": 1,
    }
    job.update(changes)
    return job


class Service:
    def __init__(self, nodes=("a=cpu:1", "b=cpu:1"), folder=None, options=(), data=None, env=None):
        self.nodes, self.options, self.data, self.env = nodes, options, data, env or {}
        self.own_folder = folder is None
        self.dir = pathlib.Path(folder or tempfile.mkdtemp(prefix="evenstep-test-"))
        self.process = None

    def start(self):
        command = [str(BUILD / "evenstep"), "serve", "--data-dir", str(self.dir), "--listen",
                   "127.0.0.1:0", *self.options]
        for node in self.nodes:
            command += ["--local-node", node]
        env = {**os.environ, **AT_ROOT, **self.env}
        if self.data:
            env["EVENSTEP_DATA"] = str(self.data)
        self.log = open(self.dir / "serve.log", "ab")
        begin = self.log.tell()
        self.process = subprocess.Popen(self.wrap(command), stdout=self.log,
                                        stderr=subprocess.STDOUT, env=env)

        def ready():
            assert self.process.poll() is None, self.text()
            return re.search(r'msg="?ready"? url=(\S+)', self.text()[begin:])

        self.adopt(self.process, until("the service is ready", ready).group(1))
        return self

    def adopt(self, process, url):
        """Uses this process from now on, which says that it is ready there."""
        self.process, self.url = process, url
        self.token = (self.dir / "token").read_text().strip()
        self.http = requests.Session()
        self.http.trust_env = False  # else it reads all variables and ~/.netrc for each request
        self.http.headers["Authorization"] = "Bearer " + self.token

    def wrap(self, command):
        """For tests that run it elsewhere (tests/cluster)."""
        return command

    def text(self):
        return (self.dir / "serve.log").read_text(errors="replace")

    def last_words(self, most=14):
        """The last lines of its log and of its jobs' attempts, which explain a failed test."""
        logs = [self.dir / "serve.log", *sorted(self.dir.glob("jobs/*/logs/attempt-*.out"))]
        return [line for log in logs for line in re.findall(
            r".*\bts=.*|.*rror.*|.*failed.*", log.read_text(errors="replace"))[-most:]]

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(DEADLINE * PATIENCE)

    def kill(self):
        """Simulates a crash: kills only the service, not its Redis or its jobs."""
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__(AssertionError, None, None)
            raise

    def __exit__(self, kind, value, trace):
        self.stop()
        for pid in processes_of(str(self.dir)):  # remains of a killed service
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        self.log.close()
        if kind:
            print(f"logs: {self.dir}\n" + self.text()[-6000:])
        elif self.own_folder:
            shutil.rmtree(self.dir, ignore_errors=True)

    # -- REST --------------------------------------------------------------------------------------
    def ask(self, method, path, **kw):
        """Makes a request. If the machine is so busy that Redis (503) or a program that reads data
        sets (504) does not answer in time, repeats the request, as the hint says."""
        def answered():
            answer = self.http.request(method, self.url + "/api/v1/" + path, timeout=60 * PATIENCE,
                                       **kw)
            # an answer of 4xx is false by itself
            return [answer] if answer.status_code not in (503, 504) else None
        return until(f"{method} {path} is answered", answered)[0]

    def get(self, path, **kw):
        return self.ask("GET", path, **kw)

    def post(self, path, body=None, **kw):
        return self.ask("POST", path, json=body, **kw)

    def submit(self, job):
        answer = self.post("jobs", job)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    def job(self, id):
        answer = self.get("jobs/" + id)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait(self, id, *states, seconds=DEADLINE):
        """The job once it is in one of these states; any other final state fails at once."""
        def there():
            job = self.job(id)
            final = job["state"] in ("succeeded", "failed", "cancelled")
            assert job["state"] in states or not final, json.dumps(
                job["error"]) + self.text()[-3000:]
            return job if job["state"] in states else None
        return until(f"job {id} is {' or '.join(states)}", there, seconds)

    def steps(self, id, n, seconds=DEADLINE):
        """Waits until the job is known to run (its first steps may be reported a moment before its
        state) and has done n steps."""
        def done():
            job = self.job(id)
            return job["state"] not in ("queued", "launching") and (job["progress"] or {}).get(
                "step", 0) >= n
        return until(f"job {id} has done {n} steps", done, seconds)

    def is_lost(self, name, within=5):
        """Is a node lost? A node that was last heard of more than `within` seconds ago must be.
        State and age are of one moment, so a busy machine changes neither."""
        node = self.get("nodes/" + name).json()
        lost = node["state"] == "lost"
        assert lost or node["heartbeat_age_seconds"] <= within, node
        return lost

    def artifact(self, id, name="model.safetensors"):
        answer = self.get(f"jobs/{id}/artifacts/{name}")
        assert answer.status_code == 200, answer.text
        return answer.content
