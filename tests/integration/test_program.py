"""A user's own program in place of our trainer, over real MPI (evenstep-worker --local).
tests/program/counting.py speaks the protocol itself; its gradients are whole numbers over powers of
two and do not depend on the parameters, so that every strategy ends at the same parameters, bit for
bit:
    first - rate / B * (sum of all samples' gradients, each epoch once)"""
import csv
import json
import os
import subprocess

import numpy as np
import pytest

import rowtable
from programs import AT_ROOT, BUILD, ROOT
from test_exchange import tensors

COUNTING = ROOT / "tests/program/counting.py"
SAMPLES, BATCH, RATE, PARAMETERS = 256, 64, 0.125, 40 * 50 + 40 + 10 * 40 + 10
STRATEGIES = [{"type": "sync"}, {"type": "asgd"}, {"type": "softsync", "n": 1},
              {"type": "dbs-sgd", "c": 2}, {"type": "ssp", "s": 1},
              {"type": "asgd", "servers": 2}, {"type": "local-sgd", "k": 2},
              {"type": "hier-sgd", "k1": 1, "k2": 2}, {"type": "hpsgd", "k": 2}]


def name_of(strategy):
    return "-".join(str(v) for v in strategy.values())


def job(strategy, args=(), sizes=(32, 16, 16), **changes):
    return {"program": {"command": ["/usr/bin/python3", str(COUNTING)],
                        "args": [str(a) for a in args], "patience_seconds": 60},
            "workers": len(sizes), "epochs": 2, "strategy": strategy,
            "batching": {"policy": "static", "sizes": list(sizes)}, "seed": 7, **changes}


def in_turns(folder, strategy, ranks=3, rounds=6):
    """Options with which a server takes the first gradients from all ranks in turn, of each one in
    a round; four rounds are an epoch. Otherwise the ranks that started first could train on all
    samples before another comes to its fault, or on all of an epoch whose end rank 0's program is
    to measure."""
    if strategy["type"] not in ("asgd", "softsync", "dbs-sgd", "ssp"):
        return []
    (folder / "order.json").write_text(json.dumps(list(range(ranks)) * rounds))
    return ["--order", str(folder / "order.json")]


class Run:
    def __init__(self, folder, spec, options=(), program=BUILD / "evenstep-worker"):
        folder.mkdir(exist_ok=True)
        (folder / "job.json").write_text(json.dumps(spec))
        done = subprocess.run([str(program), "--local", str(folder / "job.json"), "--out",
                               str(folder), *options], env={**os.environ, **AT_ROOT},
                              capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        self.code, self.log, self.folder = done.returncode, done.stderr, folder
        lines = list(csv.reader(done.stdout.splitlines()))
        self.rows = rowtable.printed(lines)
        self.joined = next((l[1:] for l in lines if l and l[0] == "joined"), None)
        self.evaluations = [dict(epoch=float(l[2]), loss=float(l[4]), accuracy=float(l[5]))
                            for l in lines if l and l[0] == "evaluation"]
        self.ranks = [json.loads((folder / f"artifacts/rank-{r}.json").read_text())
                      for r in range(spec["workers"])
                      if (folder / f"artifacts/rank-{r}.json").exists()]

    def model(self):
        assert self.code == 0, self.log[-3000:]
        return tensors(self.folder / "artifacts/model.safetensors")

    def seen(self, epoch):
        return sorted(i for rank in self.ranks for i in rank["seen"].get(str(epoch), []))


def first_parameters():
    return (np.arange(PARAMETERS) % 5).astype("f4")


def gradient(samples):
    return sum(((int(i) * 7 + np.arange(PARAMETERS, dtype="i8") * 3) % 17 - 8).astype("f8")
               for i in samples)


def in_file_order(flat):
    """`tensors` puts them in the order of their names."""
    parts = {"first.weight": flat[:2000], "first.bias": flat[2000:2040],
             "second.weight": flat[2040:2440], "second.bias": flat[2440:]}
    return np.concatenate([parts[k] for k in sorted(parts)])


def expected(epochs=2):
    return in_file_order((first_parameters() - RATE / BATCH * epochs * gradient(range(SAMPLES)))
                         .astype("f4"))


def without_statistics(model):
    # "mean", of three floats, stands between first.… and second.…
    return np.concatenate([model[:2040], model[2043:]])


@pytest.mark.parametrize("strategy", STRATEGIES, ids=name_of)
def test_every_strategy_trains_on_each_sample_once_an_epoch_and_ends_at_the_exact_parameters(
        tmp_path, strategy):
    run = Run(tmp_path / "run", job(strategy))
    assert (without_statistics(run.model()) == expected()).all()
    assert run.seen(0) == run.seen(1) == list(range(SAMPLES))
    assert sum(r["batch"] for r in run.rows) == 2 * SAMPLES


def test_sync_with_unequal_minibatches_is_what_one_process_computes_with_the_whole_batch(tmp_path):
    run = Run(tmp_path / "run", job({"type": "sync"}, ["--curved"]))
    model = without_statistics(run.model())
    params = first_parameters()
    for epoch in "01":
        for step in range(SAMPLES // BATCH):
            batch = [i for r, size in zip(run.ranks, (32, 16, 16))
                     for i in r["seen"][epoch][step * size:(step + 1) * size]]
            params -= np.float32(RATE) * ((gradient(batch) / BATCH).astype("f4") + np.float32(0.25)
                                          * params)
    assert np.allclose(model, in_file_order(params), rtol=1e-6, atol=1e-6)
    assert all(r["params"] == run.ranks[0]["params"] for r in run.ranks)


@pytest.mark.parametrize("ahead", [1, 2, 5, 64])
def test_slices_come_as_far_ahead_as_the_loader_asks_for(tmp_path, ahead):
    run = Run(tmp_path / "run", job({"type": "sync"}, ["--ahead", ahead]))
    assert (without_statistics(run.model()) == expected()).all() and run.seen(1) == list(
        range(SAMPLES))


def test_an_epoch_that_is_no_multiple_of_the_batch_has_all_its_samples(tmp_path):
    for strategy in ("sync", "asgd"):
        run = Run(tmp_path / strategy, job({"type": strategy}, ["--samples", 200]))
        assert run.code == 0, run.log[-3000:]
        assert run.seen(0) == run.seen(1) == list(range(200))


def test_a_rank_without_samples_in_a_step_takes_part_in_it(tmp_path):
    run = Run(tmp_path / "run", job({"type": "sync"}, ["--samples", 65], sizes=(62, 1, 1)))
    assert run.code == 0, run.log[-3000:]
    assert run.seen(0) == list(range(65)) and any(r["batch"] == 0 for r in run.rows)
    assert all(r["params"] == run.ranks[0]["params"] for r in run.ranks)


@pytest.mark.parametrize("strategy",
                         [{"type": "asgd"}, {"type": "dbs-sgd"}, {"type": "hpsgd", "k": 1}],
                         ids=name_of)
def test_an_optimizer_that_the_server_cannot_make_pushes_the_difference_of_its_own_step(
        tmp_path, strategy):
    run = Run(tmp_path / "run", job(strategy, ["--optimizer", "adaptive"], sizes=(64,)))
    # one worker: the server's factor is 1, so its own step is everybody's
    params = first_parameters()
    for epoch in "01":
        for step in range(SAMPLES // BATCH):
            params -= np.float32(RATE) * np.sign(
                gradient(run.ranks[0]["seen"][epoch][step * BATCH:(step + 1) * BATCH])).astype("f4")
    assert (without_statistics(run.model()) == in_file_order(params)).all()
    assert run.seen(0) == run.seen(1) == list(range(SAMPLES))


def test_an_optimizer_of_the_user_steps_in_sync_on_the_summed_gradients(tmp_path):
    run = Run(tmp_path / "run", job({"type": "sync"}, ["--optimizer", "adaptive"]))
    params = first_parameters()
    for epoch in "01":
        for step in range(SAMPLES // BATCH):
            batch = [i for r, size in zip(run.ranks, (32, 16, 16))
                     for i in r["seen"][epoch][step * size:(step + 1) * size]]
            params -= np.float32(RATE) * np.sign(gradient(batch)).astype("f4")
    assert (without_statistics(run.model()) == in_file_order(params)).all()


def test_delay_compensation_has_no_meaning_for_a_difference_and_says_so(tmp_path):
    run = Run(tmp_path / "run", job({"type": "dc-asgd"}, ["--optimizer", "adaptive"]))
    assert run.code != 0 and "compensates gradients for their delay" in run.log


def test_what_the_program_logs_is_an_evaluation(tmp_path):
    for strategy in ("sync", "local-sgd", "asgd"):
        run = Run(tmp_path / strategy, job({"type": strategy}),
                  in_turns(tmp_path, {"type": strategy}))
        assert [e["accuracy"] for e in run.evaluations] == [0.25, 0.375], run.log[-3000:]


def test_an_exception_after_the_last_step_ends_the_job_at_once(tmp_path):
    run = Run(tmp_path / "run", job({"type": "sync"}, ["--fault", "failed", "--after", 7, "--on", 1,
                                                       "--point", "evaluation"]))
    assert run.code != 0 and 'msg="is started again"' not in run.log
    assert "after its last step: the program of rank 1 on" in run.log


def test_an_accuracy_that_the_program_logs_reaches_the_target(tmp_path):
    run = Run(tmp_path / "run", job({"type": "sync"}, epochs=50, target={"test_accuracy": 0.5}))
    assert run.code == 0, run.log[-3000:]
    assert [e["accuracy"] for e in run.evaluations] == [0.25, 0.375, 0.5]


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
            and "is not what was written" in run.log)


def test_more_workers_than_a_checkpoint_was_made_with_get_the_states_of_its_first_ones(tmp_path):
    spec = job({"type": "sync"}, [*MOMENTUM, "--fault", "rank", "--after", 6], epochs=4,
               sizes=(32, 32), checkpoint={"every_steps": 1})
    assert Run(tmp_path / "run", spec).code != 0
    run = Run(tmp_path / "run", job({"type": "sync"}, MOMENTUM, epochs=4))
    whole = Run(tmp_path / "whole", job({"type": "sync"}, MOMENTUM, epochs=4)).model()
    # the sums are of other parts, and rounded otherwise
    assert np.allclose(without_statistics(run.model()), without_statistics(whole), rtol=1e-5,
                       atol=1e-5)
    assert run.log.count("state of rank 0") == 2 and run.log.count("state of rank 1") == 1


SERVERS = [{"type": "asgd"}, {"type": "softsync", "n": 1}, {"type": "asgd", "servers": 2}]


@pytest.mark.parametrize("after", [5, 8])
@pytest.mark.parametrize("strategy", SERVERS, ids=name_of)
def test_a_program_under_a_server_goes_on_exactly_where_it_was(tmp_path, strategy, after):
    """One worker: of several the order is another one each time."""
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
    """Rank 0 has a slice of each of the three epochs: nine rounds are two epochs and one more."""
    run = Run(tmp_path / "run", job(strategy, epochs=50, target={"test_accuracy": 0.5}),
              in_turns(tmp_path, strategy, rounds=9))
    assert run.code == 0, run.log[-3000:]
    assert [e["accuracy"] for e in run.evaluations] == [0.25, 0.375, 0.5]
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


def crashing(*more):
    return ["--fault", "crash", "--times", 1, "--on", 1, *more]


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
    """With momentum, which comes from another rank's program; of several buckets some have left
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


@pytest.mark.parametrize("fault", ["killed", "exit", "hang", "loop", "failed"])
def test_other_ends_of_a_program_are_survived_too(tmp_path, fault):
    spec = job({"type": "asgd"}, ["--fault", fault, "--times", 1, "--on", 1, "--point", "begun"])
    if fault in ("hang", "loop"):  # what ends by itself needs no patience
        spec["program"]["patience_seconds"] = 5
    run = Run(tmp_path / "run", spec, in_turns(tmp_path, spec["strategy"]))
    assert ((without_statistics(run.model()) == expected()).all()
            and run.ranks[1]["incarnation"] == 1)
    said = [line for line in run.log.splitlines() if 'msg="is started again"' in line]
    words = {"killed": "where memory runs out", "exit": "exit code 3",
             "hang": "neither reported nor computed",
             "loop": "not come to the end of a step in time", "failed": "nothing to go on with"}
    assert len(said) == 1 and words[fault] in said[0], said


@pytest.mark.parametrize("strategy", [{"type": "asgd"}, {"type": "local-sgd", "k": 2}], ids=name_of)
def test_three_crashes_in_a_row_end_the_job_with_the_programs_last_lines(tmp_path, strategy):
    run = Run(tmp_path / "run", job(strategy, ["--fault", "exit", "--on", 1]),
              in_turns(tmp_path, strategy))
    assert run.code != 0 and run.log.count('msg="is started again"') == 2
    said = [line for line in run.log.splitlines() if "level=error" in line
            and "three times in a row" in line]
    assert (said and "rank 1 on 'local-2' ended with exit code 3" in said[0]
            and "about to exit" in said[0]), run.log[-3000:]


def test_crashes_with_good_steps_between_them_go_on(tmp_path):
    run = Run(tmp_path / "run",
              job({"type": "local-sgd"}, ["--fault", "crash", "--every", 11, "--on", 0], epochs=9))
    assert ((without_statistics(run.model()) == expected(9)).all()
            and run.ranks[0]["incarnation"] == 3)


def test_a_program_that_comes_back_as_another_one_ends_the_job(tmp_path):
    spec = job({"type": "asgd"}, crashing("--becomes-another"))
    run = Run(tmp_path / "run", spec, in_turns(tmp_path, spec["strategy"]))
    assert (run.code != 0 and "is not the one that joined" in run.log
            and "tensor 'first.bias'" in run.log)


def test_a_crash_before_the_first_step_ends_the_job_at_once(tmp_path):
    run = Run(tmp_path / "run", job({"type": "asgd"}, ["--fault", "exit", "--after", 0, "--on", 1]))
    assert (run.code != 0 and "is started again" not in run.log
            and "ended with exit code 3; its last lines" in run.log)


def test_a_second_process_is_refused_and_the_first_goes_on(tmp_path):
    run = Run(tmp_path / "run", job({"type": "sync"}, ["--fault", "twice"]))
    assert (without_statistics(run.model()) == expected()).all()
    assert "has joined already" in run.log


def test_the_program_gets_an_environment_of_its_own(tmp_path):
    show = tmp_path / "show.py"
    show.write_text("import os\nopen(__file__ + '.env', 'w').write(repr(dict(os.environ)))\n")
    spec = job({"type": "sync"}, sizes=(64,))
    spec["program"] = {"command": ["/usr/bin/python3", str(show)], "env": {"MINE": "yes"}}
    os.environ["EVENSTEP_STORE_PASSWORD"] = "secret"
    try:
        run = Run(tmp_path / "run", spec)
    finally:
        del os.environ["EVENSTEP_STORE_PASSWORD"]
    assert run.code != 0  # it left without joining
    env = eval((tmp_path / "show.py.env").read_text())
    assert env["MINE"] == "yes" and env["OMP_NUM_THREADS"] == "1"
    assert env["EVENSTEP_WORLD_SIZE"] == "1" and "MALLOC_TRIM_THRESHOLD_" in env
    assert "secret" not in repr(env)
    assert not [k for k in env if k.startswith(("OMPI_COMM", "PMIX_"))]


def test_a_program_that_is_not_there_is_one_sentence(tmp_path):
    spec = job({"type": "sync"})
    spec["program"] = {"command": ["/no/such/program"]}
    run = Run(tmp_path / "run", spec)
    assert run.code != 0 and "cannot start the program '/no/such/program'" in run.log


def test_a_global_batch_that_differs_from_the_loaders_is_refused(tmp_path):
    spec = job({"type": "sync"})
    spec["batching"] = {"global_batch": 60, "policy": "equal"}
    run = Run(tmp_path / "run", spec)
    assert run.code != 0 and "global batch of 60" in run.log and "batch of 64" in run.log
