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


def test_a_loader_of_a_class_that_does_more_with_batches(torch_programs, run_programs):
    """Moved to a device, normalized: such a class was refused."""
    job = run_programs(torch_programs, "torch_cases", "own_iteration", SHARES, epochs=3)
    seen = Counter(np.concatenate([r["seen"] for r in job.results]).round(4).tolist())
    assert len(seen) == 200 and set(seen.values()) == {3} and max(seen) < 1
    assert [set(r["sizes"].tolist()[:6]) for r in job.results] == [{20}, {12}]


def test_a_loader_of_a_class_that_never_asks_for_batches_is_refused(torch_programs, run_programs):
    """None of what it gives would be part of the run."""
    job = run_programs(torch_programs, "torch_cases", "iteration_of_others", [1], fails=True)
    assert job.codes == [1]
    assert "the loader's class Alone loads batches in a way of its own" in job.logs[0]


def test_a_sampler_that_takes_a_part_draws_from_the_whole_set(torch_programs, run_programs):
    job = run_programs(torch_programs, "torch_cases", "part_of_the_set", SHARES, epochs=3)
    seen = np.concatenate([r["seen"] for r in job.results])
    assert len(seen) == 3 * 64 and len(set(seen)) > 100 and max(seen) > 150
    assert job.results[0]["length"] == 2


def test_an_order_too_long_for_a_list_is_drawn_as_it_is_asked(torch_programs, run_programs):
    """By each rank alike, and again where a slice is given again."""
    job = run_programs(torch_programs, "torch_cases", "long_order", SHARES, epochs=3)
    ours, theirs = (r["order"].tolist() for r in job.results)
    assert ours == theirs and len(set(ours)) > 300
    for order in ours[:len(ours) // 2], ours[len(ours) // 2:]:
        assert order[-2:] == order[:2]
    assert job.results[0]["kept"] < 1e6


def test_a_batch_sampler_of_pytorchs_says_whether_the_last_batch_is_dropped(torch_programs,
                                                                           run_programs):
    job = run_programs(torch_programs, "torch_cases", "batches_given", SHARES, epochs=3)
    assert [r["sizes"].tolist() for r in job.results] == [[20] * 18, [12] * 18]
    assert job.results[0]["length"] == 6


def test_batches_of_a_sampler_of_the_programs_own_are_shared_out(torch_programs, run_programs):
    """By length, or of each class so many: they were refused."""
    job = run_programs(torch_programs, "torch_cases", "own_batches", SHARES, epochs=3)
    ours, theirs = (r["seen"].astype(int).tolist() for r in job.results)
    assert all(n == 3 for n in Counter(ours + theirs).values()) and len(set(ours + theirs)) == 200
    assert [r["sizes"].tolist()[:7] for r in job.results] == [[20] * 6 + [5], [12] * 6 + [3]]
    firsts = [n // 32 for n in ours[::20]][:6]
    assert sorted(firsts) == list(range(6)) and job.results[0]["length"] == 7
    for batch in range(6):  # both have parts of the same one
        mine, others = ours[20 * batch:20 * batch + 20], theirs[12 * batch:12 * batch + 12]
        assert {n // 32 for n in mine + others} == {firsts[batch]}


def test_a_loader_that_keeps_its_place_is_as_pytorchs(torch_programs, run_programs):
    """torchdata's StatefulDataLoader was refused."""
    job = run_programs(torch_programs, "torch_cases", "stateful", SHARES, epochs=3)
    once_an_epoch(job)
    assert job.results[0]["sizes"].tolist() == ([20] * 6 + [5]) * 3
    assert job.sides[0].about["shuffle"]


def test_a_batch_norm_bears_a_slice_of_one_sample(torch_programs, run_programs):
    """It comes twice, and counts once."""
    case = "batch_norm_of_one"
    job = run_programs(torch_programs, "torch_cases", case, [31, 1], epochs=2)
    assert job.results[1]["sizes"].tolist() == [2] * 4
    assert [s["weight"] for s in job.sides[1].steps][0] == 3
    assert [s["samples"] for s in job.sides[1].steps][0] == 1


def test_a_loader_that_cannot_be_shared_out_is_refused(torch_programs, run_programs):
    said = run_programs(torch_programs, "torch_cases", "refused_loaders").logs[0].splitlines()
    sentences = [
        "the loader's class Gathers loads batches in a way of its own",
        "the loader makes no batches (batch_size=None)",
        "the data set is iterable: prepare(…, shard=function) says",
        "the loader has a batch sampler of its own (Endless) without a length",
        "the loader has a batch sampler of its own (Mixed), which gives no sample in batch 0",
        "the data set is iterable and has no length: prepare(…, samples=n) says",
    ]
    assert [a.startswith(b) for a, b in zip(said, sentences)] == [True] * 6


def test_what_other_packages_made_is_refused_with_what_to_write(torch_programs, run_programs):
    said = run_programs(torch_programs, "torch_cases", "of_other_packages").logs[0].splitlines()
    sentences = [
        ("a Data. Lightning: trainer = evenstep.prepare(Trainer(…)), and then trainer.fit()"),
        ("a Trainer. transformers: trainer = evenstep.prepare(Trainer(…)), and then trainer."),
        ("a DataLoaderShard. Accelerate: give it the plain DataLoader, in place of the one"),
        ("a DeepSpeedEngine. DeepSpeed distributes the program itself"),
        ("prepare() takes the model itself, not one wrapped by FullyShardedDataParallel"),
        ("a NeuralNetClassifier. skorch: in a subclass of the net get_iterator("),
        ("a Learner. fastai: prepare(learn.model, learn.opt.opt, loader) comes before"),
    ]
    assert [b in a for a, b in zip(said, sentences)] == [True] * 7


def test_batch_norms_that_ranks_would_share_are_said_not_to(torch_programs, run_programs):
    job = run_programs(torch_programs, "torch_cases", "synchronized_norms", SHARES, epochs=1)
    assert all("SyncBatchNorm normalizes by the node's own samples" in log for log in job.logs)


def test_batches_of_unequal_sizes_are_shared_out(torch_programs, run_programs):
    """Of so many tokens each. The largest is the global batch, and of a smaller one each node has
    its part."""
    job = run_programs(torch_programs, "torch_cases", "uneven_batches", SHARES, epochs=3)
    ours, theirs = (r["seen"].astype(int).tolist() for r in job.results)
    sizes = [r["sizes"].tolist() for r in job.results]
    assert all(n == 3 for n in Counter(ours + theirs).values()) and len(set(ours + theirs)) == 100
    assert [s[1:4] for s in sizes] == [[20] * 3, [12] * 3] and job.results[0]["length"] == 4
    assert sizes[0][0] + sizes[1][0] == 4 and 1 <= sizes[1][0] <= 2
    for side, of_rank in zip(job.sides, sizes):
        assert [s["weight"] or s["samples"] for s in side.steps] == of_rank


@pytest.mark.parametrize("case", ["mixed_batches", "mixed_equal_batches"])
def test_an_epoch_of_other_batches_has_each_sample_once(torch_programs, run_programs, case):
    """As many steps as the first one, whose batches are at most as large."""
    job = run_programs(torch_programs, "torch_cases", case, SHARES, epochs=3)
    ours, theirs = (r["seen"].astype(int).tolist() for r in job.results)
    sizes = [r["sizes"].tolist() for r in job.results]
    for i in range(0, 12, 4):
        mine, others = sum(sizes[0][:i]), sum(sizes[1][:i])
        of_epoch = ours[mine:sum(sizes[0][:i + 4])] + theirs[others:sum(sizes[1][:i + 4])]
        assert sorted(of_epoch) == list(range(100))
    assert len(sizes[0]) == 12 and max(map(sum, zip(*sizes))) <= 32
    assert all("Mixed has made 5 batches of up to 20 samples" in log for log in job.logs)
    for side, of_rank in zip(job.sides, sizes):
        assert [s["weight"] or s["samples"] for s in side.steps] == of_rank


def test_batches_are_cut_and_put_together_whatever_their_sizes(torch_programs, run_programs):
    job = run_programs(torch_programs, "torch_cases", "fits")
    assert 500 < job.results[0]["refused"] < 2500


def test_an_epoch_of_more_samples_than_the_first_had_is_refused(torch_programs, run_programs):
    job = run_programs(torch_programs, "torch_cases", "larger_epochs", [1], epochs=3, fails=True)
    assert job.codes == [1]
    assert "130 samples in this epoch and 4 batches of up to 32 in the first one" in job.logs[0]


def test_a_sampler_that_gives_less_than_it_says_is_told_so(torch_programs, run_programs):
    job = run_programs(torch_programs, "torch_cases", "short_sampler", [1], epochs=1, fails=True)
    assert job.codes == [1]
    assert "ShortSampler says that it has 200 samples and gives 150" in job.logs[0]


def test_the_prepared_loader_is_a_loader_to_whoever_asks(torch_programs, run_programs):
    """isinstance(), a look before the epochs and one behind their end."""
    job = run_programs(torch_programs, "torch_cases", "is_a_loader", SHARES, epochs=1)
    assert job.results[0]["shown"] == 32


def test_a_loop_over_steps_ends_with_the_job(torch_programs, run_programs):
    job = run_programs(torch_programs, "torch_cases", "steps_behind_the_end", SHARES, epochs=2)
    assert all("the program's loop over steps is not: it ends here" in log for log in job.logs)


def test_a_second_phase_may_have_the_prepared_loader(torch_programs, run_programs):
    job = run_programs(torch_programs, "torch_cases", "same_loader_again", SHARES, epochs=2)
    once_an_epoch(job, epochs=2)
