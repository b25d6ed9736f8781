"""PyTorch programs on two unequal ranks give the parameters of the program that runs alone.

700 and 500 of 1,200 samples, 60 steps. The bounds are a few times what was measured, which is
rounding: the sum of two means is another order of additions. In bfloat16 each rank's gradient is
rounded before it is summed.
"""

import pytest

from compare import bit_identical, difference

UNEQUAL = [700, 500]
CASES = {
    "sgd_momentum": 5e-7,
    "adamw": 2e-5,
    "clipping": 5e-7,
    "groups_and_scheduler": 5e-6,
    "scaler": 8e-3,
    "odd_parameters": 5e-6,
    "unfrozen_within_a_step": 5e-7,
    "channels_last": 5e-7,
    "compiled": 5e-7,
    "moved": 5e-7,
    "bfloat16": 4e-2,
    "two_backwards": 5e-7,
    "two_optimizers": 2e-5,
    "checkpointed": 5e-7,
    "double_backward": 5e-7,
    "sparse": 2e-5,
    "sum_reduced": 5e-7,
    "token_weights": 5e-7,
}


@pytest.mark.parametrize("case", CASES)
def test_unequal_ranks_equal_the_program_alone(torch_programs, run_programs, case):
    alone = run_programs(torch_programs, "torch_cases", case)
    job = run_programs(torch_programs, "torch_cases", case, UNEQUAL, epochs=60)
    assert bit_identical(job.results)
    found = difference(job.results[0], alone.results[0])
    print("%s: %.1e" % (case, found))
    assert found < CASES[case]
    assert job.ranks.rounds == {"two_backwards": 120, "two_optimizers": 180}.get(case, 60)


@pytest.mark.parametrize("case", ["accumulation", "accumulation_no_sync",
                                  "accumulation_unused"])
@pytest.mark.parametrize("shares", ["steady", "changing"])
def test_accumulated_gradients_equal_those_of_the_program_alone(
    torch_programs, run_programs, case, shares
):
    """Shares that change within a step are weighed by what each batch had."""
    of_step = {"steady": [70, 30], "changing": lambda step: [70 - step % 30, 30 + step % 30]}
    alone = run_programs(torch_programs, "torch_cases", case)
    job = run_programs(torch_programs, "torch_cases", case, of_step[shares], epochs=10)
    assert bit_identical(job.results)
    assert difference(job.results[0], alone.results[0]) < 5e-7
    assert job.ranks.rounds == 10 * 12


@pytest.mark.parametrize("shares", ["unequal", "changing", "none"])
def test_minibatches_equal_those_of_the_program_alone(torch_programs, run_programs, shares):
    """1,200 samples in batches of 64: the last one is smaller. "none": a rank without samples."""
    of_step = {
        "unequal": [45, 19],
        "changing": lambda step: [10 + 3 * (step % 15), 54 - 3 * (step % 15)],
        "none": lambda step: [1, 0] if step % 3 else [1, 2],
    }
    alone = run_programs(torch_programs, "torch_cases", "minibatches")
    job = run_programs(torch_programs, "torch_cases", "minibatches", of_step[shares], epochs=3)
    assert bit_identical(job.results)
    assert difference(job.results[0], alone.results[0]) < 5e-7
    assert sum(s["samples"] for side in job.sides for s in side.steps) == 3 * 1200


def test_statistics_of_batch_norm_are_averaged(torch_programs, run_programs):
    """Parameters follow each rank's own minibatch, so they are near and not equal; a sum over ranks
    of another minibatch would not be."""
    alone = run_programs(torch_programs, "torch_cases", "batch_norm")
    job = run_programs(torch_programs, "torch_cases", "batch_norm", UNEQUAL, epochs=60)
    for result in job.results:
        assert result.pop("norm.num_batches_tracked") == 60
    alone.results[0].pop("norm.num_batches_tracked")
    assert bit_identical(job.results)
    assert difference(job.results[0], alone.results[0]) < 0.05
