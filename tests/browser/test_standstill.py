"""Runs that gain nothing more, by tests that tell two points apart, and no less."""
from canned import evaluations, job
from test_pure import NARROW, page  # noqa: F401  (a fixture)
from test_verdict import changes, verdict


def of_500(accuracies, losses):
    """Evaluations on so few samples that one standard error of an accuracy is two points."""
    return [{**e, "test_samples": 500} for e in evaluations(accuracies, losses)]


def test_a_run_that_learns_the_training_set_alone_is_told_so(page):
    """Both are of real runs, of which the page praised the accuracy: 64 % from epoch 13 to 40, and
    27 % from epoch 10 on while the train loss went on falling."""
    rises = [2.04, 1.57, 1.46, 1.36, 1.33, 1.31, 1.347, 1.366, 1.41, 1.42, 1.44, 1.45, 1.47, 1.477,
             1.5, 1.51, 1.512, 1.52, 1.534, 1.536]
    right = [0.29, 0.45, 0.47, 0.58, 0.6, 0.624, 0.638, 0.636, 0.64, 0.638, 0.642, 0.634, 0.638,
             0.646, 0.638, 0.646, 0.652, 0.648, 0.646, 0.64]
    got = verdict(page, job(), [2.3 * 0.9**i for i in range(100)], of_500(right, rises))
    assert "The network overfitted from epoch 7 on: the test loss rose from 1.35 to 1.54" in got[
        "text"] and changes(got) == {"/epochs": 7} and "lost nothing" in got["evidence"]
    flat = [2.25, 2.18, 2.14, 2.11, 2.09, 2.085, 2.08, 2.07, 2.07, 2.065, 2.066, 2.068]
    some = [0.17, 0.18, 0.226, 0.234, 0.276, 0.27, 0.268, 0.284, 0.27, 0.28, 0.278, 0.274]
    got = verdict(page, job(), [2.3 * 0.995**i for i in range(100)], of_500(some, flat))
    assert (f"The test accuracy stood still from epoch 5 on: it stayed between 26.8{NARROW}% and "
            f"28.4{NARROW}%, while the train loss fell from 1.79 to 1.4") in got["text"]
    assert changes(got) == {"/epochs": 5} and got["chart"] == "accuracy"
    falls = verdict(page, job(), [2.3 * 0.995**i for i in range(100)],
                    of_500(some, [2.3 * 0.97**i for i in range(12)]))
    assert "still" not in falls["text"], "the test loss goes on falling"
    more = verdict(page, job(), [2.3 * 0.995**i for i in range(100)],
                   of_500([*some[:11], 0.31], flat))
    assert "still" not in more["text"], "three points are no noise"
