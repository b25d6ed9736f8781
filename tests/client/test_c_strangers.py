"""C programs as people write them, with the library's calls added. The one of two spirals ends as
it did on one machine (../program/spiral.c), and mistakes are reported in a sentence (misused.c)."""

import os
import subprocess

import numpy as np
import pytest

from tree import ROOT
from real_rank import BUILD, COLUMNS, rows_of, run_local

SIZES = [20, 15, 5]


def build(folder, name, *options):
    program = folder / (name + "".join(options))
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-fopenmp", "-o", program,
                    os.path.join(ROOT, "tests/program", name + ".c"), *options,
                    "-I" + os.path.join(ROOT, "client/include"), "-L" + BUILD,
                    "-Wl,-rpath," + BUILD, "-levenstep", "-lm"], check=True)
    return program


@pytest.fixture(scope="module")
def spiral(tmp_path_factory):
    """The program, its data, and its result on one machine, without the library."""
    folder = tmp_path_factory.mktemp("spiral")
    t, turn = np.linspace(0.2, 1, 600), np.where(np.arange(600) % 2, 1, -1)
    points = np.stack([turn * t * np.cos(5 * t), turn * t * np.sin(5 * t), turn > 0], 1)
    np.random.default_rng(3).permutation(points).astype("f4").tofile(folder / "data")
    subprocess.run([build(folder, "spiral", "-DALONE"), folder / "data", folder / "alone"],
                   check=True)
    return build(folder, "spiral"), folder / "data", np.fromfile(folder / "alone-0.raw", "f4")


def trained(spiral, folder, strategy, **more):
    program, data, _ = spiral
    return run_local([str(program), str(data), str(folder / "rank")], SIZES, strategy, folder,
                     ["--out", str(folder / "job")], **more)


def check(spiral, folder):
    ends = [np.fromfile(folder / f"rank-{i}.raw", "f4") for i in range(3)]
    assert np.array_equal(ends[0], ends[1]) and np.array_equal(ends[0], ends[2])
    assert np.abs(ends[0] - spiral[2]).max() < 2e-6 * np.abs(spiral[2]).max()


# in the first and in the second minibatch of a step, and in an epoch's last one
@pytest.mark.parametrize("dies", [None, "5", "6", "15"])
def test_it_ends_as_on_one_machine(spiral, tmp_path, dies):
    done = trained(spiral, tmp_path, {"type": "sync"}, variables={"TEST_DIE": dies} if dies else {})
    assert done.returncode == 0, done.stderr[-3000:]
    assert ('msg="goes on"' in done.stderr) == bool(dies)
    check(spiral, tmp_path)


# a step's first minibatch, and its second
@pytest.mark.parametrize("at", ["18", "19"])
def test_it_goes_on_from_a_checkpoint_within_a_step(spiral, tmp_path, at):
    often = {"checkpoint": {"every_steps": 1}}
    failed = trained(spiral, tmp_path, {"type": "sync"}, variables={"TEST_REFUSE": at}, **often)
    assert failed.returncode != 0 and "it would end here again" in failed.stderr
    done = trained(spiral, tmp_path, {"type": "sync"}, **often)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [dict(zip(COLUMNS, row.split(","))) for row in rows_of(done)]
    assert 0 < len({r["step"] for r in rows}) < 4 * 15, "only what was left"
    check(spiral, tmp_path)


@pytest.fixture(scope="module")
def misused(tmp_path_factory):
    return build(tmp_path_factory.mktemp("misused"), "misused")


@pytest.mark.parametrize("how, strategy, said", [
    ("ignores", "asgd", "es_gradients answered ES_GO_DIFFERENCE: put parameters before minus"),
    ("zero", "sync", "the result has 0 samples, and the slice "),
    ("twice", "sync", "es_gradients: no pass is open: es_begin or es_again comes before"),
    ("ends", "sync", "ended with exit code 0, and had not left the run (C calls es_leave"),
    ("keeps", "sync", "the next slice was begun before this one's gradients were given"),
    ("right", "sync", None)])
def test_a_mistake_is_a_sentence(misused, tmp_path, how, strategy, said):
    done = run_local([str(misused), how], [6, 4, 2], {"type": strategy}, tmp_path)
    assert (done.returncode == 0) == (how in ("right", "keeps"))
    assert said in done.stderr if said else "level=warn" not in done.stderr
    assert how != "ignores" or "is started again" not in done.stderr
