"""Keras programs: parameters on unequal ranks equal those of the program alone, on both
backends."""

import os
import subprocess

import numpy as np
import pytest

from compare import bit_identical, difference
from conftest import python_with
from tree import environment

SHARES = [45, 19]


def samples(side):
    """Of each step; a further pass tells the others an epoch's figures."""
    return [s["samples"] for s in side.steps if not s["again"]]


@pytest.mark.parametrize("case", ["sgd", "adam_weighted"])
def test_unequal_ranks_equal_the_program_alone(keras_programs, run_programs, case):
    alone = run_programs(keras_programs, "keras_cases", case)
    job = run_programs(keras_programs, "keras_cases", case, SHARES, epochs=3)
    assert bit_identical(job.results)
    assert difference(job.results[0], alone.results[0]) < 2e-6
    assert samples(job.sides[1]) == ([19] * 9 + [7]) * 3
    assert 0.5 < job.sides[0].steps[0]["loss"] < 3
    assert [sorted(metrics) for metrics in job.sides[0].logs] == [
        ["accuracy", "test_accuracy", "test_loss"]] * 3
    assert all(os.path.exists(str(output) + ".keras") for output in job.outputs)


@pytest.mark.parametrize("case", ["own_train_step", "pipeline", "built_by_hand"])
def test_other_ways_to_train_equal_the_program_alone_too(keras_programs, run_programs, case):
    alone = run_programs(keras_programs, "keras_cases", case)
    job = run_programs(keras_programs, "keras_cases", case, SHARES, epochs=3)
    assert bit_identical(job.results)
    assert difference(job.results[0], alone.results[0]) < 2e-6


def test_a_sequence_of_batches_is_read_by_all(keras_programs, run_programs):
    job = run_programs(keras_programs, "keras_cases", "sequence", SHARES, epochs=3)
    assert bit_identical(job.results)
    assert sum(sum(samples(side)) for side in job.sides) == 3 * 600
    assert "the PyDataset is read once, and its 600 samples" in job.logs[0]


def test_each_sample_comes_once_though_each_program_shuffles_for_itself(keras_programs,
                                                                          run_programs):
    job = run_programs(keras_programs, "keras_cases", "drawn", SHARES)
    assert sorted(n for r in job.results for n in r["seen"]) == list(range(600))


def test_moving_statistics_are_averaged(keras_programs, run_programs):
    """Each rank normalizes its own rows, so the run alone is near, not equal. Ranks have the same
    statistics where they evaluate and at the end."""
    alone = run_programs(keras_programs, "keras_cases", "batch_norm").results[0]
    job = run_programs(keras_programs, "keras_cases", "batch_norm", SHARES, epochs=3)
    assert bit_identical(job.results)
    assert np.allclose(job.results[0]["val_loss"], alone["val_loss"], rtol=0.1)
    for name in (name for name in alone if "moving" in name):
        assert np.allclose(job.results[0][name], alone[name], atol=0.1)


def test_a_server_makes_the_step(keras_programs, run_programs):
    job = run_programs(keras_programs, "keras_cases", "sgd", [1], epochs=3, mode="server")
    losses = [s["loss"] for s in job.sides[0].steps]
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])


def test_a_server_gets_the_difference_of_another_optimizer(keras_programs, run_programs):
    """With one rank the server's parameters follow Adam's, so the run equals the program alone."""
    alone = run_programs(keras_programs, "keras_cases", "adam")
    job = run_programs(keras_programs, "keras_cases", "adam", [1], epochs=3, mode="difference")
    assert difference(job.results[0], alone.results[0]) < 2e-6
    assert len(job.sides[0].steps) == 2 * 30  # each is told twice: gradients, and the difference


def test_two_ranks_train_on_a_server_by_differences(keras_programs, run_programs):
    job = run_programs(
        keras_programs, "keras_cases", "adam", [40, 24], epochs=3, mode="difference"
    )
    losses = [s["loss"] for s in job.sides[0].steps if not np.isnan(s["loss"])]
    assert len(losses) == 30
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])


def test_a_second_fit_goes_on_in_the_same_run(keras_programs, run_programs):
    """Frozen weights are unfrozen, and another optimizer steps: as when the program runs alone."""
    alone = run_programs(keras_programs, "keras_cases", "transfer")
    job = run_programs(keras_programs, "keras_cases", "transfer", SHARES, epochs=5)
    assert all((r.pop("told") == [2, 2, 1]).all() for r in [alone.results[0], *job.results])
    assert bit_identical(job.results)
    assert difference(job.results[0], alone.results[0]) < 2e-6
    assert samples(job.sides[1]) == ([19] * 9 + [7]) * 5
    assert {side.epochs for side in job.sides} == {5}
    assert len(job.ranks.about["parameters"]) == 6


def test_a_second_fit_goes_on_where_a_server_takes_differences(keras_programs, run_programs):
    """Of frozen weights there is none."""
    job = run_programs(
        keras_programs, "keras_cases", "transfer", SHARES, epochs=5, mode="difference"
    )
    assert sum(s["samples"] for side in job.sides for s in side.steps) == 2 * 5 * 600


@pytest.mark.parametrize(
    "case, mode, sentence",
    [
        ("fits_on_less", "sync", "fit() was called once more with 300 samples in batches of 64"),
        ("adds_a_layer", "sync", "train now and were not in the first fit()"),
        ("changes_the_rule", "server", "the server makes the steps by the rule of the first fit()"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(keras_programs, run_programs, case, mode, sentence):
    job = run_programs(
        keras_programs, "keras_cases", case, [1], epochs=3, fails=True, mode=mode
    )
    assert job.codes == [1]
    assert sentence in job.sides[0].failure


@pytest.mark.parametrize("case, sentence", [
    ("keeps_a_state", "keeps a state from batch to batch (stateful=True)"),
    ("has_a_number_of_rows", "has a fixed number of rows, 4, but a node has a share")])
def test_a_model_that_takes_one_size_of_batch_is_refused(keras_programs, run_programs, case,
                                                         sentence):
    job = run_programs(keras_programs, "keras_cases", case, [3, 1], fails=True)
    assert job.codes == [1, 1]
    assert all(sentence in side.failure for side in job.sides)


def test_a_loop_over_train_on_batch_is_refused(keras_programs, run_programs):
    said = run_programs(keras_programs, "keras_cases", "trains_on_batches").logs[0]
    assert "train_on_batch() knows nothing of the other nodes: take fit()" in said


def test_a_backend_without_an_exchange_is_named():
    program = (
        "import keras, evenstep\n"
        "evenstep.prepare(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]))\n"
    )
    env = {**environment(), "KERAS_BACKEND": "jax", "EVENSTEP_SOCKET": "/nowhere"}
    ran = subprocess.run([python_with("keras", "jax"), "-c", program], env=env, text=True,
                         capture_output=True, timeout=120)
    assert ran.returncode != 0
    assert "fit() on Keras' backend jax cannot exchange gradients: set KERAS_BACKEND" in ran.stderr
