"""What nodes cannot do as the program alone does: refused, or told."""

import pytest

from real_rank import run_local

UNTOLD = {"rows", "penalty", "stacked", "norm of parameters", "learned weight", "two means"}
CURVED = "another function of all samples of the batch"
SAYS = {
    "function": "the loss is a sum over the samples",
    "method": "the loss is a sum over the samples",
    "batch size": "the loss is a sum that is divided by 32 in each step",
    "quotient": "a quotient of two sums over the batch",
    "root": CURVED,
    "flooded": CURVED,
    "norm": CURVED,
    "deviation": CURVED,
}
TOLD = {"quotient", "root", "flooded", "norm", "deviation"}  # and not refused


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


@pytest.mark.parametrize("name, says", [
    ("loss_weights", "the optimizer SGD steps parameters that prepare() was not given"),
    ("rate_search", "a loop over the loader was left before epoch 0 was over")])
def test_what_differs_without_an_error_is_told_once(torch_programs, tmp_path, name, says):
    command = torch_programs.command("strangers.run", name, tmp_path / "rank")
    done = run_local(command, [20, 12] if name == "loss_weights" else [10, 6], {"type": "sync"},
                     tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stderr.count(says) == 2, "once on each rank"
