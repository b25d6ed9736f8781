"""How tests/run hands tests to processes (conftest.py), seen on tests of its own."""
import os
import shutil
import subprocess
import sys

import pytest

from programs import ROOT

pytest.importorskip("xdist")
SUITE = """
import os, pathlib, pytest

@pytest.fixture(scope="module")
def one():
    return os.getpid()

@pytest.fixture(scope="module")
def other():
    return os.getpid()

@pytest.fixture(scope="module")
def of_other(other):
    return other

def note(request, fixture):
    where = pathlib.Path(__file__).parent / "made"
    with open(where, "a") as out:
        out.write(f"{request.node.name} {fixture}\\n")

def test_a(request, one):
    note(request, one)

@pytest.mark.parametrize("mail", ["me@home"])
def test_b(request, of_other, mail):
    note(request, of_other)
    assert False

def test_c(request, one):
    note(request, one)

def test_d(request, other):
    note(request, other)

def test_e():
    assert False
"""


def run(folder, *more, **env):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more], cwd=folder,
        capture_output=True, text=True, timeout=120,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")} | env)


def test_tests_that_share_a_fixture_stay_together_and_who_fails_can_be_named_again(tmp_path):
    """Different fixtures are no reason to stay together: a file's groups end sooner."""
    shutil.copy(ROOT / "tests/conftest.py", tmp_path)
    (tmp_path / "integration").mkdir()
    (tmp_path / "integration" / "test_some.py").write_text(SUITE)
    first = run(tmp_path, "-n", "2", "--dist", "loadgroup",
                EVENSTEP_FAILED=str(tmp_path / "failed"))
    assert "2 failed, 3 passed" in first.stdout, first.stdout + first.stderr
    made = dict(line.split(" ") for line in
                (tmp_path / "integration" / "made").read_text().splitlines())
    assert made["test_a"] == made["test_c"] and made["test_b[me@home]"] == made["test_d"]
    assert made["test_a"] != made["test_b[me@home]"]
    failed = (tmp_path / "failed").read_text().splitlines()
    assert sorted(failed) == ["integration/test_some.py::test_b[me@home]",
                              "integration/test_some.py::test_e"]
    again = run(tmp_path, *failed)
    assert "2 failed" in again.stdout and "not found" not in again.stderr, again.stdout
