"""A worker is killed while another one's program is started again. Real processes and kill -9."""
import os
import secrets
import signal

import pytest

from service import Service, ranks_of, until
from test_lost_worker import NODES, SAMPLES, STEPS, assert_exact, kill
from test_program import COUNTING
from test_returned_worker import ranks_log


@pytest.fixture
def service():
    with Service(nodes=NODES, options=["--allow-programs"]) as s:
        yield s


def run_killed(service, point, *more, strategy="sync"):
    """In slice 7 of rank 1 its program is killed; the next process waits for the file."""
    again = service.dir / f"again-{secrets.token_hex(8)}"
    args = ["--samples", SAMPLES, "--reduction", "sum", "--rate", 1 / 512, "--fault", "killed",
            "--on", 1, "--times", 1, "--after", 7, "--point", point, "--everyone", "--state",
            "--again-when", again, *more]
    id = service.submit({
        "program": {"command": ["/usr/bin/python3", str(COUNTING)], "args": [str(a) for a in args]},
        "workers": 4, "epochs": 2, "strategy": {"type": strategy},
        "batching": {"global_batch": 64, "policy": "equal"}, "checkpoint": {"every_steps": 3}})
    until("all ranks run", lambda: len(ranks_of(id)) == 5)
    until("the program is started again", lambda: "is started again" in ranks_log(service, id))
    return id, again


# rank 0 gives parameters and state; with "step" they are due before the next step
@pytest.mark.parametrize("rank,point", [(0, "half"), (2, "half"), (2, "step")])
def test_a_step_of_sync_that_waits_for_a_program_and_loses_a_worker_ends_the_attempt(
        service, rank, point):
    """The job continues from its checkpoint, and each sample counts once."""
    id, again = run_killed(service, point)
    until("the step waits", lambda: "the step waits for a program" in ranks_log(service, id))
    kill(id, rank)
    again.touch()
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 2
    assert "a worker was lost while the program of another one came back" in ranks_log(service, id)
    assert_exact(service, id, job, range(4))


@pytest.mark.parametrize("strategy", ["local-sgd", "dbs-sgd"])
def test_others_do_not_wait_for_that_program_where_each_makes_its_own_steps(service, strategy):
    id, again = run_killed(service, "half", strategy=strategy)
    kill(id, 2)
    again.touch()
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1
    assert job["progress"]["samples"] == 2 * SAMPLES


def test_what_a_program_gave_before_it_ended_counts_in_a_step_that_loses_a_worker(service):
    """Rank 1's program ends after it has handed over all gradients except the last. The worker of
    rank 2 dies in its own pass, so the step is summed again."""
    id, again = run_killed(service, "half", "--stays", 2)
    kill(id, 2)
    again.touch()
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1
    assert_exact(service, id, job, (0, 1, 3))


def test_a_step_that_waits_for_its_sum_stays_as_its_rank_tells_of_the_best_evaluation(service):
    """Rank 0 is killed while a stopped keeper does not take the best network from it. Rank 1 is
    then the first worker, and gives it during the following step, in which its program waits."""
    args = ["--samples", SAMPLES, "--reduction", "sum", "--rate", 1 / 512, "--everyone", "--state",
            "--pause", 0.05]
    id = service.submit({
        "program": {"command": ["/usr/bin/python3", str(COUNTING)], "args": [str(a) for a in args]},
        "workers": 4, "epochs": 2, "strategy": {"type": "sync"},
        "batching": {"global_batch": 64, "policy": "equal"}})

    def begun(rank):
        seen = service.dir / "jobs" / id / "artifacts" / f".seen-{rank}"
        return seen.exists() and seen.read_bytes().count(b"\n")
    until("the first epoch's last step is begun", lambda: begun(3) >= STEPS, every=0.001)
    ranks = ranks_of(id)
    os.kill(ranks[4], signal.SIGSTOP)
    until("all have evaluated, and wait for the keeper",
          lambda: ranks_log(service, id).count('name="test_loss"') == 4, every=0.01)
    os.kill(ranks[0], signal.SIGKILL)
    until("the death is seen", lambda: "a worker is lost" in service.text())
    os.kill(ranks[4], signal.SIGCONT)
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1
    assert_exact(service, id, job, [1, 2, 3])


def evaluations(service, id):
    return service.get(f"jobs/{id}/evaluations").json()["evaluations"]


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("strategy", [{"type": "sync"}, {"type": "local-sgd", "k": 2},
                                      {"type": "hpsgd", "k": 2}], ids=lambda s: s["type"])
def test_a_worker_is_lost_while_programs_measure_in_each_step(service, strategy, rank):
    """All ranks evaluate after each step, or average, and agree on it also while they lose one."""
    args = ["--samples", SAMPLES, "--reduction", "sum", "--rate", 1 / 512, "--everyone", "--state",
            "--pause", 0.02, "--measure", 1, "--measure-on", 0, 1, 2, 3]
    id = service.submit({
        "program": {"command": ["/usr/bin/python3", str(COUNTING)], "args": [str(a) for a in args]},
        "workers": 4, "epochs": 2, "strategy": strategy,
        "batching": {"global_batch": 64, "policy": "equal"}})
    until("steps were measured", lambda: len(evaluations(service, id)) >= 3)
    kill(id, rank)
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1 and job["progress"]["samples"] == 2 * SAMPLES
    steps = [e["step"] for e in evaluations(service, id)]
    assert len(steps) >= STEPS / 2 and steps == sorted(steps)
