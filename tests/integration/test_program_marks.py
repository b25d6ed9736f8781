"""A program that changes parameters beside its optimizer (worker/program/step/marks.c): harmless
where all ranks do the same, else found and named."""
import pytest

from test_program import Run, in_turns, job, name_of

SENTENCE = (
    "has other parameters than the others after step 8, first in 'first.bias': it changes them "
    "between steps in a way of its own")
LOST = "parameters that the program changes between steps are lost"
SERVERS = [{"type": "asgd"}, {"type": "hpsgd", "k": 2}]


def changing(tmp_path, strategy, rank, sizes=(32, 16, 16), args=()):
    return Run(tmp_path / "run",
               job(strategy, ["--change", rank, "--after", 5, *args], sizes=sizes),
               in_turns(tmp_path, strategy, len(sizes)))


@pytest.mark.parametrize("rank", [0, 2])
def test_ranks_that_drift_apart_under_sync_end_the_job_with_the_one_that_did(tmp_path, rank):
    run = changing(tmp_path, {"type": "sync"}, rank)
    assert run.code != 0
    assert f"the program of rank {rank} on 'local-{rank + 1}' {SENTENCE}" in run.log
    told = [line for line in run.log.splitlines() if SENTENCE in line]
    assert len(told) == 1 and "code=program" in told[0], "another rank is blamed as well"


def test_of_two_ranks_both_are_named(tmp_path):
    run = changing(tmp_path, {"type": "sync"}, 1, sizes=(32, 32))
    assert run.code != 0 and SENTENCE in run.log


@pytest.mark.parametrize("strategy", [{"type": "sync"}, {"type": "local-sgd", "k": 2}], ids=name_of)
def test_a_change_that_all_make_alike_is_harmless(tmp_path, strategy):
    run = changing(tmp_path, strategy, -2)
    assert run.code == 0 and SENTENCE not in run.log and LOST not in run.log, run.log[-3000:]


@pytest.mark.parametrize("args", [(), ("--optimizer", "adaptive")],
                         ids=["gradients", "differences"])
@pytest.mark.parametrize("strategy", SERVERS, ids=name_of)
def test_where_others_make_the_step_a_change_is_lost_and_the_log_says_so_once(
        tmp_path, strategy, args):
    run = changing(tmp_path, strategy, 0, sizes=(32, 32), args=("--samples", 1024, *args))
    assert run.code == 0, run.log[-3000:]
    assert run.log.count(LOST) == 1 and 'tensor="first.bias"' in run.log and "rank=0" in run.log
    still = Run(tmp_path / "still", job(strategy, ["--samples", 1024, *args], sizes=(32, 32)))
    assert still.code == 0 and LOST not in still.log
