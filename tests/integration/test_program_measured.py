"""A program that evaluates within its epochs, after steps that it counts itself: each evaluation is
one of the job's, with its target and its best model."""
import numpy as np
import pytest

from test_exchange import tensors
from test_program import Run, expected, job, name_of, without_statistics

SYNC = {"type": "sync"}
AVERAGING = [{"type": "local-sgd", "k": 2}, {"type": "hier-sgd", "k1": 1, "k2": 2},
             {"type": "hpsgd", "k": 2}]


def measuring(strategy, *args, every=3, on=(0,), **more):
    """Four steps an epoch; the epoch's own evaluation of counting.py has 0.25 and 0.125 an
    epoch."""
    args = ["--measure", every, "--measure-on", *on, *args, *["--everyone"] * (len(on) > 1)]
    return job(strategy, args, **{"epochs": 4, **more})


def evaluations(run):
    assert run.code == 0, run.log[-3000:]
    return {round(e["epoch"] * 4): round(e["accuracy"] * 128) / 128 for e in run.evaluations}


OF_EPOCHS = {4: 0.25, 8: 0.375, 12: 0.5, 16: 0.625}


@pytest.mark.parametrize("on", [[0], [0, 1, 2]], ids=str)
def test_under_sync_each_one_is_shown_after_the_next_step(tmp_path, on):
    """If an epoch ends there, with the epoch's own: 3, 6, 9, 12 and 15 are measured."""
    run = Run(tmp_path / "run", measuring(SYNC, on=on))
    told = evaluations(run)
    assert {step: told.pop(step) for step in OF_EPOCHS} == OF_EPOCHS
    assert told == {7: 0.25 + 6 / 128, 10: 0.25 + 9 / 128}
    assert (without_statistics(run.model()) == expected(4)).all()


def test_any_rank_may_measure(tmp_path):
    run = Run(tmp_path / "run", measuring(SYNC, on=[2], every=6, epochs=2))
    assert evaluations(run) == {4: 0.25, 7: 0.25 + 6 / 128, 8: 0.375}


@pytest.mark.parametrize("strategy", AVERAGING, ids=name_of)
def test_where_parameters_are_averaged_after_the_next_average(tmp_path, strategy):
    """A round of hpsgd has its words one round later."""
    spec = measuring(strategy, "--batch", 16, every=5, on=[0, 1, 2], sizes=(8, 4, 4), epochs=2)
    told = {round(e["epoch"] * 16): e["accuracy"] for e in Run(tmp_path / "run", spec).evaluations}
    later = 8 if strategy["type"] == "hpsgd" else 6
    assert told.pop(16) == 0.25 and told.pop(32) == 0.375
    assert sorted(told)[:2] == [later, 12 if later == 6 else 14]
    assert told[later] == pytest.approx(0.25 + 5 / 128, abs=1e-6)


def test_a_rank_that_is_alone_ends_the_same(tmp_path):
    """Its steps are granted ahead, and an evaluation waits until they are made."""
    run = Run(tmp_path / "run", measuring(SYNC, sizes=(64,), every=2))
    assert evaluations(run)[16] == 0.625
    assert (without_statistics(run.model()) == expected(4)).all()


def test_one_of_them_reaches_the_target_and_is_the_best(tmp_path):
    spec = measuring(SYNC, target={"test_accuracy": 0.25 + 6 / 128})
    run = Run(tmp_path / "run", spec)
    told = evaluations(run)
    assert told == {4: 0.25, 7: 0.25 + 6 / 128} and len(run.rows) == 7 * 3
    best = without_statistics(tensors(tmp_path / "run/artifacts/best.safetensors"))
    assert (best == without_statistics(run.model())).all()


@pytest.mark.parametrize("point", ["before", "begun", "half", "after"])
@pytest.mark.parametrize("strategy", [SYNC, *AVERAGING], ids=name_of)
def test_a_program_that_ends_beside_one_comes_back(tmp_path, strategy, point):
    crash = ["--fault", "crash", "--on", 1, "--times", 1, "--point", point, "--after", 6]
    run = Run(tmp_path / "run", measuring(strategy, *crash, every=2, on=[0, 1, 2]))
    told = evaluations(run)
    assert told[16] == 0.625 and 'msg="is started again"' in run.log
    assert (without_statistics(run.model()) == expected(4)).all()


def test_an_attempt_that_is_lost_beside_one_goes_on(tmp_path):
    lost = measuring(SYNC, "--fault", "rank", "--after", 6, "--on", 1, every=1,
                     checkpoint={"every_steps": 1})
    assert Run(tmp_path / "run", lost).code != 0
    run = Run(tmp_path / "run", measuring(SYNC, every=1))
    assert (without_statistics(run.model()) == expected(4)).all()
    assert evaluations(run)[16] == 0.625


def test_under_a_server_each_one_is_shown_as_it_comes(tmp_path):
    run = Run(tmp_path / "run", measuring({"type": "asgd"}, sizes=(64,)))
    measured = [round(e["accuracy"] * 128) / 128 for e in run.evaluations]
    assert measured == [0.25 + 3 / 128, 0.25, 0.25 + 6 / 128, 0.375, 0.25 + 9 / 128,
                        0.25 + 12 / 128, 0.5, 0.25 + 15 / 128, 0.625]
    losses = [e["loss"] for e in run.evaluations]
    assert np.allclose(losses[5], losses[6], rtol=1e-6)  # of the same parameters
