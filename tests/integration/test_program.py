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
    """Options that make a server take the first gradients of all ranks in turn, one of each per
    round; four rounds are an epoch. Otherwise ranks that started first could train on all samples
    before another reaches its fault, or on the whole epoch whose end rank 0's program is to
    measure."""
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
    """`tensors` sorts them by name."""
    parts = {"first.weight": flat[:2000], "first.bias": flat[2000:2040],
             "second.weight": flat[2040:2440], "second.bias": flat[2440:]}
    return np.concatenate([parts[k] for k in sorted(parts)])


def expected(epochs=2):
    return in_file_order((first_parameters() - RATE / BATCH * epochs * gradient(range(SAMPLES)))
                         .astype("f4"))


def without_statistics(model):
    # "mean", of three floats, comes between first.… and second.…
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
    # one worker: the server's factor is 1, so its own step is the shared one
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


@pytest.mark.parametrize("fault", ["killed", "exit", "hang", "loop", "failed"])
def test_other_ends_of_a_program_are_survived_too(tmp_path, fault):
    spec = job({"type": "asgd"}, ["--fault", fault, "--times", 1, "--on", 1, "--point", "begun"])
    if fault in ("hang", "loop"):  # a program that ends by itself needs no patience
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


def crashing(*more):
    return ["--fault", "crash", "--times", 1, "--on", 1, *more]


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
