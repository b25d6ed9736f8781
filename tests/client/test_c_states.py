"""A C program with its own state (../program/bits.c), following evenstep.h."""

import os
import subprocess

import numpy as np
import pytest

from tree import ROOT
from real_rank import BUILD, run_local

MODES = ["summed", "held"]


@pytest.fixture(scope="module")
def bits(tmp_path_factory):
    """The program, and its result alone, by mode."""
    folder = tmp_path_factory.mktemp("bits")
    program = folder / "bits"
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program,
                    os.path.join(ROOT, "tests/program/bits.c"),
                    "-I" + os.path.join(ROOT, "client/include"), "-L" + BUILD,
                    "-Wl,-rpath," + BUILD, "-levenstep", "-lm"], check=True)
    for mode in MODES:
        subprocess.run([program, folder / mode, mode], check=True, stdout=subprocess.DEVNULL)
    return program, {mode: np.fromfile(folder / (mode + "-0.raw"), "f4") for mode in MODES}


def trained(program, mode, strategy, folder, dies=None):
    """(The finished process, each rank's result), for gradients in several buckets."""
    done = run_local([str(program), str(folder / "rank"), mode], [20, 12], strategy, folder,
                     variables={"TEST_DIE": dies} if dies else {}, exchange={"bucket_bytes": 4096})
    assert done.returncode == 0, done.stderr[-3000:]
    return done, [np.fromfile(folder / f"rank-{i}.raw", "f4") for i in range(2)]


# in the first and in the second slice of a step; another rank's kept gradients differ from this
# one's
@pytest.mark.parametrize("mode, dies", [("summed", None), ("held", None), ("summed", "5"),
                                        ("summed", "6"), ("held", "5")])
def test_it_ends_as_alone(bits, tmp_path, mode, dies):
    program, alone = bits
    done, ends = trained(program, mode, {"type": "sync"}, tmp_path, dies)
    assert ('msg="goes on"' in done.stderr) == bool(dies)
    assert np.array_equal(*ends)
    assert np.abs(ends[0] - alone[mode]).max() < 2e-6 * np.abs(alone[mode]).max()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("strategy", [
    {"type": "local-sgd", "k": 2}, {"type": "hier-sgd", "k1": 2, "k2": 4},
    {"type": "hpsgd", "k": 2}, {"type": "asgd"}, {"type": "dbs-sgd"}], ids=lambda s: s["type"])
def test_others_train_it_also_if_it_is_killed(bits, tmp_path, strategy, mode):
    done, ends = trained(bits[0], mode, strategy, tmp_path, "5")
    evaluations = [line.split(",") for line in done.stdout.splitlines()
                   if line.startswith("evaluation,")]
    assert 'msg="goes on"' in done.stderr and np.array_equal(*ends)
    assert float(evaluations[-1][4]) < 0.9, "the test loss began at 1.08"
