"""What nodes cannot do as the program alone does: refused, or told."""

import json
import os
import subprocess

import pytest

from conftest import python_with
from compare import bit_identical, difference
from real_rank import run_local
from stranger_runs import on_ranks
from tree import environment

UNTOLD = {"rows", "penalty", "stacked", "norm of parameters", "learned weight", "two means"}
CURVED = "another function of all samples of the batch"
SAYS = {
    "function": "the loss is a sum over the samples",
    "method": "the loss is a sum over the samples",
    "half": "the loss is a sum over the samples",
    "margins": "the loss is a sum over the samples",
    "einsum": "the loss is a sum over the samples",
    "times its number": "the loss is a mean times the number of the samples",
    "shares": "a sum with weights that add up to 1 over the batch",
    "compared": "the loss compares the samples of a batch with each other",
    "batch size": "the loss is a sum that is divided by 32 in each step",
    "quotient": "a quotient of two sums over the batch",
    "root": CURVED,
    "flooded": CURVED,
    "norm": CURVED,
    "distance": CURVED,
    "deviation": CURVED,
}
TOLD = {"times its number", "compared", "quotient", "root", "flooded", "norm", "distance",
        "deviation"}  # and not refused


@pytest.mark.parametrize("way", [*SAYS, *sorted(UNTOLD)])
def test_a_sum_that_prepare_does_not_know_of(torch_programs, tmp_path, way):
    """A mean of the program's own, a penalty on parameters and a sum of means are none. A root of a
    mean is another loss on each node, which is told."""
    command = torch_programs.command("strangers.run", "forgotten_sum", tmp_path / "rank")
    done = run_local(command, [20, 12], {"type": "sync"}, tmp_path, variables={"TEST_SUM": way})
    said = {text for text in SAYS.values() if text in done.stderr}
    assert said == {SAYS[way]} if way in SAYS else not said
    refused = way in set(SAYS) - TOLD
    assert (done.returncode != 0) == refused, done.stderr[-4000:]


def test_the_batch_size_that_is_a_multiple_of_a_nodes_samples_is_told(torch_programs, tmp_path):
    """Equal nodes have a half or a quarter of it, and a constant may be twice their samples."""
    for way, says in ("batch size", True), ("rows", False), ("two means", False):
        done, _ = on_ranks(torch_programs, "forgotten_sum", tmp_path / way[:4], [8, 8, 8, 8],
                           {"type": "sync"}, variables={"TEST_SUM": way})
        assert ("a number that is not the number of its samples" in done.stderr) == says


def test_the_batch_size_that_is_the_number_of_a_nodes_values_is_told(torch_programs, tmp_path):
    """Of two outputs on two equal nodes."""
    for way, says in ("batch size", True), ("rows", False):
        done, _ = on_ranks(torch_programs, "forgotten_sum", tmp_path / way[:4], [16, 16],
                           {"type": "sync"}, variables={"TEST_SUM": way})
        assert ("which is the number of values that this node's" in done.stderr) == says


# Fairseq's way, by tokens or samples of the node; a constant and clipping are the same on each
@pytest.mark.parametrize("way, says", [("own", True), ("mul", True), ("rows", True),
                                       ("constant", False), ("clip", False)])
def test_gradients_that_each_node_divides_by_a_number_of_its_own_are_told(torch_programs, tmp_path,
                                                                         way, says):
    command = torch_programs.command("strangers.run", "own_tokens", tmp_path / "rank")
    done = run_local(command, [20, 12], {"type": "local-sgd", "k": 2}, tmp_path,
                     variables={"TEST_TOKENS": way})
    assert done.returncode == 0, done.stderr[-4000:]
    told = "between backward() and the optimizer's step the gradients are divided by"
    assert done.stderr.count(told) == 2 * says


@pytest.mark.parametrize("habit, says", [
    ("skip", "A loop that leaves out batches of another size than batch_size leaves out all"),
    ("labels", "of a batch of 32 samples this node has 12: make what belongs to a batch by its"),
    ("hidden", "of a batch of 32 samples this node has 20: make what belongs to a batch by its"),
    ("statistics", "none of 3 batches had a backward pass"),
    ("hook", "this step stands within the backward pass, in a hook of a parameter")])
def test_what_knows_the_batch_size_is_told_what_a_node_has(torch_programs, tmp_path, habit, says):
    command = torch_programs.command("strangers.run", "full_batches", tmp_path / "rank")
    done = run_local(command, [20, 12], {"type": "sync"}, tmp_path, variables={"TEST_HABIT": habit})
    assert done.returncode != 0 and says in done.stderr, done.stderr[-3000:]


def test_a_mask_that_leaves_two_samples_in_each_batch_makes_no_sum(torch_programs, run_programs,
                                                                   tmp_path):
    alone = run_programs(torch_programs, "strangers.run", "masked_few").results[0]
    _, ends = on_ranks(torch_programs, "masked_few", tmp_path / "sync", [13, 3], {"type": "sync"})
    assert bit_identical(ends) and difference(ends[0], alone) < 2e-6


def test_of_two_losses_at_once_a_sum_is_told(torch_programs, tmp_path):
    for way in "mean", "sum":
        done, _ = on_ranks(torch_programs, "two_at_once", tmp_path / way, [20, 12],
                           {"type": "sync"}, variables={"TEST_SUM": way})
        assert ("the loss has a sum over the samples" in done.stderr) == (way == "sum")


def test_a_layer_that_begins_by_a_batch_is_told_of_its_cause(torch_programs, tmp_path):
    command = torch_programs.command("strangers.run", "flow", tmp_path / "rank")
    done = run_local(command, [20, 12], {"type": "sync"}, tmp_path)
    assert done.returncode != 0 and "take their first values from a batch (ActNorm)" in done.stderr
    one, two = (on_ranks(torch_programs, "flow", tmp_path / str(len(sizes)), sizes,
                         {"type": "sync"}, variables={"TEST_FIRST": "1"})[1]
                for sizes in ([32], [20, 12]))
    assert difference(two[0], one[0]) < 2e-6


@pytest.mark.parametrize("sums", ["", "1"])
@pytest.mark.parametrize("keep", ["three", "no_sync", "fades"])
def test_gradients_that_stay_count_once(torch_programs, tmp_path, keep, sums):
    """Each node has those of the batches before, summed; a sum would count them for each."""
    plan = {"TEST_KEEP": keep, "TEST_SUM": sums}
    one, two = (on_ranks(torch_programs, "grads_kept", tmp_path / str(len(sizes)), sizes,
                         {"type": "sync"}, variables=plan)[1] for sizes in ([32], [17, 9, 6]))
    assert difference(two[0], one[0]) < 2e-6


def test_sums_that_are_accumulated_go_on_in_a_new_process(torch_programs, tmp_path):
    plan = {"TEST_SUM": "1"}
    _, whole = on_ranks(torch_programs, "grads_kept", tmp_path / "whole", [20, 12],
                        {"type": "sync"}, variables=plan)
    done, ends = on_ranks(torch_programs, "grads_kept", tmp_path / "killed", [20, 12],
                          {"type": "sync"},
                          variables={**plan, "TEST_KILL": "8", "TEST_KILL_IN": "backward"})
    assert 'msg="goes on"' in done.stderr and difference(ends[0], whole[0]) < 2e-6


def test_a_step_behind_the_loop_is_refused_with_its_cause(torch_programs, tmp_path):
    command = torch_programs.command("strangers.run", "left_over", tmp_path / "rank")
    done = run_local(command, [20, 12], {"type": "sync"}, tmp_path)
    assert done.returncode != 0 and "step on what is left over within the loop" in done.stderr


def test_a_mean_times_a_number_that_follows_the_share_is_a_sum(torch_programs, tmp_path):
    """An epoch's last batch is smaller, so the number is no constant."""
    command = torch_programs.command("strangers.run", "forgotten_sum", tmp_path / "rank")
    done = run_local(command, [25, 15], {"type": "sync"}, tmp_path,
                     variables={"TEST_SUM": "times its number", "TEST_BATCH": "40"})
    assert done.returncode != 0 and SAYS["function"] in done.stderr


@pytest.mark.parametrize("name, says", [
    ("loss_weights", "the optimizer SGD steps parameters that prepare() was not given"),
    ("by_losses", "the program has changed 'weights' of the sampler WeightedRandomSampler"),
    ("codebook", "the buffer 'vq.embedding' of the model is moved by training, as are 2 others"),
    ("quantized", "the buffer '0.activation_post_process.scale' of the model is moved by training"),
    ("rate_search", "a loop over the loader was left before epoch 0 was over")])
def test_what_differs_without_an_error_is_told_once(torch_programs, tmp_path, name, says):
    command = torch_programs.command("strangers.run", name, tmp_path / "rank")
    done = run_local(command, [10, 6] if name == "rate_search" else [20, 12], {"type": "sync"},
                     tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stderr.count(says) == 2, "once on each rank"


# few anchors have an object, so that some nodes have none; means over classes and over boxes
@pytest.mark.parametrize("name, variables, says", [
    ("retina", {"TEST_OBJECTS": "0.02"}, "divided by a number which is 1 in one batch"),
    ("detr", {}, "the loss adds means over several numbers"),
    ("two_heads", {"TEST_ADDED": "1"}, "a.backward(retain_graph=True); b.backward()")])
def test_what_a_detectors_loss_is_divided_by_is_told(torch_programs, tmp_path, name, variables,
                                                     says):
    done, _ = on_ranks(torch_programs, name, tmp_path, [18, 10, 4], {"type": "sync"},
                       variables=variables)
    assert says in done.stderr


def test_a_squared_norm_over_the_batch_is_a_sum_and_compares_nothing(torch_programs, tmp_path):
    done, _ = on_ranks(torch_programs, "ranking", tmp_path, [20, 12], {"type": "sync"})
    assert "evenstep: " not in done.stderr


def test_a_penalty_counts_once_for_each_node_where_losses_are_sums(torch_programs, run_programs,
                                                                   tmp_path):
    alone = run_programs(torch_programs, "strangers.run", "bayes").results[0]
    told, ends = "divide it by evenstep.world_size()", {}
    for shares in "", "1":
        done, ends[shares] = on_ranks(torch_programs, "bayes", tmp_path / ("sync" + shares),
                                      [20, 12], {"type": "sync"}, variables={"TEST_SHARES": shares})
        assert done.stderr.count(told) == 2
    assert difference(ends[""][0], alone) > 1e-3 and difference(ends["1"][0], alone) < 2e-5


def test_a_backward_pass_of_one_for_each_sample_is_a_sum(torch_programs, tmp_path):
    """Where it is one by their number (test_strangers.py) it is a mean."""
    command = torch_programs.command("strangers.run", "vector_loss", tmp_path / "rank")
    done = run_local(command, [20, 12], {"type": "sync"}, tmp_path, variables={"TEST_SUM": "sum"})
    assert done.returncode != 0 and SAYS["function"] in done.stderr


@pytest.mark.parametrize("way, ends, says", [
    ("shares", False, SAYS["shares"]), ("uneven", True, "gives each loss of the batch a weight")])
def test_weights_of_a_backward_pass_of_one_for_each_sample_are_seen(torch_programs, tmp_path, way,
                                                                    ends, says):
    command = torch_programs.command("strangers.run", "vector_loss", tmp_path / "rank")
    done = run_local(command, [20, 12], {"type": "sync"}, tmp_path, variables={"TEST_SUM": way})
    assert (done.returncode == 0) == ends and says in done.stderr, done.stderr[-4000:]


SUM = "IS_SUM"
VERDICTS = {
    "sum": SUM, "half a sum": SUM, "sum / 2": SUM, "sum(0).mean": SUM,
    "sum / batch size": "DIVIDED_BY_ALL", "sum times 1 / batch size": "DIVIDED_BY_ALL",
    "weights that add up to 1": "NORMALIZED",
    "loop": SUM, "loop of boxes": SUM, "loop of picked rows": SUM, "stack of a loop, sum": SUM,
    "loop / batch size": "DIVIDED_BY_ALL",
    "sum, scaled up": "SCALED", "mean and a scaled sum": "SCALED", "sum / 100": "SCALED",
    "product of means": "CURVED", "root": "CURVED", "quotient": "RATIO",
    "cosine of the batch": "RATIO",
    "mean times len": "TIMES_COUNT", "two means times len": "TIMES_COUNT",
    "means in one tensor, times len": "TIMES_COUNT",
    "mean over labels times their number": "TIMES_COUNT",
    "balance of experts": "BALANCED", "rows of unequal numbers": "RAGGED",
    "classes weighted by their numbers": "BALANCED",
    "positives weighted by their number": "BALANCED", "mean of classes' means": "SEVERAL_MEANS",
    "tokens in one row, sum": SUM, "values in one row, sum": SUM, "sum by time": SUM,
    "weights of the mean 1": "AVERAGED", "mean by its own value, twice": "SEVERAL_MEANS",
    "means by a mask's mean, and over all": "SEVERAL_MEANS",
    "mean times its values / those that count": "BALANCED",
    "rows that are chosen before": "RAGGED", "divergence of chosen rows": "RAGGED",
    "boxes, and all of them": "SEVERAL_MEANS", "by weights, and by a number": "SEVERAL_MEANS",
}
COMPARED = {"hardest", "sorted", "similarities", "two views", "both ways", "of one class",
            "whitened", "centered", "cross-correlation",
            "farthest of the batch", "deviation within", "roots of columns",
            "softmax over the batch",
            "off their class", "classes apart", "prototypes", "partial likelihood", "correlated",
            "ranked", "quantile", "of wide columns", "negatives of the batch", "advantages",
            "targets of unit deviation"}


def shared_losses(*how):
    script = os.path.join(os.path.dirname(__file__), "shared_losses.py")
    done = subprocess.run([python_with("torch"), script, *how], env=environment(),
                          capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout)


def test_what_two_nodes_cannot_make_the_loss_of_is_said_and_nothing_else():
    """The gradients decide: what is said of a loss is measured against the whole batch's."""
    found = shared_losses()
    expected = {**VERDICTS, **{name: "COMPARED" for name in COMPARED}}
    assert {name: said[0] for name, (_, said) in found.items() if said} == expected
    assert all(len(said) <= 1 for _, said in found.values())
    assert {name for name, (off, _) in found.items() if off > 1e-5} == set(expected)


# what PyTorch before 2.5 does not tell, so that these losses weigh their samples there
OLD = {"weighted within", "nanmean", "masked, by time", "mean of the masked / mean of the mask",
       "the same by a number", "mean(0) of what is chosen", "mean of means of chosen rows",
       "mean of two choices", "weights divided by their mean", "mean by its own value",
       "mean by the targets' mean square", "mean times its number / those that count"}
OLD_REFUSED = {"sum": "IS_SUM", "half a sum": "IS_SUM", "sum / 2": "IS_SUM",
               "sum / batch size": "DIVIDED_BY_ALL", "sum times 1 / batch size": "DIVIDED_BY_ALL"}


def test_what_an_older_pytorch_tells_of_losses_is_used():
    """Each loss that two nodes can make is made, but for those above; the program is told. Of 121
    losses the same was found on PyTorch 2.1.2 itself."""
    now, old = shared_losses(), shared_losses("old")
    assert all("OLD" in said for _, said in old.values())
    right = {name for name, (off, _) in now.items() if off <= 1e-5}
    assert {name for name in right if old[name][0] > 1e-5} == OLD
    refused = {name: said[0] for name, (_, said) in old.items() if len(said) > 1}
    assert OLD_REFUSED.items() <= refused.items() and not right & set(refused)
