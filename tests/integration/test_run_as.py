"""`--run-as USER`: ranks and users' programs run as another user than the agent or the service, and
can read none of their secrets."""
import json
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile

import pytest

from agents import Agent, ready
from programs import BUILD, ROOT
from service import Service, ranks_of, until
from test_data_upload import stripes
from test_program_upload import packed
from test_users import Store

OTHER = "nobody"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may start another user's "
                                "processes")
SPY = """
import json, os, sys
def attempt(path):
    try:
        return "read" if open(path, "rb").read(1) else "empty"
    except OSError as e:
        return type(e).__name__
seen = {path: attempt(path) for path in sys.argv[1:] + [f"/proc/{os.getppid()}/environ"]}
print("SPY " + json.dumps({"uid": os.getuid(), "home": os.environ["HOME"],
                           "seen": list(seen.values())}), flush=True)
counting = os.environ["COUNTING"]
sys.path.insert(0, os.path.dirname(counting))
os.execv(sys.executable, [sys.executable, counting])
"""


@pytest.fixture
def place():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="evenstep-run-as-"))
    folder.chmod(0o711)
    for part in ("store", "serve"):
        (folder / part).mkdir(mode=0o700)
    (folder / "spy.py").write_text(SPY)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=[None, OTHER])
def cluster(request, place):
    """A node of the service and a node of an agent, with or without another user."""
    store = Store(place / "store")
    as_other = ["--run-as", OTHER] if request.param else []
    options = ["--store", store.url("coordinator"), "--store-password-file",
               store.file("coordinator"), "--keeper-user", "keeper", "--keeper-password-file",
               store.file("keeper"), "--secret-file", store.folder / "coordinator/secret",
               "--allow-programs", *as_other]
    try:
        with Service(nodes=["a=cpu:1"], folder=place / "serve", options=map(str, options)) as s:
            agent = Agent(s, "beta", "b=cpu:1", secret=store.folder / "agent/secret",
                          store=store.url("agent"), options=[
                "--store-password-file", str(store.file("agent")), "--worker-user", "worker",
                "--worker-password-file", str(store.file("worker")), *as_other])
            with agent:
                ready(s, "a", "b")
                yield s, agent, store, request.param
    finally:
        store.stop()


def secrets_of(service, agent, store):
    return [str(p) for p in (
        service.dir / "token", store.folder / "coordinator/secret", store.file("coordinator"),
        store.file("keeper"), next((service.dir / "hosts").glob("*.key")),
        f"/proc/{service.process.pid}/environ", store.folder / "agent/secret",
        store.file("agent"), f"/proc/{agent.process.pid}/environ")]


def told(service, id, rank):
    text = service.get(f"jobs/{id}/logs", params={"rank": rank}).text
    line = re.search(r'SPY (\{.*\})', text.replace('\\"', '"'))
    assert line, text
    return json.loads(line[1])


def test_a_program_reads_no_secret_as_another_user(cluster, place):
    service, agent, store, other = cluster
    wanted = secrets_of(service, agent, store)
    id = service.submit({
        "program": {"command": ["/usr/bin/python3", str(place / "spy.py")], "args": wanted,
                    "env": {"COUNTING": str(ROOT / "tests/program/counting.py")}},
        "workers": 2, "epochs": 2, "batching": {"global_batch": 64, "policy": "equal"},
        "strategy": {"type": "sync"}})
    job = service.wait(id, "succeeded")
    assert job["progress"]["samples"] == 2 * 256
    names = {a["name"] for a in service.get(f"jobs/{id}/artifacts").json()["artifacts"]}
    assert {"model.safetensors", "rank-0.json"} <= names
    for rank in (0, 1):
        spied = told(service, id, rank)
        user = pwd.getpwnam(other or "root")
        assert spied["uid"] == user.pw_uid and (not other or spied["home"] == user.pw_dir)
        expected = "PermissionError" if other else "read"
        assert spied["seen"][:-1] == [expected] * len(wanted), dict(zip(wanted, spied["seen"]))
        # the rank's own environment: the rank is a process of that user only on the agent's host
        assert not other or spied["seen"][-1] in ("PermissionError", "read", "empty")
    until("no process of it is left", lambda: not ranks_of(id))
    warned = "ranks run as root" in agent.text()
    assert warned == (not other)


def test_an_uploaded_data_set_trains_whoever_the_ranks_are(cluster):
    service, *_ = cluster
    answer = service.http.post(f"{service.url}/api/v1/datasets", params={"name": "stripes"},
                               data=packed(stripes()), timeout=120,
                               headers={"Content-Type": "application/x-tar"})
    assert answer.status_code == 201, answer.text
    id = service.submit({"model": {"input": [8, 8, 1], "layers": [{"type": "dense", "units": 3}]},
                         "data": {"path": "stripes", "format": "npy"},
                         "workers": 2, "epochs": 2, "strategy": {"type": "sync"},
                         "batching": {"global_batch": 6, "policy": "equal"}})
    assert service.wait(id, "succeeded")["progress"]["samples"] == 2 * 30


@pytest.mark.parametrize("options,says", [
    (["--run-as", "root"], "ranks would still be root"),
    (["--run-as", "no-such-user"], "this machine has no such user"),
    (["--run-as", OTHER], "--run-as needs --store"),
])
def test_what_is_wrong_with_the_user_is_said(tmp_path, options, says):
    ended = subprocess.run([BUILD / "evenstep", "serve", "--data-dir", tmp_path, "--listen",
                            "127.0.0.1:0", *options], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1 and says in ended.stderr + ended.stdout
