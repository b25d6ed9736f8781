"""A program that says nothing of its epochs: as many are trained as its loop makes
(worker/program/start/join.c). counting.py leaves after --loop epochs, of which the rank knows
nothing before."""
import json

import numpy as np
import pytest

from test_program import (BATCH, RATE, SAMPLES, STRATEGIES, Run, expected, first_parameters,
                          gradient, in_file_order, in_turns, job, name_of, without_statistics)

EPOCHS = 3


def looping(strategy, *args, **more):
    spec = job(strategy, ["--loop", EPOCHS, *args], **more)
    del spec["epochs"]
    return spec


@pytest.mark.parametrize("strategy", [*STRATEGIES, {"type": "softsync", "n": 1, "pull": "blocking"},
                                      {"type": "hpsgd", "k": 3}], ids=name_of)
def test_the_run_has_the_epochs_that_the_programs_loop_makes(tmp_path, strategy):
    run = Run(tmp_path / "run", looping(strategy), in_turns(tmp_path, strategy, rounds=9))
    assert (without_statistics(run.model()) == expected(EPOCHS)).all()
    for epoch in range(EPOCHS):
        assert run.seen(epoch) == list(range(SAMPLES))
    assert all(set(rank["seen"]) <= {"0", "1", "2"}
               for rank in run.ranks), "a step of one epoch too many"
    assert sum(r["batch"] for r in run.rows) == EPOCHS * SAMPLES
    assert [e["accuracy"] for e in run.evaluations] == [0.25, 0.375, 0.5]


@pytest.mark.parametrize("strategy", ["sync", "asgd"])
def test_what_the_job_or_the_program_says_holds(tmp_path, strategy):
    run = Run(tmp_path / "job", {**looping({"type": strategy}), "epochs": 2})
    assert (without_statistics(run.model()) == expected(2)).all()
    spec = job({"type": strategy}, ["--epochs", 2])
    del spec["epochs"]
    assert (without_statistics(Run(tmp_path / "program", spec).model()) == expected(2)).all()


@pytest.mark.parametrize("strategy",
                         [{"type": "sync"}, {"type": "local-sgd", "k": 2},
                          {"type": "hpsgd", "k": 2}], ids=name_of)
def test_ranks_whose_loops_differ_are_a_sentence(tmp_path, strategy):
    run = Run(tmp_path / "run", looping(strategy, "--longer", 1))
    assert run.code != 0
    assert (
        "2 programs have left after epoch 3 and 1 goes on: the loops of all ranks make the same "
        "number of epochs" in run.log)


def leaving(strategy, *args):
    """Both ranks, or one with --on, leave before their step 3, in the middle of an epoch."""
    return looping(strategy, "--fault", "leave", "--after", 3, *args, sizes=(32, 32))


AVERAGING = [{"type": "local-sgd", "k": 2}, {"type": "local-sgd", "k": 3},
             {"type": "hier-sgd", "k1": 1, "k2": 4}, {"type": "hpsgd", "k": 2},
             {"type": "hpsgd", "k": 3}]


@pytest.mark.parametrize("strategy", [{"type": "sync"}, {"type": "asgd"}, *AVERAGING], ids=name_of)
def test_a_loop_over_steps_may_end_in_the_middle_of_an_epoch(tmp_path, strategy):
    run = Run(tmp_path / "run", leaving(strategy))
    model = without_statistics(run.model())
    assert [r["batch"] for r in run.rows] == [32] * 2 * 3
    if strategy["type"] != "asgd":  # each node's steps are in it, an average's between two as well
        lines = [line for file in (run.folder / "artifacts").glob(".seen-*")
                 for line in file.read_text().splitlines()]
        steps = RATE / BATCH * gradient(i for line in lines for i in json.loads(line)[2])
        assert (model == in_file_order((first_parameters() - steps).astype("f4"))).all()


@pytest.mark.parametrize("strategy", [{"type": "sync"}, {"type": "asgd"}, AVERAGING[0],
                                      AVERAGING[3]], ids=name_of)
def test_what_follows_such_a_loop_sees_the_average(tmp_path, strategy):
    run = Run(tmp_path / "run", looping(strategy, "--steps", 3, "--everyone", sizes=(32, 32)),
              in_turns(tmp_path, strategy, 2, 3))
    model = without_statistics(run.model())
    assert [e["accuracy"] for e in run.evaluations] == [0.5]
    if strategy["type"] != "asgd":
        assert run.ranks[0]["params"] == run.ranks[1]["params"]
        assert (model == in_file_order(np.array(run.ranks[0]["params"], "f4"))).all()


@pytest.mark.parametrize("strategy, after", [({"type": "sync"}, 3), (AVERAGING[0], 3),
                                             (AVERAGING[3], 1)], ids=["sync", "local", "hpsgd"])
def test_one_rank_that_leaves_before_the_others_is_a_sentence(tmp_path, strategy, after):
    run = Run(tmp_path / "run", leaving(strategy, "--on", 1, "--after", after))
    assert run.code != 0
    said = run.log.count(f"the program of rank 1 has left before step {after + 1} and 1 goes on")
    assert said == 2 if strategy["type"] == "sync" else said  # the others are further by then
    assert "the same number of steps; it ran on 'local-2'; its last lines: " in run.log


def test_under_a_server_the_others_take_its_samples(tmp_path):
    """Where its third step was an epoch's last one, the run ends with that epoch."""
    run = Run(tmp_path / "run", leaving({"type": "asgd"}, "--on", 1))
    assert run.code == 0 and sum(r["batch"] for r in run.rows) >= SAMPLES


@pytest.mark.parametrize("strategy", ["sync", "asgd"])
def test_one_that_leaves_with_a_status_of_its_own_is_started_again(tmp_path, strategy):
    spec = looping({"type": strategy}, "--fault", "quit", "--after", 2, "--on", 1, "--times", 1,
                   sizes=(32, 32))
    run = Run(tmp_path / "run", spec, in_turns(tmp_path, spec["strategy"], 2))
    assert "rank 1 on 'local-2' ended with exit code 3; its last lines: " in run.log
    assert (without_statistics(run.model()) == expected(EPOCHS)).all()


def test_a_checkpoint_may_be_due_where_the_programs_leave(tmp_path):
    for strategy in {"type": "asgd"}, {"type": "softsync", "n": 1, "pull": "blocking"}:
        spec = looping(strategy, "--state", sizes=(32, 32), checkpoint={"every_steps": 1})
        run = Run(tmp_path / strategy["type"], spec)
        assert run.code == 0, run.log[-3000:]


def test_a_target_ends_it_before(tmp_path):
    run = Run(tmp_path / "run", looping({"type": "sync"}, target={"test_accuracy": 0.375}))
    assert (without_statistics(run.model()) == expected(2)).all()


@pytest.mark.parametrize("after", [3, 4, 7, 11])
@pytest.mark.parametrize("strategy",
                         [{"type": "sync"}, {"type": "local-sgd", "k": 2}, {"type": "asgd"}],
                         ids=name_of)
def test_it_goes_on_after_a_lost_attempt(tmp_path, strategy, after):
    lost = looping(strategy, "--fault", "rank", "--after", after, "--on", 0, sizes=(64,),
                   checkpoint={"every_steps": 1})
    assert Run(tmp_path / "run", lost).code != 0
    run = Run(tmp_path / "run", looping(strategy, sizes=(64,)))
    assert (without_statistics(run.model()) == expected(EPOCHS)).all()


@pytest.mark.parametrize("point", ["evaluation", "before", "step"])
@pytest.mark.parametrize("strategy",
                         [{"type": "sync"}, {"type": "local-sgd", "k": 2}, {"type": "asgd"}],
                         ids=name_of)
def test_it_goes_on_after_a_crash_at_an_epochs_end(tmp_path, strategy, point):
    # in its very last step it ends the job (docs/own-program-training.md)
    epochs = EPOCHS - 1 if strategy["type"] == "sync" else EPOCHS
    crash = ["--fault", "crash", "--on", 1, "--times", 1, "--point", point, "--after",
             epochs * SAMPLES // BATCH - 1]
    run = Run(tmp_path / "run", looping(strategy, *crash, sizes=(32, 32)))
    assert (without_statistics(run.model()) == expected(EPOCHS)).all()


def test_nobody_is_told_a_number_that_is_not_known(tmp_path):
    run = Run(tmp_path / "run", looping({"type": "sync"}))
    assert run.joined == ["2450", "256", "64", "0"]
