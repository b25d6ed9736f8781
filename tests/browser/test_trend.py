"""The page's sentence over canned runs whose accuracy says little: two classes, numbers that are
predicted, users' programs."""
import pytest

from canned import evaluations, job
from test_pure import NARROW, page  # noqa: F401  (a fixture)
from test_verdict import FALLS, RISES, verdict


TWO = {"input": [8], "layers": [{"type": "dense", "units": 2}]}
NUMBERS = {"input": [8], "layers": [{"type": "dense", "units": 1}], "loss": "mse"}


def of_model(model, **changes):
    document = job(**changes)
    document["spec"]["model"] = model
    document["metrics"].pop("test_accuracy")
    return document


def of_program(**changes):
    document = of_model("mlp", **changes)
    del document["spec"]["model"], document["spec"]["data"], document["spec"]["optimizer"]
    document["spec"]["program"] = {"digest": "0" * 64, "command": ["python3", "train.py"]}
    return document


@pytest.mark.parametrize("accuracy, guessed", [(0.53, True), (0.6, False), (0.95, False)])
def test_of_two_classes_an_accuracy_of_60_percent_is_better_than_guessing(page, accuracy, guessed):
    """It was "no better than guessing", which gets 50 %."""
    got = verdict(page, of_model(TWO), FALLS, evaluations([accuracy] * 3))
    assert ("no better than guessing" in got["text"]) == guessed, got["text"]


def test_two_classes_that_were_learned_and_lost_were_learned(page):
    """Nothing is above twice the accuracy of guessing among two."""
    document = of_model(TWO, metrics={"test_accuracy": 0.5, "best_test_accuracy": 0.9})
    got = verdict(page, document, RISES, evaluations([0.9] * 5 + [0.5] * 5))
    assert f"lost what it had learned: 90.0{NARROW}%" in got["text"]


def test_an_accuracy_that_never_changes_may_be_that_of_one_answer(page):
    """95 % of the samples are of one class: a lower rate would change nothing."""
    losses = [0.7 * 0.8**i for i in range(10)] + [0.2] * 90
    got = verdict(page, of_model(TWO), losses, evaluations([0.95] * 8))
    assert "one answer" in got["evidence"] and "Confusion" in got["evidence"], got
    got = verdict(page, of_model(TWO), losses, evaluations([0.9] + [0.95] * 7))
    assert "one answer" not in got["evidence"]


FALLS_AND_RISES = [2 * 0.9**i for i in range(50)] + [0.01 * 1.1**i for i in range(50)]


@pytest.mark.parametrize("of", [lambda: of_model(NUMBERS), of_program])
def test_a_loss_that_rises_again_is_told_where_no_accuracy_tells_it(page, of):
    """Nothing was said of a regression or a program whose loss was at half of its start again."""
    got = verdict(page, of(), FALLS_AND_RISES)
    assert "The train loss rose again: it began at 1." in got["text"], got["text"]
    assert "was down to 0.01" in got["text"] and got["chart"] == "loss"
    now = verdict(page, {**of(), "state": "running"}, FALLS_AND_RISES)
    assert "The train loss rises again" in now["text"] and "is now 0." in now["text"]


@pytest.mark.parametrize("losses, said", [
    ([0.9] * 100, "did not fall: it began at 0.900 and ended at 0.900."),
    ([0.9 - 0.00005 * i for i in range(100)], "hardly fell"),
    ([-5 - 0.0001 * i for i in range(100)], "hardly fell: it began at −5.00"),
    ([0.69 + 0.03 * i for i in range(100)], "rose: it began at 0.7"),
    ([-5 - 0.05 * i for i in range(100)], None),
    ([-5 * 0.97**i for i in range(60)], "did not fall"),
    ([0.3 * (-1)**i for i in range(100)], None),
])
def test_a_programs_loss_has_its_own_meaning(page, losses, said):
    """One below 0 that stayed had "diverged": it was above twice its start."""
    got = verdict(page, of_program(), losses)
    assert "diverged" not in got["text"], got["text"]
    assert said is None or said in got["text"], got["text"]
    assert said is not None or "The train loss" not in got["text"], got["text"]


def test_a_loss_below_0_that_stays_does_not_overfit(page):
    got = verdict(page, of_program(), [-4 - 0.02 * i for i in range(100)],
                  evaluations([None] * 8, [-4, -5, -5.5, -5.4, -5.4, -5.4, -5.4, -5.4]))
    assert "overfit" not in got["text"], got["text"]
