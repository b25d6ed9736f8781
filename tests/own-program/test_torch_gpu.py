"""A GPU's gradients, on a stream and events that do as late as they may what CUDA's do
(torch_cases/gpu.py). None of it shows that CUDA does what is asked of it (docs/gpu.md)."""

import pytest

from compare import bit_identical, difference


@pytest.mark.parametrize("case", ["gpu", "gpu_one_event", "gpu_failed_pass"])
def test_copies_that_come_late_are_waited_for(torch_programs, run_programs, case):
    alone = run_programs(torch_programs, "torch_cases", case)
    job = run_programs(torch_programs, "torch_cases", case, [700, 500], epochs=60)
    assert bit_identical(job.results)
    assert difference(job.results[0], alone.results[0]) < 5e-6
    assert job.ranks.rounds == 60


def test_a_server_gets_the_difference_that_a_gpus_step_made(torch_programs, run_programs):
    alone = run_programs(torch_programs, "torch_cases", "gpu")
    job = run_programs(torch_programs, "torch_cases", "gpu", [1], epochs=60, mode="difference")
    assert difference(job.results[0], alone.results[0]) < 2e-5
