"""A C program with very short steps on one rank, which grants several of them at a time and hears
of them late (worker/program/step/granted.c)."""

import os
import subprocess

import numpy as np
import pytest

from tree import ROOT
from real_rank import BUILD, COLUMNS, rows_of, run_local

STEPS = 2 * 16000 // 8


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The program, and its result when undisturbed."""
    folder = tmp_path_factory.mktemp("quick")
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", folder / "quick",
                    os.path.join(ROOT, "tests/program/quick.c"),
                    "-I" + os.path.join(ROOT, "client/include"), "-L" + BUILD,
                    "-Wl,-rpath," + BUILD, "-levenstep"], check=True)
    return folder / "quick", trained(folder / "quick", folder / "whole")[1]


def trained(program, folder, **variables):
    done = run_local([str(program), str(folder / "end")], [8], {"type": "sync"}, folder,
                     variables=variables)
    assert done.returncode == 0, done.stderr[-3000:]
    return done, np.fromfile(folder / "end", "f4")


def rows(done):
    return [dict(zip(COLUMNS + ["compute"], row.split(","))) for row in rows_of(done)]


def test_every_step_has_a_row_and_its_own_time(quick, tmp_path):
    done, end = trained(quick[0], tmp_path)
    told = rows(done)
    assert [int(row["step"]) for row in told] == list(range(1, STEPS + 1))
    assert np.abs(end - np.arange(24) % 5).max() < 0.05
    times = np.array([float(row["time"]) for row in told])
    took = np.array([float(row["compute"]) for row in told])
    late = np.diff(times) < took[1:] / 4  # the rank heard of it together with the previous one
    assert late.mean() > 0.1, "the rank was woken for each"
    assert 0.9e-4 < np.median(took) < 2e-4, "a step takes 0.1 ms and a little"


@pytest.mark.parametrize("at", ["1500", "30 31", "700 2100 3500", "1999 2010 2021"])
def test_killed_anywhere_it_ends_at_the_same_bits(quick, tmp_path, at):
    done, end = trained(quick[0], tmp_path, TEST_KILL=at)
    assert done.stderr.count('msg="goes on"') == len(at.split())
    steps = [int(row["step"]) for row in rows(done)]
    assert steps == list(range(1, STEPS + 1))
    assert np.array_equal(end, quick[1])
