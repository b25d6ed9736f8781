"""Starts `evenstep run` as a person does, for the tests of what it packs and how it runs."""
import os
import re
import shutil
import signal
import subprocess

import pytest

from programs import AT_ROOT, ROOT
from service import BUILD, PATIENCE

EVENSTEP = str(BUILD / "evenstep")


@pytest.fixture
def program(tmp_path):
    """A folder with a program that needs only NumPy, and with files that are not to be packed."""
    folder = tmp_path / "program"
    folder.mkdir()
    for name in ("wire.py", "counting.py"):
        shutil.copy(ROOT / "tests/program" / name, folder)
    (folder / "model.ckpt").write_text("left out")
    (folder / ".evenstepignore").write_text("*.ckpt\n")
    return folder


def environment(service, **more):
    plain = {k: v for k, v in os.environ.items() if not k.startswith("EVENSTEP_")}
    if service:
        plain.update(EVENSTEP_URL=service.url, EVENSTEP_TOKEN=service.token)
    return {**plain, **AT_ROOT, "EVENSTEP_PYTHON": "/usr/bin/python3", **more}


started = []


@pytest.fixture(autouse=True)
def ended():
    """Ends what a failed test has started."""
    yield
    while started:
        started.pop().kill()


def start(*args, service=None, cwd="/", **more):
    """Starts it so that Ctrl-C reaches it even if the tests run in the background, where SIGINT is
    ignored."""
    process = subprocess.Popen([EVENSTEP, "run", *map(str, args)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, cwd=cwd,
                               env=environment(service, **more),
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    started.append(process)
    return process


def finish(process):
    out, err = process.communicate(timeout=180 * PATIENCE)
    return out, err, process.returncode


def run(*args, **more):
    return finish(start(*args, **more))


def id_of(out):
    assert re.fullmatch("[0-9a-f]{16}\n", out), out
    return out.strip()
