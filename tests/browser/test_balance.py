"""Who is slow, and by how much: the sentence against what was measured of each node."""
import json

import pytest

from canned import job, worker
from test_pure import NARROW, call, page  # noqa: F401  (a fixture)
from test_verdict import FALLS, changes, verdict


def test_speeds_are_those_of_an_equal_split_where_the_lines_are_known(page):
    """A minibatch of 8 bears as much of a step's fixed part as one of 120: by its time per sample
    alone the slow node was 9.0 times slower."""
    def fitted(rank, node, batch, k):
        return worker(rank, node, batch=batch, compute=0.004 + k * batch,
                      fit={"fixed_seconds": 0.004, "seconds_per_sample": k, "error": 0.01})
    workers = [fitted(i, n, 120, 1e-4) for i, n in enumerate("abc")] + [fitted(3, "d", 8, 7e-4)]
    document = job(workers=workers)
    document["spec"]["batching"]["global_batch"] = 368
    document["assignment"]["global_batch"] = 368
    assert "d computed 5.2× slower than the median node" in verdict(page, document, FALLS)["text"]


def test_the_straggler_is_who_was_measured_to_be_slow_whatever_the_lines_say(page):
    """After 40 steps the line of `fast` was still that of its first moments, 1.4 times above that
    of `slow`, and the sentence called it the straggler beside bars that showed the opposite."""
    lines = {"fast": 0.0035, "slow": 0.0025}

    def one(rank, node, batch, compute):
        return worker(rank, node, batch=batch, compute=compute, fit={
            "fixed_seconds": 0, "seconds_per_sample": lines[node], "error": 0.05})

    workers = [one(0, "fast", 84, 0.10), one(1, "slow", 44, 0.15)]
    got = verdict(page, job(workers=workers), FALLS)
    assert "slow computed 2.9× slower than fast" in got["text"] and got["straggler"] == "slow"
    together = [one(0, "fast", 84, 0.10), one(1, "slow", 44, 0.10)]
    for fixed in (0, 0.02, 0.2):
        for w in together:
            w["fit"]["fixed_seconds"] = fixed
        got = verdict(page, job(workers=together), FALLS)
        assert got["straggler"] == "slow", "who finishes with the smaller minibatch is slower"


def test_a_straggler_that_began_with_a_small_minibatch_has_one(page):
    """A clone begins with minibatches by the profiles of its first run: "its minibatch is still 8;
    it changes as soon as enough steps are measured" was said for half a minute."""
    workers = [worker(0, "fast", 48, compute=0.15), worker(1, "mid", 48, compute=0.15),
               worker(2, "slow", 8, compute=0.11)]
    begun = [{"version": 1, "step": 0, "batches": {"fast": 48, "mid": 48, "slow": 8}}]
    document = job(state="running", workers=workers)
    document["assignment"]["global_batch"] = 104
    text = verdict(page, document, FALLS, assignments=begun)["text"].replace(NARROW, " ")
    assert text == ("slow computes 4.4× slower than the median node, so its minibatch is 8. "
                    "Computing a step takes between 0.110 s and 0.150 s.")
    document["state"] = "succeeded"
    text = verdict(page, document, FALLS, assignments=begun)["text"].replace(NARROW, " ")
    assert ", so its minibatch was 8. Computing a step took between 0.110 s and" in text
    begun[0]["batches"] = {"fast": 36, "mid": 36, "slow": 32}
    document["state"] = "running"
    assert "still" in verdict(page, document, FALLS, assignments=begun)["text"]


def test_a_straggler_under_a_server_makes_nobodys_step_longer(page):
    """Dynamic minibatches would have made "a step about 62 % shorter": the clone took as long."""
    workers = [worker(0, "fast", 32, compute=0.1), worker(1, "mid", 32, compute=0.1),
               worker(2, "slow", 32, compute=0.4)]
    document = job(workers=workers, servers=[{"rank": 3}])
    document["spec"].update(strategy={"type": "asgd", "servers": 1},
                            batching={"global_batch": 96, "policy": "equal"})
    got = verdict(page, document, FALLS)
    assert "so its gradients arrived late. Dynamic minibatches would have made all gradients " \
        "about equally stale." in got["text"] and "shorter" not in got["text"]
    assert changes(got) == {"/batching/policy": "dynamic"}


def test_a_larger_batch_is_offered_with_a_rate_that_suits_it(page):
    """Twice the batch at the same rate learned less in an epoch: 32 % where it had been 40 %."""
    def offered(**changes_of_spec):
        document = job(workers=[worker(r, n, compute=0.003, exchange=0.007)
                                for r, n in enumerate("ab")], servers=[{"rank": 2}])
        document["spec"].update(changes_of_spec)
        return changes(verdict(page, document, FALLS))
    assert offered() == {"/batching/global_batch": 256, "/optimizer/learning_rate": 0.1}
    for other in ({"optimizer": {"type": "adam", "learning_rate": 0.001}},
                  {"strategy": {"type": "asgd", "servers": 1}}):
        assert offered(**other) == {"/batching/global_batch": 256}, other


def test_the_ideal_is_never_below_what_was_reached(page):
    """One node alone computes nearly all the time, and its ideal is measured at other moments."""
    got = call(page, "/js/views/job/speed/throughput.js",
               "m.notBelow([100, 90, NaN, 80], [90, 95, 70, NaN])")
    assert got == [100, 95, None, 80]


@pytest.mark.parametrize("fit, wanted", [
    ({"fixed_seconds": 0.03, "seconds_per_sample": 0.009, "error": 0.01}, (0.03, 0.009)),
    (None, (0.02, 0.01))])
def test_the_line_that_is_drawn_is_the_one_that_minibatches_are_made_from(page, fit, wanted):
    points = [[10, 0.12], [20, 0.22], [40, 0.42], [30, 0.32], [20, 0.22]]
    worker = json.dumps({"batch": 20, "compute_seconds": 0.22, **({"fit": fit} if fit else {})})
    got = call(page, "/js/views/nodes/fit.js", f"m.fitOf({json.dumps(points)}, {worker})")
    assert (got["a"], got["k"]) == pytest.approx(wanted) and got["guessed"] is False
    assert got["error"] == pytest.approx(0.02 / 0.22 * 0.5 if fit else 0, abs=0.01)
    alone = call(page, "/js/views/nodes/fit.js", f"m.fitOf([[20, 0.22]], {worker})")
    assert alone["guessed"] is True and alone["a"] == (0.03 if fit else 0)
    if fit:  # from earlier jobs: what counts is how far this job's points are from it
        assert alone["error"] == pytest.approx(0.01 / 0.22)
