"""A cluster under Compose for tests: images are built, containers brought up on a free port and in
a project of its own, and everything is taken away at the end. Where Docker is not running but
installed, it is started and ended too."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import requests

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "integration"), str(TESTS / "lab")]
from service import ROOT, Service, free_port, until  # noqa: E402

BASE = "debian:bookworm-slim"


def run(*command, check=True, seconds=600, env=None):
    """Its standard output; a failure shows everything it said."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=env,
                          stdin=subprocess.DEVNULL)
    assert not check or done.returncode == 0, (
        f"{' '.join(command)}: code {done.returncode}\n{done.stdout[-3000:]}\n"
        f"{done.stderr[-5000:]}")
    return done.stdout


def docker(*words, **kw):
    return run("docker", *words, **kw)


def works(*command, **kw):
    return bool(shutil.which(command[0])) and subprocess.run(
        command, capture_output=True, **kw).returncode == 0


def compose_command():
    if works("docker", "compose", "version"):
        return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else None


def why_not():
    """Why these tests cannot run here, or None."""
    if os.geteuid() != 0:
        return "it needs root (Docker)"
    if not works("docker", "info") and not shutil.which("dockerd"):
        return "dockerd is not installed (deploy/setup deploy-test)"
    if not compose_command():
        return "neither `docker compose` nor docker-compose is installed (deploy/setup deploy-test)"
    return None


class Daemon:
    """dockerd, if it is not there already. `there` is false where it cannot run on this machine."""

    def __init__(self, folder):
        self.process, self.log = None, folder / "dockerd.log"

    def __enter__(self):
        if not works("docker", "info"):
            self.process = subprocess.Popen(["dockerd"], stdout=open(self.log, "wb"),
                                            stderr=subprocess.STDOUT)
            until("dockerd answers", lambda: works("docker", "info")
                  or self.process.poll() is not None, 60)
        self.there = works("docker", "info")
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.process.wait(60)


def find_base():
    """The image that the others are built upon: Debian's, or one made from this machine's
    packages."""
    named = os.environ.get("EVENSTEP_BASE", BASE)
    if works("docker", "image", "inspect", named):
        return named
    try:
        if works("docker", "pull", "-q", named, timeout=120):
            return named
    except subprocess.TimeoutExpired:
        pass
    run(str(ROOT / "deploy" / "make-base-image"))
    return "evenstep-base"


class Cluster(Service):
    """A Service whose processes are in containers."""

    def __init__(self, base):
        super().__init__()
        self.project = f"evenstepcheck{os.getpid()}"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = dict(os.environ, EVENSTEP_BASE=base, EVENSTEP_TAG="check",
                        EVENSTEP_PORT=str(self.port),
                        DOCKER_BUILDKIT=os.environ.get("DOCKER_BUILDKIT", "0"))
        self.files = ["compose.yaml"]

    def compose(self, *words, **kw):
        files = [w for f in self.files for w in ("-f", str(ROOT / "deploy" / f))]
        return run(*compose_command(), "-p", self.project, *files, *words, env=self.env, **kw)

    def up(self, *words):
        self.compose("up", "-d", *words)
        self.http = requests.Session()
        self.http.headers["Authorization"] = "Bearer " + docker(
            "exec", self.one("coordinator"), "cat", "/var/lib/evenstep/token").strip()

    def containers(self, service):
        """Their ids, in the order of their numbers; also of those that do not run."""
        ids = docker("ps", "-a", "-q", "--filter",
                     f"label=com.docker.compose.project={self.project}", "--filter",
                     f"label=com.docker.compose.service={service}").split()
        number = {i: int(inspect(i)["Config"]["Labels"]["com.docker.compose.container-number"])
                  for i in ids}
        return sorted(ids, key=number.get)

    def one(self, service):
        return self.containers(service)[0]

    def host(self, container):
        """The name by which the cluster knows a worker's container."""
        return re.sub("[^A-Za-z0-9]", "-", inspect(container)["Name"].lstrip("/"))

    def text(self):
        return self.compose("logs", "--no-color", check=False)

    def states(self):
        return {n["name"]: n["state"] for n in self.get("nodes").json()["nodes"]}

    def ready(self, count, seconds=60):
        until(f"{count} nodes are ready", lambda: list(self.states().values()).count("ready")
              == count, seconds)

    def ask(self, method, path, **kw):
        """As Service's; a coordinator that is being restarted refuses connections meanwhile."""
        def reached():
            try:
                return [Service.ask(self, method, path, **kw)]
            except requests.ConnectionError:
                return None
        return until(f"{method} {path} is answered", reached, 60)[0]

    def __enter__(self):
        try:
            self.compose("build", seconds=1800)
            self.up()
        except BaseException:
            print(self.text()[-6000:])
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        self.compose("down", "-v", "--remove-orphans", "-t", "40", check=False)
        shutil.rmtree(self.dir, ignore_errors=True)

    def left(self):
        """What this project has in Docker."""
        mine = ["--filter", f"label=com.docker.compose.project={self.project}", "-q"]
        return docker("ps", "-a", *mine).split() + docker("volume", "ls", *mine).split() + docker(
            "network", "ls", *mine).split()


def inspect(container):
    return json.loads(docker("inspect", container))[0]


if __name__ == "__main__":  # can it be tested on this machine? (.ci/run)
    import tempfile
    absent = why_not()
    if not absent:
        with Daemon(pathlib.Path(tempfile.mkdtemp())) as daemon:
            absent = None if daemon.there else "dockerd cannot run here"
    print(absent or "the deployment can be tested")
    sys.exit(1 if absent else 0)
