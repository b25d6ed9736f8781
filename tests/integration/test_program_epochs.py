"""A program that says nothing of its epochs: as many are trained as its loop makes
(worker/program/start/join.c). counting.py leaves after --loop epochs, of which the rank knows
nothing before."""
import json

import numpy as np
import pytest

from test_exchange import tensors
from test_program import (BATCH, RATE, SAMPLES, STRATEGIES, Run, crashing, expected,
                          first_parameters, gradient, in_file_order, in_turns, job, name_of,
                          without_statistics)

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
    measured = [e["accuracy"] for e in run.evaluations]
    assert measured in ([0.25, 0.375, 0.5], [0.25, 0.375, 0.5, 0.625]), (run.rows, run.log[-3000:])


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
    """If its third step was an epoch's last one, the run ends with that epoch."""
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


def test_an_exception_after_the_last_step_ends_the_job_at_once(tmp_path):
    run = Run(tmp_path / "run", job({"type": "sync"}, ["--fault", "failed", "--after", 7, "--on", 1,
                                                       "--point", "evaluation"]))
    assert run.code != 0 and 'msg="is started again"' not in run.log
    assert "after its last step: the program of rank 1 on" in run.log


def test_an_accuracy_that_the_program_logs_reaches_the_target(tmp_path):
    run = Run(tmp_path / "run", job({"type": "sync"}, epochs=50, target={"test_accuracy": 0.5}))
    assert run.code == 0, run.log[-3000:]
    measured = [e["accuracy"] for e in run.evaluations]
    assert measured in ([0.25, 0.375, 0.5], [0.25, 0.375, 0.5, 0.625]), (run.rows, run.log[-3000:])


def test_the_program_says_how_many_epochs_and_the_global_batch(tmp_path):
    spec = job({"type": "sync"}, ["--epochs", 3, "--batch", 32], sizes=(1, 1))
    spec["batching"] = {"policy": "equal"}
    run = Run(tmp_path / "run", spec)
    assert run.seen(2) == list(range(SAMPLES)) and not run.seen(3)
    assert {r["batch"] for r in run.rows} == {16}


def test_a_program_goes_on_from_a_checkpoint(tmp_path):
    whole = Run(tmp_path / "whole", job({"type": "sync"}, epochs=4)).model()
    spec = job({"type": "sync"}, ["--fault", "crash", "--after", 6], epochs=4,
               checkpoint={"every_steps": 1})
    assert Run(tmp_path / "run", spec).code != 0
    run = Run(tmp_path / "run", job({"type": "sync"}, epochs=4))
    assert (without_statistics(run.model()) == without_statistics(whole)).all() and all(
        r["resumed"] for r in run.ranks)
    assert not run.seen(0)  # that epoch was done before


MOMENTUM = ["--optimizer", "momentum", "--curved", "--state"]


def checkpoints(folder):
    return sorted(f.name for f in (folder / "checkpoints").iterdir())


@pytest.mark.parametrize("strategy",
                         [{"type": "sync"}, {"type": "local-sgd", "k": 2},
                          {"type": "hier-sgd", "k1": 1, "k2": 2}], ids=name_of)
@pytest.mark.parametrize("after", [5, 8, 9])  # within an epoch of four steps, at its end, behind it
def test_a_program_with_a_state_goes_on_exactly_where_it_was(tmp_path, strategy, after):
    whole = Run(tmp_path / "whole", job(strategy, MOMENTUM, epochs=4))
    spec = job(strategy, [*MOMENTUM, "--fault", "rank", "--after", after], epochs=4,
               checkpoint={"every_steps": 1})
    assert Run(tmp_path / "run", spec).code != 0
    run = Run(tmp_path / "run", job(strategy, MOMENTUM, epochs=4))
    assert (without_statistics(run.model()) == without_statistics(whole.model())).all()
    assert all(f"state of rank {r}" in run.log for r in range(3))
    # two checkpoints, each with a state of every rank, and nothing else
    steps = {name.split(".")[0] for name in checkpoints(tmp_path / "run")}
    assert len(steps) == 2 and all(
        sum(n.startswith(s + ".rank-") for n in checkpoints(tmp_path / "run")) == 3 for s in steps)
    assert (tmp_path / "run/artifacts/state.bin").read_bytes()[0] == 0


def test_a_checkpoint_whose_state_is_gone_is_none_and_the_one_before_is_used(tmp_path):
    whole = Run(tmp_path / "whole", job({"type": "sync"}, MOMENTUM, epochs=4)).model()
    spec = job({"type": "sync"}, [*MOMENTUM, "--fault", "rank", "--after", 6], epochs=4,
               checkpoint={"every_steps": 1})
    assert Run(tmp_path / "run", spec).code != 0
    names = checkpoints(tmp_path / "run")
    step = [n for n in names if n.endswith(".safetensors")][-1].split(".")[0]  # the newest is whole
    state = next(n for n in names if n.startswith(f"{step}.rank-2."))
    (tmp_path / "run/checkpoints" / state).write_bytes(b"torn")
    run = Run(tmp_path / "run", job({"type": "sync"}, MOMENTUM, epochs=4))
    assert ((without_statistics(run.model()) == without_statistics(whole)).all()
            and "has been altered" in run.log)


def test_more_workers_than_a_checkpoint_was_made_with_get_the_states_of_its_first_ones(tmp_path):
    spec = job({"type": "sync"}, [*MOMENTUM, "--fault", "rank", "--after", 6], epochs=4,
               sizes=(32, 32), checkpoint={"every_steps": 1})
    assert Run(tmp_path / "run", spec).code != 0
    run = Run(tmp_path / "run", job({"type": "sync"}, MOMENTUM, epochs=4))
    whole = Run(tmp_path / "whole", job({"type": "sync"}, MOMENTUM, epochs=4)).model()
    # the sums are of other parts, and rounded differently
    assert np.allclose(without_statistics(run.model()), without_statistics(whole), rtol=1e-5,
                       atol=1e-5)
    assert run.log.count("state of rank 0") == 2 and run.log.count("state of rank 1") == 1


SERVERS = [{"type": "asgd"}, {"type": "softsync", "n": 1}, {"type": "asgd", "servers": 2}]


@pytest.mark.parametrize("after", [5, 8])
@pytest.mark.parametrize("strategy", SERVERS, ids=name_of)
def test_a_program_under_a_server_goes_on_exactly_where_it_was(tmp_path, strategy, after):
    """One worker: with several, the order differs each time."""
    heavy = ["--optimizer", "heavy", "--curved", "--state"]
    whole = Run(tmp_path / "whole", job(strategy, heavy, sizes=(64,), epochs=4))
    spec = job(strategy, [*heavy, "--fault", "rank", "--after", after], sizes=(64,), epochs=4,
               checkpoint={"every_steps": 1})
    assert Run(tmp_path / "run", spec).code != 0
    run = Run(tmp_path / "run", job(strategy, heavy, sizes=(64,), epochs=4))
    assert (without_statistics(run.model()) == without_statistics(whole.model())).all()
    assert ("state of rank 0" in run.log and sum(len(v) for v in run.ranks[0]["seen"].values()) < 4
            * SAMPLES)


def test_programs_under_a_server_give_their_states_to_each_checkpoint(tmp_path):
    args = ["--optimizer", "heavy", "--state"]
    assert Run(tmp_path / "run", job({"type": "asgd"}, [*args, "--fault", "rank", "--after", 6],
                                     epochs=4, checkpoint={"every_steps": 2})).code != 0
    assert {n.split(".")[1] for n in checkpoints(tmp_path / "run")} == {
        "rank-0", "rank-1", "rank-2", "safetensors"}
    run = Run(tmp_path / "run", job({"type": "asgd"}, args, epochs=4))
    assert run.code == 0 and all(f"state of rank {r}" in run.log for r in range(3)) and run.seen(
        3) == list(range(SAMPLES))


@pytest.mark.parametrize("strategy",
                         [{"type": "asgd"}, {"type": "dbs-sgd", "c": 2},
                          {"type": "asgd", "servers": 2}], ids=name_of)
def test_a_server_ends_at_the_target_that_the_program_measures_and_keeps_the_best(
        tmp_path, strategy):
    """Rank 0 has a slice of each of the three epochs: nine rounds are two epochs and one more. The
    others may have had all samples of further epochs before rank 0 tells of the third, whose end it
    then hears together with theirs; or its next slice was sent before it heard of the target."""
    run = Run(tmp_path / "run", job(strategy, epochs=50, target={"test_accuracy": 0.5}),
              in_turns(tmp_path, strategy, rounds=9))
    assert run.code == 0, run.log[-3000:]
    measured = [e["accuracy"] for e in run.evaluations]
    assert measured == [0.25 + 0.125 * epoch for epoch in range(len(measured))], run.log[-3000:]
    assert 3 <= len(measured) < 20, run.rows
    best = tensors(tmp_path / "run/artifacts/best.safetensors")
    assert np.allclose(np.abs(without_statistics(best)).sum(), run.evaluations[-1]["loss"],
                       rtol=1e-5) or strategy.get("servers")


@pytest.mark.parametrize("strategy",
                         [{"type": "asgd"}, {"type": "dbs-sgd", "c": 2},
                          {"type": "asgd", "servers": 2}], ids=name_of)
def test_the_last_evaluation_under_a_server_is_of_its_newest_parameters(tmp_path, strategy):
    run = Run(tmp_path / "run", job(strategy))
    assert np.allclose(np.abs(without_statistics(run.model())).sum(), run.evaluations[-1]["loss"],
                       rtol=1e-5)
    assert run.evaluations[-1]["epoch"] == 2


def test_an_emulated_slowdown_holds_for_a_program(tmp_path):
    run = Run(tmp_path / "run", job({"type": "sync"}, sizes=(32, 32), epochs=8),
              ["--slowdown", "1,20"])
    assert run.code == 0, run.log[-3000:]
    middle = [np.median([r["compute_seconds"] for r in run.rows if r["rank"] == rank][4:])
              for rank in (0, 1)]
    assert middle[1] > 4 * middle[0], middle


FAULTS = [("crash", "signal 11", "counting.py"), ("exit", "exit code 3", "about to exit"),
          ("killed", "where memory runs out", ""), ("full", "No space left on device", ""),
          ("leave", "before the job's end after epoch 2", ""),
          ("epoch", "ended its epoch early", ""), ("nan", "NaN or infinite", ""),
          ("samples", "does not follow the indices", ""), ("never", "never joined", "rank"),
          ("version", "version 99", ""),
          ("differs", "tensor 'first.bias'", "rank 1")]


@pytest.mark.parametrize("fault,sentence,more", FAULTS, ids=[f[0] for f in FAULTS])
def test_a_fault_of_the_program_is_a_sentence(tmp_path, fault, sentence, more):
    run = Run(tmp_path / "run", job({"type": "sync"}, ["--fault", fault]))
    assert run.code != 0
    said = [line for line in run.log.splitlines() if "level=error" in line and sentence in line]
    assert said and more in said[0], run.log[-3000:]
    assert "rank" in said[0] and ("local-" in said[0] or fault == "differs"), said


def test_a_program_that_hangs_is_named_with_its_stack(tmp_path):
    spec = job({"type": "sync"}, ["--fault", "hang"])
    spec["program"]["patience_seconds"] = 5
    run = Run(tmp_path / "run", spec)
    assert run.code != 0 and "neither reported nor computed" in run.log
    assert "Fatal Python error: Aborted" in run.log and "in fault" in run.log


POINTS = ["before", "begun", "half", "step", "after", "evaluation"]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=name_of)
def test_a_program_that_crashes_is_started_again_and_no_sample_is_lost_or_counted_twice(
        tmp_path, strategy):
    run = Run(tmp_path / "run", job(strategy, crashing()), in_turns(tmp_path, strategy))
    assert (without_statistics(run.model()) == expected()).all()
    assert run.seen(0) == run.seen(1) == list(range(SAMPLES))
    assert [r["incarnation"] for r in run.ranks] == [0, 1, 0] and sum(
        r["batch"] for r in run.rows) == 2 * SAMPLES
    assert 'msg="is started again" job=local rank=1' in run.log


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("strategy", [{"type": "asgd"}, {"type": "local-sgd", "k": 2}], ids=name_of)
def test_it_may_crash_at_any_point_of_a_step(tmp_path, strategy, point):
    run = Run(tmp_path / "run", job(strategy, ["--fault", "crash", "--times", 2, "--point", point]))
    assert (without_statistics(run.model()) == expected()).all()
    assert run.seen(0) == run.seen(1) == list(range(SAMPLES))


@pytest.mark.parametrize("point", POINTS)
def test_under_sync_a_step_waits_for_a_program_that_crashed_in_it_and_is_what_it_would_have_been(
        tmp_path, point):
    """With momentum, which comes from another rank's program. Of several buckets, some have left
    before the crash."""
    spec = job({"type": "sync"}, ["--optimizer", "momentum", "--state"],
               exchange={"bucket_bytes": 4096})
    whole = Run(tmp_path / "whole", spec)
    spec["program"]["args"] += [str(a) for a in crashing("--point", point)]
    run = Run(tmp_path / "run", spec)
    assert (run.model() == whole.model()).all() and run.ranks[1]["incarnation"] == 1
    assert all(r["params"] == run.ranks[0]["params"] for r in run.ranks)
    assert run.seen(0) == run.seen(1) == list(range(SAMPLES))


def test_two_programs_may_crash_in_one_step_of_sync(tmp_path):
    spec = job({"type": "sync"}, ["--fault", "crash", "--times", 2, "--but", 1])
    run = Run(tmp_path / "run", spec)
    assert (without_statistics(run.model()) == expected()).all() and [
        r["incarnation"] for r in run.ranks] == [2, 0, 2]


@pytest.mark.parametrize("more, said", [
    ([], "its optimizer 'momentum' keeps a state from step to step"),
    (["--nameless"], "its optimizer keeps a state from step to step")], ids=["named", "nameless"])
def test_an_optimizers_state_that_the_programs_do_not_give_ends_the_job_under_sync(
        tmp_path, more, said):
    run = Run(tmp_path / "run", job({"type": "sync"}, crashing("--optimizer", "momentum", *more)))
    assert run.code != 0 and said in run.log


def test_a_crash_in_an_evaluation_does_not_lose_the_evaluation(tmp_path):
    for strategy in ("local-sgd", "asgd"):
        run = Run(tmp_path / strategy,
                  job({"type": strategy},
                      ["--fault", "crash", "--times", 1, "--on", 0, "--point", "evaluation"]),
                  in_turns(tmp_path, {"type": strategy}))
        assert [e["accuracy"] for e in run.evaluations] == [0.25, 0.375], run.log[-3000:]
