"""The learning rate that the page offers over canned runs that diverged or learned nothing."""
import json

import pytest

from canned import evaluations
from test_pure import call, page  # noqa: F401  (a fixture)
from test_verdict import FLAT, RISES, at_rate, changes, verdict


@pytest.mark.parametrize("optimizer, wanted", [
    ({"type": "sgd", "learning_rate": 50, "momentum": 0.9}, 0.01),
    ({"type": "sgd", "learning_rate": 5, "momentum": 0.5}, 0.05),
    ({"type": "sgd", "learning_rate": 1, "momentum": 0.9}, 0.1),
    ({"type": "adam", "learning_rate": 5}, 0.001),
    ({"type": "adam", "learning_rate": 0.1}, 0.01),
])
def test_a_rate_that_is_far_too_high_is_followed_by_a_usual_one(page, optimizer, wanted):
    """A tenth of 50 diverges, too, and so does a tenth of that."""
    document = at_rate(50, 0.103)
    document["spec"]["optimizer"] = optimizer
    for losses in (RISES, FLAT):  # diverged, and at chance
        got = verdict(page, document, losses, evaluations([0.103] * 10))
        assert changes(got) == {"/optimizer/learning_rate": wanted}
    document.update(state="failed", error={"code": "not_finite"})
    failed = {"job": document, "artifacts": [], "tests": []}
    [made] = call(page, "/js/sentences/remedies.js", f"m.remedies({json.dumps(failed)})")
    assert made["spec"]["optimizer"]["learning_rate"] == wanted


def test_a_rate_that_its_schedule_raised_is_what_is_told_and_mended(page):
    rises = {"type": "step", "at_epochs": [8], "factor": 1000}
    document = at_rate(0.01, 0.1)
    document["spec"]["optimizer"]["schedule"] = rises
    got = verdict(page, document, RISES, evaluations([0.6] * 5 + [0.1] * 5))
    assert changes(got) == {"/optimizer/schedule": {"type": "constant"}}
    document.update(state="failed", error={"code": "not_finite"})
    document["progress"]["epoch"] = 8.01
    assert "it was 10 there, after it began at 0.01." in verdict(page, document)["evidence"]


def test_a_run_at_chance_whose_loss_still_falls_is_to_go_on(page):
    """82 steps of asgd at a usual rate were offered a tenth of it."""
    slowly = [2.34 - 0.0005 * i for i in range(100)]
    got = verdict(page, at_rate(0.02, 0.11), slowly, evaluations([0.1, 0.11]))
    assert changes(got) == {"/epochs": 40} and "so do too few steps" in got["evidence"]
