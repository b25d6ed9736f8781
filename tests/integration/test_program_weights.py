"""What gradients of a user's own program weigh: tokens, zero, sums; and what happens when a step
has several backward passes, or one that fails. Programs are tests/program/counting.py over real
MPI. Where a gradient does not depend on the parameters, the end is known in closed form; it is
compared bit for bit where every number on the way is a whole one over a power of two, else within
rounding."""
import math

import numpy as np
import pytest

from test_program import (BATCH, RATE, SAMPLES, STRATEGIES, Run, expected, first_parameters,
                          gradient, in_file_order, job, name_of, without_statistics)

SIZES = (32, 16, 16)
# strategies whose updates are means over all ranks' gradients of one step
STEPWISE = [{"type": "sync"}, {"type": "local-sgd", "k": 1},
            {"type": "hier-sgd", "k1": 1, "k2": 2, "group_size": 3}, {"type": "hpsgd", "k": 1}]


def tokens(indices):
    return [1 + i % 3 for i in indices]


def token_sum(indices):
    j = np.arange(len(first_parameters()), dtype="i8")
    return sum((t * ((i * 7 + j * 3) % 17 - 8)).astype("f8")
               for i, t in zip(indices, tokens(indices)))


def steps(run, ranks=(0, 1, 2)):
    """The samples of these ranks in each step."""
    for epoch in "01":
        for step in range(SAMPLES // BATCH):
            yield [i for r in ranks
                   for i in run.ranks[r]["seen"][epoch][step * SIZES[r]:(step + 1) * SIZES[r]]]


def part(run, rank, step):
    """This rank's samples in this step of the run."""
    size, epoch = SIZES[rank], step * BATCH // SAMPLES
    at = step % (SAMPLES // BATCH) * size
    return run.ranks[rank]["seen"][str(epoch)][at:at + size]


def updates(run, strategy, weight):
    """The update of each step, if `weight` (of a rank's samples in a step) is the gradients'
    weight. hier-sgd's average over all ranks comes every second step and weighs the parameters by
    both steps."""
    for step in range(2 * SAMPLES // BATCH):
        since = (step - 1, step) if strategy["type"] == "hier-sgd" and step % 2 else (step,)
        weights = [sum(weight(r, s, part(run, r, s)) for s in since) for r in range(3)]
        mine = [part(run, r, step) for r in range(3)]
        made = [weight(r, step, p) and token_sum(p) / sum(tokens(p)) for r, p in enumerate(mine)]
        yield sum(w * g for w, g in zip(weights, made)) / sum(weights)


def end(updates):
    return in_file_order((first_parameters() - RATE * sum(updates)).astype("f4"))


def same_everywhere(run):
    return all(r["params"] == run.ranks[0]["params"] for r in run.ranks)


@pytest.mark.parametrize("strategy", STEPWISE, ids=name_of)
def test_gradients_that_weigh_tokens_give_the_mean_over_all_tokens(tmp_path, strategy):
    run = Run(tmp_path / "run", job(strategy, ["--tokens"]))
    found = without_statistics(run.model())
    assert np.allclose(found,
                       end(updates(run, strategy, lambda rank, step,
                                   samples: sum(tokens(samples)))), rtol=1e-6, atol=1e-5)
    # what it would be without
    assert not np.allclose(found,
                           end(updates(run, strategy, lambda rank, step, samples: len(samples))),
                           rtol=1e-4, atol=1e-4)
    if strategy["type"] == "sync":
        # one process with the whole batch
        assert np.allclose(found, end(token_sum(s) / sum(tokens(s)) for s in steps(run)), rtol=1e-6,
                           atol=1e-5)
    assert same_everywhere(run) and run.seen(0) == list(range(SAMPLES))


@pytest.mark.parametrize("strategy", [{"type": "asgd"}, {"type": "asgd", "servers": 2}],
                         ids=name_of)
def test_a_push_weighs_its_tokens_beside_those_of_all_pushes_so_far(tmp_path, strategy):
    run = Run(tmp_path / "run", job(strategy, ["--tokens"], sizes=(64,)))
    pushed, samples, weights = [], 0, 0
    for epoch in "01":
        for step in range(SAMPLES // BATCH):
            indices = run.ranks[0]["seen"][epoch][step * BATCH:(step + 1) * BATCH]
            weight = sum(tokens(indices))
            samples, weights = samples + BATCH, weights + weight
            pushed.append(weight * samples / weights / BATCH * token_sum(indices) / weight)
    assert np.allclose(without_statistics(run.model()), end(pushed), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("strategy", STEPWISE, ids=name_of)
def test_a_node_whose_batches_weigh_zero_leaves_the_mean_to_the_others_whatever_its_gradients_hold(
        tmp_path, strategy):
    run = Run(tmp_path / "run", job(strategy, ["--silent", 1]))
    assert np.allclose(without_statistics(run.model()),
                       end(gradient(s) / len(s) for s in steps(run, (0, 2))), rtol=1e-6, atol=1e-5)
    assert same_everywhere(run)


def test_a_push_that_weighs_zero_changes_nothing(tmp_path):
    run = Run(tmp_path / "run", job({"type": "asgd"}, ["--silent", 1]))
    heard = [i for r in (0, 2) for e in "01" for i in run.ranks[r]["seen"][e]]
    assert (without_statistics(run.model()) == end([gradient(heard) / BATCH])).all()
    assert sum(len(samples) for r in run.ranks for samples in r["seen"].values()) == 2 * SAMPLES


@pytest.mark.parametrize("strategy", STEPWISE + [{"type": "asgd"}], ids=name_of)
def test_a_step_in_which_everything_weighs_zero_is_one_of_zeros(tmp_path, strategy):
    run = Run(tmp_path / "run", job(strategy, ["--silent", -2]))
    assert (without_statistics(run.model()) == in_file_order(first_parameters())).all()
    assert run.seen(0) == list(range(SAMPLES))
    assert strategy["type"] != "sync" or "all gradients weigh 0" in run.log


@pytest.mark.parametrize("fault,sentence",
                         [("weight", "a weight of -1: a weight is a number of 0 or more"),
                          ("unsteady", "changed the weight of step 3 from")])
def test_a_weight_that_has_no_meaning_is_a_sentence(tmp_path, fault, sentence):
    run = Run(tmp_path / "run", job({"type": "sync"}, ["--fault", fault]))
    said = [line for line in run.log.splitlines() if "level=error" in line and sentence in line]
    assert run.code != 0 and said and "local-" in said[0], run.log[-3000:]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=name_of)
def test_a_loss_that_is_a_sum_gives_the_sum_over_the_whole_batch_under_every_strategy(
        tmp_path, strategy):
    run = Run(tmp_path / "run", job(strategy, ["--reduction", "sum"]))
    assert (without_statistics(run.model()) == end([2 * gradient(range(SAMPLES))])).all()
    assert run.seen(0) == run.seen(1) == list(range(SAMPLES))


def test_an_epochs_last_smaller_step_of_a_sum_is_not_made_larger(tmp_path):
    run = Run(tmp_path / "run", job({"type": "sync"}, ["--reduction", "sum", "--samples", 65],
                                    sizes=(62, 1, 1)))
    assert ((without_statistics(run.model()) == end([2 * gradient(range(65))])).all()
            and same_everywhere(run))


# ---- several passes


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("strategy",
                         [{"type": "sync"}, {"type": "local-sgd", "k": 2},
                          {"type": "hier-sgd", "k1": 1, "k2": 2}], ids=name_of)
def test_gradients_of_further_passes_join_those_of_the_step(tmp_path, strategy, reduction):
    run = Run(tmp_path / "run", job(strategy, ["--passes", 3, "--reduction", reduction]))
    scale = 1 if reduction == "sum" else BATCH
    # 1 + 1/2 + 1/2, two epochs
    assert (without_statistics(run.model())
            == end([2 * 2 * gradient(range(SAMPLES)) / scale])).all()
    assert run.seen(0) == run.seen(1) == list(range(SAMPLES)) and sum(
        r["batch"] for r in run.rows) == 2 * SAMPLES


def test_further_passes_of_one_worker_join_too(tmp_path):
    run = Run(tmp_path / "run", job({"type": "sync"}, ["--passes", 2], sizes=(64,)))
    assert (without_statistics(run.model()) == end([3 * gradient(range(SAMPLES)) / BATCH])).all()


def test_further_passes_weigh_as_the_first(tmp_path):
    run = Run(tmp_path / "run", job({"type": "sync"}, ["--passes", 2, "--tokens"]))
    assert np.allclose(without_statistics(run.model()),
                       end(1.5 * token_sum(s) / sum(tokens(s)) for s in steps(run)), rtol=1e-6,
                       atol=1e-5)


def test_a_checkpoint_between_steps_of_several_passes_has_whole_steps(tmp_path):
    """Parameters are read on rank 0 while the others are already in the next step."""
    args = ["--passes", 2]
    whole = Run(tmp_path / "whole", job({"type": "sync"}, args)).model()
    crash = job({"type": "sync"}, [*args, "--fault", "crash", "--after", 6],
                checkpoint={"every_steps": 1})
    assert Run(tmp_path / "run", crash).code != 0
    run = Run(tmp_path / "run", job({"type": "sync"}, args))
    assert (without_statistics(run.model()) == without_statistics(whole)).all() and all(
        r["resumed"] for r in run.ranks)


@pytest.mark.parametrize("strategy", [{"type": "asgd"}, {"type": "hpsgd", "k": 1}], ids=name_of)
def test_a_further_pass_is_refused_where_the_first_ones_gradients_are_gone(tmp_path, strategy):
    run = Run(tmp_path / "run", job(strategy, ["--passes", 2]))
    said = [line for line in run.log.splitlines() if "level=error" in line
            and "one more backward pass cannot join" in line]
    assert (run.code != 0 and said and strategy["type"] in said[0]
            and "local-" in said[0]), run.log[-3000:]


def several_passes(*more):
    return job({"type": "sync"}, ["--passes", 3, "--step-each", "--optimizer", "momentum",
                                  "--state", "--curved", *more])


@pytest.mark.parametrize("point", ["between", "again", "step"])
@pytest.mark.parametrize("step", [2, 3], ids=["amid", "at-the-end"])
def test_one_that_is_killed_between_two_passes_of_a_step_makes_those_that_are_left(
        tmp_path, step, point):
    """In the middle of an epoch, and in its last step, after which the others evaluate."""
    whole = Run(tmp_path / "whole", several_passes())
    run = Run(tmp_path / "run", several_passes("--fault", "crash", "--times", 1, "--on", 1,
                                               "--after", step, "--point", point))
    assert np.allclose(run.model(), whole.model(), rtol=1e-5, atol=1e-5)
    assert same_everywhere(run) and [r["incarnation"] for r in run.ranks] == [0, 1, 0]
    assert run.seen(0) == run.seen(1) == list(range(SAMPLES))


@pytest.mark.parametrize("after", [1, 3], ids=["before another step", "at the end of an epoch"])
def test_unequal_numbers_of_passes_are_a_sentence(tmp_path, after):
    """At the end of an epoch, the others sum their evaluations."""
    run = Run(tmp_path / "run", job({"type": "sync"}, ["--fault", "further", "--after", after]))
    assert run.code != 0 and "1 of 3 nodes made one more backward pass" in run.log, run.log[-3000:]


# ---- a pass that fails


def test_a_pass_that_failed_on_one_node_leaves_the_step_out_on_all(tmp_path):
    run = Run(tmp_path / "run", job({"type": "sync"}, ["--void", 1]))
    made = [s for i, s in enumerate(steps(run)) if i != 3]
    assert ((without_statistics(run.model()) == end([sum(gradient(s) for s in made) / BATCH])).all()
            and same_everywhere(run))
    assert [r["goes"] for r in run.ranks] == 3 * [[0, 0, 0, 4 | 4096, 0, 0, 0, 0]]
    assert run.seen(0) == list(range(SAMPLES))  # its samples count as done
    assert "no node makes this step" in run.log and "nodes=1" in run.log


def test_a_further_pass_that_failed_leaves_the_step_out_too(tmp_path):
    run = Run(tmp_path / "run", job({"type": "sync"}, ["--void", 2, "--passes", 2]))
    made = [s for i, s in enumerate(steps(run)) if i != 3]
    assert (without_statistics(run.model())
            == end([1.5 * sum(gradient(s) for s in made) / BATCH])).all() and same_everywhere(run)


@pytest.mark.parametrize("strategy", [s for s in STEPWISE if s["type"] != "sync"], ids=name_of)
def test_where_gradients_stay_local_only_the_node_that_failed_leaves_its_step_out(
        tmp_path, strategy):
    run = Run(tmp_path / "run", job(strategy, ["--void", 1, "--tokens"]))
    made = updates(run, strategy, lambda rank, step, samples: 0 if (rank, step) == (1, 3)
                   else sum(tokens(samples)))
    assert np.allclose(without_statistics(run.model()), end(made), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("options", [[], ["--optimizer", "adaptive"]],
                         ids=["gradient", "difference"])
def test_a_server_gets_nothing_of_a_pass_that_failed(tmp_path, options):
    run = Run(tmp_path / "run", job({"type": "asgd"}, ["--void", 0, "--after", 1, *options],
                                    sizes=(64,)))
    parts = [run.ranks[0]["seen"][e][s * BATCH:(s + 1) * BATCH] for e in "01"
             for s in range(SAMPLES // BATCH)]
    made = [np.sign(gradient(p)) if options else gradient(p) / BATCH for i, p in enumerate(parts)
            if i != 1]
    assert (without_statistics(run.model()) == end([sum(made)])).all() and run.seen(0) == list(
        range(SAMPLES))


# ---- loss


def test_a_loss_that_no_program_told_is_not_known(tmp_path):
    for strategy in ("sync", "local-sgd", "asgd"):
        run = Run(tmp_path / strategy, job({"type": strategy}, ["--no-loss"]))
        assert run.code == 0, run.log[-3000:]
        assert run.rows and all(math.isnan(r["loss"]) for r in run.rows)
