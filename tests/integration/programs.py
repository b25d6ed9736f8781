"""The location of this tree and its programs, and the environment of programs that start MPI. It
imports only the standard library, so that benchmarks and comparisons can use it under an
interpreter without pytest and requests; service.py builds on it."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
SANITIZED = (BUILD / "tests/sanitizer/options.o").exists()
# Open MPI refuses to run as root, as tests in a container do, until it is told twice
AT_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# for a rank without a service (evenstep-worker --local): its threads yield to other ranks while
# they wait
LOCAL = {**os.environ, **AT_ROOT, "OMP_WAIT_POLICY": "passive"}


def python_with(*packages):
    """An interpreter that has these packages: one of EVENSTEP_TEST_PYTHON (several separated by
    ':'), or run/own-program, which deploy/setup own-program makes. Without one the test is
    skipped."""
    named = os.environ.get("EVENSTEP_TEST_PYTHON", "").split(":")
    find = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))"
    for python in [*filter(None, named), str(ROOT / "run/own-program/bin/python")]:
        if os.path.exists(python) and not subprocess.run(
                [python, "-c", find, *packages]).returncode:
            return python
    import pytest  # benchmarks need no pytest
    pytest.skip(f"no interpreter with {' and '.join(packages)}: deploy/setup own-program")
