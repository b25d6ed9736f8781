"""What the rank answers after a backward pass, the program's own state, and what ends badly."""

import subprocess

import numpy as np
import pytest

from compare import bit_identical, difference
from conftest import python_with
from real_rank import run_local


def test_a_program_that_runs_alone_is_untouched(torch_programs, run_programs):
    run_programs(torch_programs, "torch_cases", "alone_is_untouched")


@pytest.mark.parametrize(
    "mode, case",
    [
        ("server", "plain_sgd"),
        ("difference", "sgd_momentum"),
        ("difference", "two_backwards"),
        ("difference", "two_optimizers"),
    ],
)
def test_one_rank_with_a_server_equals_the_program_alone(torch_programs, run_programs, mode, case):
    """A server that applies the gradient, or the difference that the step made, at once."""
    alone = run_programs(torch_programs, "torch_cases", case)
    job = run_programs(torch_programs, "torch_cases", case, [1], epochs=60, mode=mode)
    assert difference(job.results[0], alone.results[0]) < 2e-6


def test_a_server_takes_gradients_from_two_ranks(torch_programs, run_programs):
    job = run_programs(torch_programs, "torch_cases", "plain_sgd", [3, 1], epochs=60, mode="server")
    assert job.sides[0].about["optimizer"] == {
        "type": "sgd",
        "name": "SGD",
        "learning_rate": 0.05,
        "momentum": 0.9,
        "weight_decay": 0.0,
        "nesterov": False,
    }
    assert all(len(side.steps) == 60 for side in job.sides)
    losses = [s["loss"] for s in job.sides[0].steps]
    assert losses[-1] < 0.5 * losses[0]


def test_a_server_is_not_asked_for_a_momentum_that_a_schedule_moves(torch_programs, run_programs):
    """The difference is sent; where the program sets it by hand, the log says once that it has no
    effect."""
    for case in ("one_cycle", "one_cycle_of_its_own"):
        job = run_programs(torch_programs, "torch_cases", case, [3, 1], epochs=4, mode="difference")
        assert job.sides[0].about["optimizer"]["type"] == "other" and "no effect" not in job.logs[0]
    job = run_programs(torch_programs, "torch_cases", "momentum_by_hand", [3, 1], epochs=4,
                       mode="server")
    assert job.sides[0].about["optimizer"]["type"] == "sgd"
    assert [log.count("in place of 0.95 has no effect") for log in job.logs] == [1, 1]


def test_averaging_changes_parameters_when_the_next_slice_begins(torch_programs, run_programs):
    job = run_programs(
        torch_programs, "torch_cases", "sgd_momentum", [700, 500], epochs=60, mode="average"
    )
    assert bit_identical(job.results)
    alone = run_programs(torch_programs, "torch_cases", "sgd_momentum")
    assert difference(job.results[0], alone.results[0]) < 0.05


def test_loss_rate_and_metrics_reach_the_rank(torch_programs, run_programs):
    job = run_programs(torch_programs, "torch_cases", "with_state", [2, 1], epochs=2)
    assert job.sides[0].logs == [{"test_accuracy": 0.5, "batches": 8.0}]
    assert job.sides[0].epochs == 2
    assert [s["rate"] for s in job.sides[0].steps] == [1e-3] * 3 + [5e-4] * 3 + [2.5e-4] * 2
    assert all(0.5 < s["loss"] < 4 for s in job.sides[0].steps)
    scaled = run_programs(torch_programs, "torch_cases", "scaler", [1], epochs=60)
    assert 1 < scaled.sides[0].steps[0]["loss"] < 2


def test_the_programs_state_comes_back_after_a_restart(torch_programs, run_programs):
    """Two epochs of four steps; then two more from the state that was saved at their end."""
    first = run_programs(torch_programs, "torch_cases", "with_state", [2, 1], epochs=2,
                         save_every=4)
    states = [side.state for side in first.sides]
    assert all(states)
    again = run_programs(
        torch_programs, "torch_cases", "with_state", [2, 1], epochs=2, states=states
    )
    assert [r["adam_steps"] for r in again.results] == [16, 16]
    assert [r["batches"] for r in again.results] == [16, 16]
    assert again.results[0]["rate"] == pytest.approx(1e-3 / 2**5)  # it falls every 3 steps
    assert again.results[0]["2.num_batches_tracked"] == 16
    assert first.results[0]["draw"] != again.results[0]["draw"]


def test_torch_load_reads_the_state(torch_programs, run_programs, tmp_path):
    job = run_programs(torch_programs, "torch_cases", "with_state", [2, 1], epochs=2, save_every=4)
    file = tmp_path / "state.pt"
    file.write_bytes(job.sides[0].state)
    code = "import sys, torch; print(sorted(torch.load(sys.argv[1], weights_only=True)))"
    shown = subprocess.run(
        [python_with("torch"), "-c", code, str(file)], capture_output=True, text=True
    ).stdout
    assert shown.strip() == (
        "['buffers', 'habits', 'optimizer', 'others', 'place', 'random', 'scheduler']")


def test_a_stopped_job_ends_the_loop(torch_programs, run_programs):
    job = run_programs(torch_programs, "torch_cases", "sgd_momentum", [1, 1], epochs=60, stop_at=5)
    assert [len(side.steps) for side in job.sides] == [5, 5]


FAULTS = {
    "replaced": "parameter '0.weight' was replaced after prepare",
    "second_phase_with_less": "prepare() was called once more with a loader of 600 samples",
    "keeps_batches": "itertools.cycle(loader) keeps old batches and asks for no new ones",
    "growing": "the loader had 64 samples at prepare() and has 96 now",
    "unprepared_loader": "batches come from the loader that prepare() returned",
    "gives_gradients": "is summed by torch.autograd.backward(params, grads)",
    "takes_two_ahead": "while two before it had no backward pass",
    "takes_pairs": "while two before it had no backward pass",
    "drops_its_last": "while two before it had no backward pass",
    "passes_over_one_in_hand": "while two before it had no backward pass",
    "takes_ahead_in_its_second_loop": "each taken after the step of the one before",
    "bare_parameter": "torch.nn.ParameterList([p]) is one of a bare parameter p",
    "wraps_what_is_prepared": "leave it and init_process_group() out, or leave prepare() out "
                              "and run the program by `evenstep run --ddp`",
    "no_backward": "no batch of the epoch had a backward pass",
    "evaluates_with_gradients": "none of 100 batches had a backward pass",
    "crashes": "ValueError: the learning rate of layer 3 is a string",
}


@pytest.mark.parametrize("case", FAULTS)
def test_what_cannot_work_is_told_in_a_sentence(torch_programs, run_programs, case):
    job = run_programs(torch_programs, "torch_cases", case, [1], epochs=200, fails=True)
    assert job.codes == [1]
    assert FAULTS[case] in job.logs[0]
    assert FAULTS[case] in job.sides[0].failure


def test_a_loop_without_a_backward_pass_is_told_so_under_a_server(torch_programs, tmp_path):
    """There a node learns after the epoch's last slice that it was the last."""
    command = torch_programs.command("torch_cases", "no_backward", tmp_path / "rank")
    done = run_local(command, [600, 600], {"type": "asgd"}, tmp_path)
    assert done.returncode != 0 and "had a backward pass" in done.stderr


def test_a_loop_may_pass_over_its_first_batch(torch_programs, run_programs):
    job = run_programs(torch_programs, "torch_cases", "passes_over_batches", [1], epochs=2)
    assert [s["flags"] for s in job.sides[0].steps] == [4096, 0, 0, 0] * 2


def test_a_backward_pass_that_raises_voids_the_step_everywhere(torch_programs, run_programs):
    job = run_programs(torch_programs, "torch_cases", "fails_in_backward", [1, 1], epochs=4)
    assert [s["flags"] for s in job.sides[0].steps] == [0, 4096, 0, 0]
    assert bit_identical(job.results)
    assert all(np.isfinite(v).all() for v in job.results[0].values())


def test_a_schedule_by_batches_is_where_the_run_is_however_many_a_node_makes(torch_programs,
                                                                             run_programs):
    """Under a server. A fast node makes 8 steps where the schedule has 4, a slow one 2."""
    told = run_programs(torch_programs, "torch_cases", "paced_schedules").logs[0].splitlines()
    assert told == [
        "fast [0, 1, 1, 2, 2, 3, 3, 4]",
        "slow [0, 2]",
        "every second [0, 1, 1, 2]",
        "one after the other [0, 1, 1, 2, 2, 3, 3, 4]",
        "after the loop 5",
        "by fractions [0.0, 0.25, 0.5, 0.75, 1.25, 1.5, 1.75, 2.0]",
    ]
