"""What a page says about a run that has ended and what it offers to do, over canned runs: that its
numbers agree with each other, and that following it leads somewhere."""
import re

import canned
from canned import curve, evaluations, job, worker
from service import until
from test_pure import NARROW, call, page as pure  # noqa: F401  (a fixture)
from test_verdict import FLAT, RISES, at_rate, changes, verdict

SPLIT = "section[aria-label=Throughput] .rail-side"
CELLS = ("return [...document.querySelectorAll('.split-table tbody tr')].map((r) => "
         "[...r.querySelectorAll('.num')].map((c) => Number(c.textContent)))")


def test_where_a_step_went_is_what_the_sentence_says(page):
    """The sentence was about the whole run, and the table about its last moment: 1.23 ms of
    exchange there and 1.6 here."""
    late = [worker(r, n, compute=0.0004, exchange=0.0016) for r, n in enumerate("ab")]
    means = {"compute_seconds": 0.00035, "exchange_seconds": 0.00125, "wait_seconds": 0.00002,
             "load_seconds": 0.00001, "batch": 64}
    canned.show(page, job(workers=late), [curve("train_loss", [2.3 * 0.97**i for i in range(100)])]
                + [curve(name, [v] * 100, n) for n in "ab" for name, v in means.items()])
    page.wait_text("#verdict", f"of a step of 1.63{NARROW}ms, 1.25{NARROW}ms were exchange")
    page.wait_text(SPLIT, "step goes, ms per node, averaged over the run")
    assert page.script(CELLS) == [[0.01, 0.35, 1.25, 0.02]] * 2
    canned.show(page, job(state="running", workers=late))
    page.wait_text(SPLIT, r"step goes, ms per node\n")
    until("the newest steps are told", lambda: page.script(CELLS) == [[0, 0.4, 1.6, 0]] * 2)
    page.resize(390, mobile=True)
    try:
        until("the page is as wide as a phone", lambda: page.script(
            "return document.documentElement.scrollWidth") == 390, 20)
    finally:
        page.resize_back()


def test_short_times_of_a_table_can_be_told_apart(pure):
    def told(x, most):
        return call(pure, "/js/text/format.js", f"m.milliseconds({x}, {most})")
    assert [told(x, 0.004) for x in (0.00164, 0.00039, 0.000004)] == ["1.64", "0.39", "0"]
    assert [told(x, 0.04) for x in (0.033, 0.0019, 0.00004)] == ["33", "1.9", "0"]


def test_nobody_says_that_there_are_no_steps_before_they_were_read(page):
    """It was said of every job until its last steps came into view."""
    canned.show(page, job())
    steps = page.find("section[aria-label='Last steps']")
    assert "There are no steps" not in steps.text
    page.script("arguments[0].scrollIntoView()", steps)
    until("they were read", lambda: "There are no steps to show." in steps.text)


def test_a_missed_target_is_told(pure):
    document = at_rate(0.05, 0.6)
    document["spec"]["target"] = {"test_accuracy": 0.9}
    got = verdict(pure, document, [], evaluations([0.6] * 3))
    assert re.match(rf"The job reached 60.0{NARROW}% test accuracy in .* and missed its target of "
                    rf"90.0{NARROW}%\.", got["text"])
    document["metrics"]["test_accuracy"] = 0.9
    assert "missed" not in verdict(pure, document, [], evaluations([0.9] * 3))["text"]


def test_a_usual_rate_that_had_few_steps_gets_more_of_them(pure):
    """A virtual run of 24 steps at 0.05 was offered 0.005, at which it learned less."""
    document = at_rate(0.05, 0.103)
    document["progress"]["step"] = 24
    got = verdict(pure, document, FLAT, evaluations([0.103] * 10))
    assert changes(got) == {"/epochs": 40} and "and so do too few steps" in got["evidence"]
    served = {**document, "progress": {**document["progress"], "step": 372, "samples": 24 * 128}}
    served["spec"] = {**document["spec"], "strategy": {"type": "asgd", "servers": 1}}
    assert changes(verdict(pure, served, FLAT, evaluations([0.103] * 10))) == {"/epochs": 40}, (
        "372 updates were 24 steps")
    document["progress"]["step"] = 2400
    got = verdict(pure, document, FLAT, evaluations([0.103] * 10))
    assert changes(got) == {"/optimizer/learning_rate": 0.005}


def test_a_larger_batch_under_a_server_says_what_it_costs(pure):
    """Its rate does not grow with it: 51.3 % became 32.5 % in as many epochs."""
    document = job(workers=[worker(r, n, exchange=0.04) for r, n in enumerate("ab")])
    costs = "The larger batch makes fewer updates in an epoch: more epochs make up for them."
    assert costs not in verdict(pure, document)["evidence"]
    document["spec"]["strategy"] = {"type": "asgd", "servers": 1}
    document["servers"] = [{"rank": 2}]
    assert costs in verdict(pure, document)["evidence"]


def test_a_loss_that_is_not_the_tiles_says_what_it_is(pure):
    """"The train loss ended at 353" stood above a tile with 6.47e30, the mean."""
    document = at_rate(50, 0.103)
    document["metrics"]["train_loss"] = 6.47e30
    got = verdict(pure, document, RISES, evaluations([0.103] * 10))
    assert "the median of the last steps; the mean of 100 updates is 6.47×10³⁰." in got["evidence"]
    document["metrics"]["train_loss"] = 13.5
    assert "median" not in verdict(pure, document, RISES, evaluations([0.103] * 10))["evidence"]


def test_one_epoch_is_not_called_all_of_them(page):
    canned.show(page, job(progress={"epoch": 1, "epochs": 1, "step": 9, "samples": 9,
                                    "fraction": 1}))
    page.wait_text(".job-head", r"(?m)^1 epoch$")


def test_both_lines_of_the_accuracy_are_named_at_their_end(page):
    """"71.4 %" stood above "test 51.3 %" without a word."""
    canned.show(page, job(), [curve("train_accuracy", [0.714] * 100)], evaluations([0.513] * 10))
    ends = "[data-chart=accuracy] .ends span"
    until("both are named", lambda: sorted(e.text for e in page.all(ends)) == [
        f"test 51.3{NARROW}%", f"train 71.4{NARROW}%"], 20)
    assert page.script("""
        return [...document.querySelectorAll(arguments[0])].every((e) =>
            e.getBoundingClientRect().right <=
            e.closest('.chart').getBoundingClientRect().right + 0.5)""", ends)


def test_the_equal_split_of_a_virtual_job_is_that_of_its_mean_minibatch(page):
    """Its times are means over the run: 21 ms at 16 and then 4 samples were 82 ms for 16."""
    document = job(workers=[worker(0, "a", batch=20, compute=0.0108),
                            worker(1, "b", batch=4, compute=0.020)])
    document["spec"] = {**document["spec"], "cluster": {}}
    document["assignment"] = {"version": 1, "global_batch": 24}
    means = {"batch": {"a": 16, "b": 8}, "compute_seconds": {"a": 0.0108, "b": 0.020}}
    canned.show(page, document, [curve(name, [v] * 100, n) for name, nodes in means.items()
                                 for n, v in nodes.items()])
    page.wait_text(".node-table thead", "Time for one step, averaged over the run")
    page.wait_text('.node-table tr[data-node="b"]', f"30{NARROW}ms")
