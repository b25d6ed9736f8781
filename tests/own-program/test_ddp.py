"""A program that was written for DistributedDataParallel, unchanged: under torchrun with PyTorch's
own process group, and on ranks of ours (evenstep.ddp)."""

import json
import os
import subprocess

import numpy as np
import pytest

from compare import bit_identical, difference
from conftest import python_with
from real_rank import AS_ROOT, BUILD, run_local
from tree import ROOT, environment

PROGRAM = os.path.join(ROOT, "tests/own-program/ddp_program.py")
TUTORIAL = os.path.join(ROOT, "tests/own-program/ddp_tutorial.py")
SHARED = os.path.join(ROOT, "tests/own-program/ddp_shared.py")
EPOCHS = 20


@pytest.fixture(scope="module")
def python():
    return python_with("torch", "numpy")


def results(folder, n):
    return [dict(np.load(folder / f"rank-{i}.npz")) for i in range(n)]


def on_ranks(python, folder, batch, ranks=2, epochs=EPOCHS, more=0, options=(), **program):
    """The process that ran it, which may have failed. more: epochs that only the program makes, of
    `epochs` that the job names if there are any."""
    arguments = [str(folder / "rank"), str(epochs + more), str(batch), *options]
    return run_on_ranks(python, folder, [PROGRAM, *arguments], ranks, epochs, **program)


def run_on_ranks(python, folder, program, ranks, epochs=0, **more):
    command = [python, "-m", "evenstep.ddp", program[0]]
    spec = {
        "program": {"command": command, "args": program[1:], **more},
        "workers": ranks,
        **({"epochs": epochs} if epochs else {}),
        "strategy": {"type": "sync"},
        "batching": {"policy": "equal"},
        "seed": 7,
        "max_restarts": 0,
    }
    (folder / "job.json").write_text(json.dumps(spec))
    command = [os.path.join(BUILD, "evenstep-worker"), "--local", str(folder / "job.json")]
    return subprocess.run(
        command, env={**os.environ, **AS_ROOT}, capture_output=True, text=True, timeout=240,
        stdin=subprocess.DEVNULL,
    )


def by_torchrun(python, program, ranks):
    launch = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    done = subprocess.run(
        [*launch, *program], env=environment(), timeout=240, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("options", [[], ["--sum"]])
def test_it_ends_where_pytorchs_own_process_group_brings_it(python, tmp_path, options):
    """With whole epochs as minibatches, so that the order of samples does not matter. The mean over
    ranks may be one of sums, as it is there."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir(), theirs.mkdir()
    done = on_ranks(python, ours, 120, options=options)
    assert done.returncode == 0, done.stderr[-4000:]
    assert bit_identical(results(ours, 2))
    by_torchrun(python, [PROGRAM, str(theirs / "rank"), str(EPOCHS), "120", *options], 2)
    found = difference(results(ours, 2)[0], results(theirs, 2)[0])
    print("after %d epochs: %.1e" % (EPOCHS, found))
    assert found < 1e-6
    assert set(results(ours, 2)[0]) == set(results(theirs, 2)[0]), "names of tensors: module.…"


@pytest.mark.parametrize("ranks, options", [(2, []), (3, ["--own-sampler"])])
def test_each_rank_has_the_samples_that_its_sampler_gives_it(python, tmp_path, ranks, options):
    """Of which batch norm, the loss of each batch and the parameters depend. It keeps gradients of
    a head that its last pass before a step leaves out."""
    done = run_on_ranks(python, tmp_path, [SHARED, str(tmp_path / "ours"), *options], ranks)
    assert done.returncode == 0, done.stderr[-4000:]
    by_torchrun(python, [SHARED, str(tmp_path / "theirs"), *options], ranks)
    for rank in range(ranks):
        ours, theirs = (dict(np.load(tmp_path / f"{who}-{rank}.npz")) for who in ("ours", "theirs"))
        assert len(ours["losses"]) == len(theirs["losses"]) > 30 // ranks
        assert difference(ours, theirs) < 2e-6


def test_every_rank_has_an_equal_part_of_each_minibatch(python, tmp_path):
    done = on_ranks(python, tmp_path, 30, epochs=3)
    assert done.returncode == 0, done.stderr[-4000:]
    for rank in (0, 1):
        assert f'rank={rank} line="epoch 2: 360 samples, 120 tested, 4 steps"' in done.stderr
    assert bit_identical(results(tmp_path, 2))


@pytest.mark.parametrize("ranks", [2, 3])
def test_what_programs_exchange_is_what_pytorchs_own_process_group_gives(python, tmp_path, ranks):
    """The tutorial's shape: each collective's result on each rank, and a loss summed over them."""
    done = run_on_ranks(python, tmp_path, [TUTORIAL, str(tmp_path / "ours"), "3"], ranks)
    assert done.returncode == 0, done.stderr[-4000:]
    by_torchrun(python, [TUTORIAL, str(tmp_path / "theirs"), "3"], ranks)
    for rank in range(ranks):
        a, b = (json.loads((tmp_path / f"{who}-{rank}.json").read_text())
                for who in ("ours", "theirs"))
        assert a["calls"] == b["calls"]
        assert a["losses"] == pytest.approx(b["losses"], abs=1e-5)
        assert a["losses"][-1] < a["losses"][0]


@pytest.mark.parametrize(
    "option, sentence",
    [
        ("--send", "send is not offered under --ddp"),
        ("--mesh", "init_device_mesh is not offered under --ddp"),
        ("--root", "broadcast: there are ranks 0 to 1, and no 7"),
        ("--own-part", "a DistributedDataParallel model trains on batches of no loader with a Dis"),
        ("--alike", "the Alike of the training data gives all ranks the same samples"),
        ("--types", "rank 0 is at its exchange 1 all_reduce SUM of float32, and rank 1 at 1 all_"
         "reduce SUM of int32"),
        ("--fewer", "broadcast from 0 of int64: the program of rank 0 has made no such call for 3"),
        ("--groups", "new_group: under --ddp there is one group, of all 2 ranks, and not one of"),
        ("--mismatch", "rank 0 is at its exchange 1 broadcast from 0 of int64, and rank 1 at 1 ba"),
    ],
)
def test_what_is_not_offered_is_refused_in_a_sentence(python, tmp_path, option, sentence):
    done = run_on_ranks(python, tmp_path, [TUTORIAL, str(tmp_path / "ours"), "1", option], 2)
    assert done.returncode != 0
    assert sentence in done.stderr, done.stderr[-4000:]


def test_a_program_that_starts_its_ranks_itself_is_refused(python, tmp_path):
    done = on_ranks(python, tmp_path, 120, epochs=1, options=["--spawned"])
    assert "of 2, not 7 of 8; a program that starts its ranks itself" in done.stderr


def test_a_rank_that_waits_long_for_another_is_no_rank_that_hangs(python, tmp_path):
    """In the first exchange of all, where they meet."""
    done = on_ranks(python, tmp_path, 120, epochs=1, options=["--late"], patience_seconds=5)
    assert done.returncode == 0, done.stderr[-4000:]


def test_more_epochs_than_the_job_has_are_told(python, tmp_path):
    done = on_ranks(python, tmp_path, 120, epochs=2, more=1)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "the job's epochs are over, and the program asks for more" in done.stderr


def test_without_a_number_there_are_as_many_epochs_as_the_loop_makes(python, tmp_path):
    done = on_ranks(python, tmp_path, 30, epochs=0, more=3)
    assert done.returncode == 0, done.stderr[-4000:]
    for rank in (0, 1):
        assert f'rank={rank} line="epoch 2: 360 samples, 120 tested, 4 steps"' in done.stderr
    assert "asks for more" not in done.stderr
    assert bit_identical(results(tmp_path, 2))


def test_alone_it_is_a_world_of_one(python, tmp_path):
    command = [python, "-m", "evenstep.ddp", PROGRAM, str(tmp_path / "rank"), "2", "240"]
    command.append("--reduce")
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "epoch 1: 480 samples, 240 tested, 1 steps" in done.stdout


def test_one_that_is_run_without_the_option_is_told_of_it(tmp_path):
    """As PyTorch's init_process_group() ends it."""
    fails = "raise ValueError('environment variable RANK expected, but not set')"
    done = run_local(["/usr/bin/python3", "-c", fails], [2, 1], {"type": "sync"}, tmp_path)
    assert done.returncode != 0
    assert 'hint="a program for DistributedDataParallel runs by `evenstep run --ddp`' in done.stderr
