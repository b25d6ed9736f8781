"""The page's sentence over canned runs: it says what is wrong with a run, which chart shows it, and
the first thing to do."""

import json
import urllib.parse

import pytest

from canned import evaluations, job, worker
from test_pure import NARROW, call, page  # noqa: F401  (a fixture)

FALLS = [2.3 * 0.97**i for i in range(100)]  # to 0.11
RISES = [2.3 + 0.12 * i for i in range(100)]  # to 14
FLAT = [2.3] * 100


def verdict(page, document, losses=(), tests=(), assignments=(), loading=None, workers=None,
            strategies=None):
    learned = {"losses": list(losses), "tests": list(tests), "loading": loading, "workers": workers,
               "strategies": strategies}
    learned = {k: v for k, v in learned.items() if v is not None}
    arguments = ", ".join(json.dumps(v) for v in (document, list(assignments), learned))
    return call(
        page, "/js/sentences/verdict.js",
        f"(v => ({{...v, text: m.plain(v.parts)}}))(m.verdict({arguments}))"
    )


def changes(found):
    """What the action's address changes."""
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(found["action"]["href"].lstrip("#")).query)
    return json.loads(query["set"][0])


def at_rate(rate, accuracy, state="succeeded"):
    document = job(state=state)
    document["spec"]["optimizer"]["learning_rate"] = rate
    document["metrics"]["test_accuracy"] = accuracy
    return document


def test_a_run_that_diverged_is_not_praised(page):
    got = verdict(page, at_rate(50, 0.103), RISES, evaluations([0.103] * 10))
    assert (
        "Training diverged: the train loss ended at 13.6; guessing among 10 classes gives 2.30."
        in got["text"]
    )
    assert (
        f"10.3{NARROW}% of the test set were classified correctly. The learning rate is 50."
        in got["evidence"]
    )
    assert "learned nothing" in got["text"] and "reached" not in got["text"]
    assert "Nothing needs doing" not in got["evidence"] and got["chart"] == "loss"
    assert got["action"]["text"] == "Clone with a rate of 0.1" and changes(got) == {
        "/optimizer/learning_rate": 0.1
    }


def test_a_run_that_diverged_late_says_what_it_had_learned(page):
    document = at_rate(1, 0.103)
    document["metrics"] = {**document.get("metrics", {}), "best_test_accuracy": 0.64}
    document["spec"]["optimizer"]["schedule"] = {"type": "step", "at_epochs": [6], "factor": 1000}
    got = verdict(page, document, RISES, evaluations([0.6] * 5 + [0.103] * 5))
    assert f"lost what it had learned: 64.0{NARROW}% of the test set at best" in got["text"]
    assert "The learning rate began at 1." in got["evidence"]


def test_a_run_at_chance_is_not_praised(page):
    got = verdict(page, at_rate(0.5, 0.103), FLAT, evaluations([0.103] * 10))
    assert (
        "The network was no better than guessing: "
        f"10.3{NARROW}% of the test set were classified correctly"
        in got["text"]
    )
    assert got["chart"] == "accuracy" and changes(got) == {"/optimizer/learning_rate": 0.05}
    too_low = verdict(page, at_rate(1e-5, 0.103), FLAT, evaluations([0.103] * 10))
    assert changes(too_low) == {"/optimizer/learning_rate": 0.1}, "ten times is too low"
    low = verdict(page, at_rate(0.001, 0.103), FLAT, evaluations([0.103] * 10))
    assert changes(low) == {"/optimizer/learning_rate": 0.01}
    pushed = at_rate(1e-5, 0.103)
    pushed["spec"]["optimizer"]["momentum"] = 0.9
    assert changes(verdict(page, pushed, FLAT, evaluations([0.103] * 10))) == changes(low), (
        "momentum adds ten steps up")


def test_a_run_of_a_few_steps_is_not_judged(page):
    """A job of one step "learned nothing", and was offered another rate."""
    document = {**at_rate(0.05, 0.085), "progress": {"step": 1, "epoch": 1, "samples": 64}}
    got = verdict(page, document, [2.27], evaluations([0.085]))
    assert "It made 1 step, too few to tell whether the network learns." in got["text"]
    assert "learned nothing" not in got["text"] and not got.get("action")
    document["spec"]["model"] = {"layers": [{"type": "flatten"}]}
    got = verdict(page, document, [2.27], evaluations([0.085]))
    assert "NaN" not in got.get("evidence", ""), "how many classes there are is not known"


def test_overfitting_names_the_epoch_to_stop_at(page):
    losses = [0.9, 0.8, 0.71, 0.75, 0.82, 0.9, 0.95, 1.0, 1.05, 1.1]
    accuracies = [0.7, 0.74, 0.78, 0.78, 0.779, 0.78, 0.778, 0.78, 0.777, 0.778]
    got = verdict(page, job(), FALLS, evaluations(accuracies, losses))
    assert (
        "The network overfitted from epoch 3 on: the test loss rose from 0.710 to 1.10"
        in got["text"]
    )
    assert changes(got) == {"/epochs": 3} and got["chart"] == "loss"
    assert "would have lost nothing" in got["evidence"]
    worse = verdict(page, job(), FALLS, evaluations([*accuracies[:9], 0.72], losses))
    assert "would have been better" in worse["evidence"], "six points were lost"
    better = verdict(page, job(), FALLS, evaluations([*accuracies[:9], 0.83], losses))
    assert "overfit" not in better["text"], "the accuracy went on rising"
    late = verdict(page, job(), FALLS, evaluations(
        [0.70, 0.71, 0.72, 0.75, 0.78, 0.78, 0.779, 0.77, 0.77, 0.76],
        [0.71, 0.75, 0.80, 0.90, 1.0, 1.2, 1.5, 1.9, 2.3, 2.8]))
    assert "overfitted from epoch 5 on: the test loss rose from 1.00 to 2.80" in late["text"]
    assert changes(late) == {"/epochs": 5}, "the accuracy still gained after the least test loss"


def test_a_plateau_is_told_with_a_lower_rate_from_there_on(page):
    losses = [2.3 * 0.9**i for i in range(10)] + [0.9] * 90
    accuracies = [0.5, 0.6, 0.65, 0.65, 0.65, 0.649, 0.651, 0.65, 0.65, 0.65]
    got = verdict(page, job(state="running"), losses, evaluations(accuracies))
    assert (
        got["text"]
        == "Learning stands still since epoch 3: "
        f"the test accuracy stays at 65.0{NARROW}%, and the train loss at 0.900."
    )
    assert changes(got) == {
        "/optimizer/schedule": {"type": "step", "factor": 0.1, "at_epochs": [3]}
    }


@pytest.mark.parametrize("schedule, said, wanted", [
    ({"type": "step", "at_epochs": [2], "factor": 0.001},
     "began at 0.05; its schedule had lowered it to 5×10⁻⁵ by then", {"type": "constant"}),
    ({"type": "cosine", "warmup_epochs": 1}, "Lowering it where learning stops",
     {"type": "step", "factor": 0.1, "at_epochs": [3], "warmup_epochs": 1}),
    ({"type": "step", "at_epochs": [8], "factor": 0.5}, "Lowering it where learning stops",
     {"type": "step", "factor": 0.1, "at_epochs": [3, 8]}),
])
def test_a_plateau_behind_a_schedule_has_an_action_that_suits_it(page, schedule, said, wanted):
    """A run whose rate had fallen to nothing was told to lower it, and was offered nothing."""
    document = job()
    document["spec"]["optimizer"]["schedule"] = schedule
    losses = [2.3 * 0.9**i for i in range(10)] + [0.9] * 90
    got = verdict(page, document, losses, evaluations([0.5, 0.6, 0.65] + [0.65] * 7))
    assert said in got["evidence"] and changes(got) == {"/optimizer/schedule": wanted}


def test_a_run_that_loses_what_it_had_learned_does_not_stand_still(page):
    """Its accuracy "stayed between 30 % and 70 %"."""
    losses = [2.3 * 0.97**i for i in range(50)] + [0.5 + 0.03 * i for i in range(50)]
    accuracies = [0.5, 0.6, 0.68, 0.7, 0.69, 0.55, 0.45, 0.4, 0.35, 0.3]
    got = verdict(page, job(), losses, evaluations(accuracies))
    assert (f"Training worsened from epoch 4 on: the test accuracy fell from 70.0{NARROW}% to "
            f"35.0{NARROW}%, and the train loss rose from 0.") in got["text"]
    assert "stood still" not in got["text"] and got["chart"] == "accuracy"
    assert changes(got) == {"/optimizer/learning_rate": 0.005}


@pytest.mark.parametrize("accuracies", [
    [0.098, 0.344, 0.376, 0.666, 0.478, 0.834], [0.3, 0.5, 0.83, 0.4, 0.45, 0.82]])
def test_a_run_that_ends_as_well_as_it_ever_was_has_not_worsened(page, accuracies):
    """Its accuracy "fell from 83.4 % to 66.6 % from epoch 6 on", where it was best."""
    losses = [2.3 * 0.98**i for i in range(80)] + [0.455 + 0.02 * i for i in range(20)]
    got = verdict(page, job(), losses, evaluations(accuracies))
    assert "worsened" not in got["text"] and "fell" not in got["text"], got["text"]


def test_what_a_plateau_says_is_true_of_a_program_and_of_an_accuracy_that_wanders(page):
    """The rate of a user's program is not known, and its tests spread around what they stay at."""
    document = job(state="succeeded")
    del document["spec"]["optimizer"], document["spec"]["model"]
    accuracies = [0.118, 0.108, 0.104, 0.1, 0.11, 0.098, 0.1, 0.094, 0.096, 0.1, 0.096]
    got = verdict(page, document, [2.3] * 100, evaluations(accuracies))
    assert f"the test accuracy stayed between 9.4{NARROW}% and 11.8{NARROW}%," in got["text"]
    assert got["evidence"].startswith("Lowering the learning rate where learning stops is")


def test_minibatches_that_no_step_was_made_with_are_not_told(page):
    """An assignment of the run's last moments; sizes at the end are those of its last rows."""
    given = [{"version": v, "batches": {"a": 128 - size, "slow": size}}
             for v, size in enumerate((64, 48, 32))]

    def told(ends):
        code = "m.inForce({}, {{endsAt: (_, node, size) => ({})[node].includes(size)}})"
        return [a["version"] for a in call(page, "/js/views/job/model/placed.js",
                                           code.format(json.dumps(given), json.dumps(ends)))]

    assert told({"a": [80], "slow": [48]}) == [0, 1]
    assert told({"a": [96], "slow": [32]}) == [0, 1, 2]
    assert told({"a": [11], "slow": [5]}) == [0, 1, 2], "the rest of an epoch says nothing"


def test_a_run_that_overfits_also_hears_of_its_straggler_and_one_at_chance_does_not(page):
    workers = [worker(0, "a"), worker(1, "b"), worker(2, "slow", compute=0.03)]
    losses, accuracies = [0.9, 0.7, 0.8, 0.9, 1.0, 1.1], [0.7, 0.75, 0.75, 0.75, 0.75, 0.75]
    got = verdict(
        page, job(state="running", workers=workers), FALLS, evaluations(accuracies, losses)
    )
    assert (
        got["text"].startswith("The network overfits since epoch 2")
        and "slow computes 3.0× slower" in got["text"]
        and got["straggler"] == "slow"
    )
    document = {**at_rate(0.5, 0.103, "running"), "workers": workers}
    got = verdict(page, document, FLAT, evaluations([0.103] * 5))
    assert "slow" not in got["text"] and not got.get("straggler"), "it has another care"


def test_a_run_that_exchanges_most_of_the_time_hears_about_that_first_and_then_of_its_straggler(
    page,
):
    workers = [
        worker(0, "a", compute=0.0029, exchange=0.0067),
        worker(1, "slow-1", compute=0.0033, exchange=0.0067, batch=32),
    ]
    got = verdict(page, job(state="running", workers=workers), FALLS)
    assert got["text"].startswith(
        f"The exchange of gradients limits this run: of a step of 9.80{NARROW}ms, "
        f"6.70{NARROW}ms are exchange and 3.10{NARROW}ms computing. slow-1 computes "
    )
    assert (
        changes(got) == {"/batching/global_batch": 256, "/optimizer/learning_rate": 0.1}
        and got["action"]["text"] == "Clone with a global batch of 256 and a rate of 0.1"
        and got["chart"] == "throughput"
        and got["straggler"] == "slow-1"
    )


def test_loading_is_told_too_where_the_exchange_takes_more(page):
    """A step of 55 ms was 26 ms of exchange and 10 ms of computing; 19 ms were untold."""
    workers = [worker(r, n, compute=0.010, exchange=0.026, load_seconds=0.019)
               for r, n in enumerate("ab")]
    got = verdict(page, job(workers=workers), FALLS)
    assert (f"of a step of 55.0{NARROW}ms, 26.0{NARROW}ms were exchange, 19.0{NARROW}ms loading "
            f"data and 10.0{NARROW}ms computing.") in got["text"]


def test_one_node_has_the_whole_global_batch(page):
    """Its mean is less, since an epoch's last minibatch is: "a step of 255 samples"."""
    got = verdict(page, job(workers=[worker(0, "a", batch=127.4)]), FALLS)
    assert "One node trained: a step of 128 samples took it" in got["text"]


def test_an_exchange_that_a_larger_batch_cannot_hide_is_made_less_often(page):
    """By the strategy that the catalogue says exchanges every few steps, whatever its name."""
    workers = [worker(0, "a", compute=0.003, exchange=0.7),
               worker(1, "b", compute=0.003, exchange=0.7)]
    strategies = [{"name": "sync", "replicas": "alike"},
                  {"name": "averages", "replicas": "averaged", "exchanges_every": "steps"}]
    got = verdict(page, job(workers=workers), FALLS, strategies=strategies)
    assert changes(got) == {"/strategy": {"type": "averages", "steps": 16}}, got["text"]
    strategies[0]["replicas"] = "other"
    got = verdict(page, job(workers=workers), FALLS, strategies=strategies)
    assert changes(got)["/batching/global_batch"] == 512, got["text"]


def test_a_run_that_waits_for_its_data_hears_so(page):
    got = verdict(page, job(state="running"), FALLS, loading=0.45)
    assert (
        got["text"] == f"Loading data limits this run: it takes 45{NARROW}% of the time."
        and got["chart"] == "throughput"
    )
    assert "Loading" not in verdict(page, job(state="running"), FALLS, loading=0.05)["text"]
    assert got["action"] == {"text": "See the load of a", "href": "#/nodes?node=a"}
    pictures = job(state="running")
    pictures["spec"]["data"] = {"format": "images", "path": "mine", "threads": 3}
    got = verdict(page, pictures, FALLS, loading=0.45)
    assert "threads that decode pictures" in got["evidence"]
    assert changes(got) == {"/data/threads": 6}


def test_loading_is_what_rows_tell_whenever_they_end(page):
    """A program loads within what a rank takes for a step, so nothing is left between two steps."""
    part = {"compute_seconds": 0.02, "exchange_seconds": 0.01, "wait_seconds": 0.01, "attempt": 1}
    rows = [{"time": 0.1 * i, "load_seconds": 0.06, **part} for i in range(10)]
    share = call(
        page, "/js/measures/measures.js",
        f"m.loadingShare([{{node: 'a', rows: {json.dumps(rows)}}}])"
    )
    assert share == pytest.approx(0.6)


def test_loading_is_what_a_step_does_not_tell_and_tests_between_steps_do_not_count(page):
    rows = [
        {
            "time": 0.020 * i + (5 if i > 20 else 0),
            "compute_seconds": 0.008,
            "exchange_seconds": 0.002,
            "wait_seconds": 0,
            "attempt": 1,
        }
        for i in range(40)
    ]
    share = call(
        page, "/js/measures/measures.js",
        f"m.loadingShare([{{node: 'a', rows: {json.dumps(rows)}}}])"
    )
    assert share == pytest.approx(0.5)


def test_a_run_that_is_well_says_so_and_has_nothing_to_do(page):
    got = verdict(
        page, job(state="running"), FALLS, evaluations([0.9 + 0.006 * i for i in range(10)])
    )
    assert (
        "about equally fast" in got["text"]
        and "Nothing needs doing." in got["evidence"]
        and "action" not in got
    )


def test_a_finished_run_is_judged_over_all_of_it_and_in_the_past_tense(page):
    """At its end the fast node was disturbed; and slow's minibatch had grown, which is no
    consequence of its speed."""
    moment = [
        worker(0, "fast", batch=88, compute=0.030),
        worker(1, "slow", batch=40, compute=0.012),
    ]
    whole = [worker(0, "fast", batch=90, compute=0.010), worker(1, "slow", batch=38, compute=0.010)]
    moves = [
        {"version": 1, "step": 0, "time": "", "reason": "", "batches": {"fast": 104, "slow": 24}},
        {"version": 2, "step": 50, "time": "", "reason": "", "batches": {"fast": 88, "slow": 40}},
    ]
    got = verdict(page, job(workers=moment), FALLS, evaluations([0.9, 0.96]), moves, workers=whole)
    assert got["straggler"] == "slow"
    assert (
        "slow computed 2.4× slower than fast; its minibatch of 40 let both finish "
        f"a step together: 10.0{NARROW}ms of computing."
        in got["text"]
    )
    assert (
        "from 24 to 40" not in got["text"]
        and "averaged over the run" in got["evidence"]
        and "Nothing needs doing" not in got["evidence"]
    )


def test_equal_minibatches_offer_dynamic_ones(page):
    document = job(
        state="running",
        workers=[
            worker(0, "a", compute=0.010),
            worker(1, "b", compute=0.010),
            worker(2, "c", compute=0.020),
        ],
    )
    document["spec"]["batching"] = {"global_batch": 192, "policy": "equal"}
    document["assignment"]["global_batch"] = 192
    got = verdict(page, document, FALLS)
    assert "Dynamic minibatches would make a step about" in got["text"] and changes(got) == {
        "/batching/policy": "dynamic"
    }
    document["spec"]["batching"] = {"global_batch": 192, "policy": "static",
                                    "sizes": [64, 64, 64], "min_batch": 4}
    got = verdict(page, document, FALLS)
    assert "Dynamic minibatches would make a step about" in got["text"] and changes(got) == {
        "/batching": {"global_batch": 192, "policy": "dynamic", "min_batch": 4}
    }, "sizes belong to the policy that was given up"


def test_waiting_is_a_share_of_the_whole_step_and_not_of_computing(page):
    """Of 4 ms, the others wait 1 ms for c; the rest they compute and exchange."""
    document = job(
        state="running",
        workers=[
            worker(0, "a", compute=0.001, exchange=0.002, wait=0.001),
            worker(1, "b", compute=0.001, exchange=0.002, wait=0.001),
            worker(2, "c", compute=0.002, exchange=0.002),
        ],
    )
    document["spec"]["batching"] = {"global_batch": 192, "policy": "equal"}
    document["assignment"]["global_batch"] = 192
    got = verdict(page, document, FALLS)
    assert f"the others wait 25{NARROW}% of each step for it" in got["text"]
    assert f"would make a step about 20{NARROW}% shorter" in got["text"]


def test_a_minibatch_that_cannot_become_smaller_asks_for_a_larger_global_batch(page):
    document = job(
        workers=[
            worker(0, "a", batch=4, compute=0.008),
            worker(1, "b", batch=4, compute=0.008),
            worker(2, "slow", batch=4, compute=0.032),
        ]
    )
    document["spec"]["batching"] = {"global_batch": 12, "policy": "dynamic"}
    document["assignment"]["global_batch"] = 12
    got = verdict(page, document, FALLS, evaluations([0.7, 0.8]))
    assert (
        "slow computed 4.0× slower than the median node. Its minibatch could not become smaller: "
        "sizes are multiples of 4, and the global batch of 12 leaves each node 4."
        in got["text"]
    )
    assert changes(got)["/batching/global_batch"] == 96


def test_a_loss_of_nan_blames_no_node_and_counts_the_clusters_steps(page):
    """"About update 6" was the step of one worker: the run had made 12 updates."""
    message = "the loss became NaN or infinite: step 6 of worker 2"
    document = job(
        state="failed",
        error={"code": "not_finite", "message": message, "rank": 2, "node": "mid", "attempt": 1},
    )
    document["progress"]["step"] = 12
    document["spec"]["optimizer"]["learning_rate"] = 1000
    got = verdict(page, document)
    assert (
        got["text"] == "The loss became NaN or infinite about step 12."
        and "which is not its cause" in got["evidence"]
    )
    assert "it was 1" in got["evidence"] and got["chart"] == "loss"
    del document["spec"]["optimizer"]  # a user's program has its own
    assert "does this: a smaller one is the first to try." in verdict(page, document)["evidence"]


def test_times_of_a_virtual_job_are_virtual(page):
    document = job(seconds=1024.0, metrics={"test_accuracy": 0.87, "samples_per_second": 6400.0})
    document["spec"]["cluster"] = {"nodes": []}
    assert (
        f"The job reached 87.0{NARROW}% test accuracy in 17{NARROW}min of virtual time."
        in verdict(page, document)["text"]
    )
    short = verdict(page, job(finished="2026-01-02T03:00:01.400Z", seconds=0.4))["text"]
    assert f"in 0.40{NARROW}s." in short, "no run takes 0 s"
    finished = "2026-01-02T03:03:44.000Z"
    longer = job(finished=finished, seconds=223, metrics={"test_accuracy": 0.87})
    assert f"in 3{NARROW}min 43{NARROW}s." in verdict(page, longer)["text"]


@pytest.mark.parametrize("virtual", [False, True])
def test_a_version_takes_its_samples_by_the_samples_of_a_second(page, virtual):
    """Sixteen nodes under asgd, 16 × 64 samples a step: a version is 64 samples, 40 ms at 1,600
    samples/s, whatever step_seconds means."""
    document = job(
        assignment={"version": 1, "global_batch": 1024},
        progress={"epoch": 1, "epochs": 1, "step": 1600, "samples": 102400, "fraction": 1},
        metrics={"samples_per_second": 1600.0, "step_seconds": 0.04 if virtual else 0.64},
    )
    document["spec"].update(
        strategy={"type": "asgd", "servers": 1},
        batching={"global_batch": 1024},
        **({"cluster": {}} if virtual else {}),
    )
    assert call(
        page, "/js/measures/measures.js", f"m.secondsPerVersion({json.dumps(document)})"
    ) == pytest.approx(0.04)
    assert call(page, "/js/measures/measures.js", f"m.globalSteps({json.dumps(document)})") == 100


@pytest.mark.parametrize("epoch, said", [(3, "epoch 3"), (2.4, "epoch 3"), (10, None)])
def test_a_run_that_stopped_at_its_target_says_so(page, epoch, said):
    """It said that all of its ten epochs were made."""
    document = job(progress={"epoch": epoch, "epochs": 10, "step": 300, "samples": 38400,
                             "fraction": 1})
    document["spec"]["target"] = {"test_accuracy": 0.95}
    text = verdict(page, document, FALLS, evaluations([0.9, 0.93, 0.96]))["text"]
    reached = f"reached its target of 95.0{NARROW}% in {said} of 10: 96.0{NARROW}% test accuracy"
    assert reached in text if said else "its target" not in text, text


def test_of_two_nodes_the_slower_is_held_against_the_other(page):
    """The median of two is neither: a node that took four times as long was "1.6 times slower than
    the median node"."""
    workers = [worker(0, "fast"), worker(1, "slow", compute=0.04)]
    got = verdict(page, job(workers=workers), FALLS)
    assert "slow computed 4.0× slower than fast" in got["text"]
    assert f"0.625{NARROW}ms per sample; fast needed 0.156{NARROW}ms" in got["evidence"]
    even = verdict(page, job(), FALLS)
    assert "per sample; the other 0.156" in even["evidence"], even["evidence"]


def test_a_run_that_was_too_short_has_reached_nothing(page):
    document = {**at_rate(0.05, 0.085), "progress": {"step": 1, "epoch": 1, "samples": 64}}
    got = verdict(page, document, [2.27], evaluations([0.085]))
    assert got["text"].startswith("The job ended after") and "reached" not in got["text"]


def test_a_step_has_what_the_service_says_and_not_more_than_the_training_set(page):
    job = {"progress": {"step": 2, "samples": 5120}, "assignment": {"global_batch": 2560},
           "spec": {"strategy": {"type": "sync"}, "batching": {"global_batch": 10**6}}}
    assert call(page, "/js/measures/measures.js", f"m.globalSteps({json.dumps(job)})") is None, (
        "each update is a step")
