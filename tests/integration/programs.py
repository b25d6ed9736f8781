"""Where this tree and its programs are, and what programs that start MPI need around them. It
imports nothing but the standard library, so that the benches and comparisons can use it under an
interpreter that has neither pytest nor requests; service.py builds on it."""
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
SANITIZED = (BUILD / "tests/sanitizer/options.o").exists()
# Open MPI refuses to start as root, as tests in a container are, until it is told twice
AT_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# a rank without a service (evenstep-worker --local): its threads yield to the other ranks' while
# they wait
LOCAL = {**os.environ, **AT_ROOT, "OMP_WAIT_POLICY": "passive"}
