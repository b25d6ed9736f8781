"""A program that was written for DistributedDataParallel on two hosts: its ranks exchange gradients
and what the program exchanges beside them over the addresses of the hosts."""
import json
import os
import pathlib
import subprocess

import pytest

from programs import python_with
from rack import ROOT, Hub, Machine, states, until, wired

HOSTS = ("left", "right")
PROGRAMS = ROOT / "tests/own-program"
EVENSTEP = ROOT / os.environ.get("BUILD", "build") / "evenstep"


@pytest.fixture(scope="module")
def python():
    return python_with("torch")


@pytest.fixture(scope="module")
def net(python):
    with wired(*HOSTS) as made:
        yield made


@pytest.fixture(scope="module")
def hub(net):
    made = Hub(net["hub"])
    made.options.append("--allow-programs")
    with made:
        yield made


@pytest.fixture(scope="module")
def machines(net, hub, python):
    with Machine(hub, net["left"], options=["--python", python]) as left, \
            Machine(hub, net["right"], options=["--python", python]) as right:
        until("both hosts are ready", lambda: [states(hub).get(n) for n in HOSTS] == ["ready"] * 2,
              60)
        yield left, right


def run(hub, folder, *words):
    env = {**os.environ, "EVENSTEP_URL": hub.url, "EVENSTEP_TOKEN": hub.token}
    with hub.place:
        return subprocess.run([EVENSTEP, "run", "--ddp", "--workers", "2", *map(str, words)],
                              env=env, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.fixture
def program(tmp_path):
    """The tutorial's program, and what it imports."""
    folder = tmp_path / "program"
    folder.mkdir()
    for name in ("ddp_tutorial.py", "ddp_calls.py"):
        (folder / name).write_text((PROGRAMS / name).read_text())
    return folder


def test_ranks_on_two_hosts_exchange_gradients_and_collectives(hub, machines, program, tmp_path):
    done = run(hub, program, "--strategy", "sync", "ddp_tutorial.py", tmp_path / "seen", 3)
    assert done.returncode == 0, done.stderr
    job = hub.job(done.stdout.strip())
    assert {w["node"] for w in job["workers"]} == set(HOSTS)
    seen = [json.loads(pathlib.Path(f"{tmp_path}/seen-{rank}.json").read_text())
            for rank in (0, 1)]
    assert seen[0]["losses"] == seen[1]["losses"]
    assert seen[0]["losses"][-1] < seen[0]["losses"][0]
