"""Which samples a PyTorch program sees: each once an epoch over all ranks, whatever the loader."""

from collections import Counter

import numpy as np
import pytest

SHARES = [20, 12]


def once_an_epoch(job, epochs=3, samples=200):
    seen = Counter(np.concatenate([r["seen"] for r in job.results]).tolist())
    assert seen == {float(i): epochs for i in range(samples)}


def test_a_shuffled_loader_with_workers_sees_each_sample_once(torch_programs, run_programs):
    job = run_programs(torch_programs, "torch_cases", "shuffled_with_workers", SHARES, epochs=3)
    once_an_epoch(job)
    assert job.results[0]["sizes"].tolist() == ([20] * 6 + [5]) * 3
    assert job.results[1]["sizes"].tolist() == ([12] * 6 + [3]) * 3
    assert job.results[0]["length"] == 7
    assert job.sides[0].about["ahead"] == 7
    assert not np.array_equal(job.results[0]["seen"][:20], job.results[0]["seen"][125:145])


@pytest.mark.parametrize("ahead", [1, 2, 4])
def test_a_loader_takes_what_slices_the_rank_grants(torch_programs, run_programs, ahead):
    case = "shuffled_with_workers"
    job = run_programs(torch_programs, "torch_cases", case, SHARES, epochs=3, ahead=ahead)
    once_an_epoch(job)
    assert ("workers are not used" in job.logs[0]) == (ahead == 1)


def test_sizes_change_while_the_loader_prefetches(torch_programs, run_programs):
    changing = lambda step: [4 + step, 28 - step]
    case = "shuffled_with_workers"
    job = run_programs(torch_programs, "torch_cases", case, changing, epochs=3)
    once_an_epoch(job)
    for side, result in zip(job.sides, job.results):
        assert [s["samples"] for s in side.steps] == result["sizes"].tolist()
        assert [s["weight"] for s in side.steps] == result["sizes"].tolist()


def test_drop_last_leaves_out_the_smaller_step(torch_programs, run_programs):
    job = run_programs(torch_programs, "torch_cases", "drop_last", SHARES, epochs=3)
    assert [len(r["sizes"]) for r in job.results] == [18, 18]
    assert all(job.results[0]["sizes"] == 20)


def test_a_sampler_of_the_users_draws_the_same_on_all_ranks(torch_programs, run_programs):
    """Weights 0, 1, … 199: sample 0 never comes, and others come several times."""
    job = run_programs(torch_programs, "torch_cases", "weighted_sampler", SHARES, epochs=3)
    seen = Counter(np.concatenate([r["seen"] for r in job.results]).tolist())
    assert sum(seen.values()) == 600
    assert seen[0.0] == 0 and max(seen.values()) > 3
    mean = sum(i * n for i, n in seen.items()) / 600
    assert 120 < mean < 145


def test_an_iterable_data_set_is_read_by_parts(torch_programs, run_programs):
    job = run_programs(torch_programs, "torch_cases", "iterable", SHARES, epochs=1)
    for rank, result in enumerate(job.results):
        assert all(result["seen"] % 2 == rank)
    assert job.results[0]["sizes"].tolist() == [20] * 6 + [5]


def test_a_loop_that_is_left_early_loses_no_sample(torch_programs, run_programs):
    job = run_programs(torch_programs, "torch_cases", "left_early", SHARES, epochs=1)
    seen = Counter(np.concatenate([r["seen"] for r in job.results]).tolist())
    assert seen == {float(i): 1 for i in range(200)}
