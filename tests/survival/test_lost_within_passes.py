"""A worker of `sync` that is killed while users' programs make further backward passes over a step
(docs/decisions/0088): the others sum that pass again without it. Real processes and kill -9."""
import json
import random
import secrets

import numpy as np
import pytest

from service import Service
from test_lost_worker import NODES, SAMPLES, STEPS, lose_behind_gate, run_program
from test_program import first_parameters, gradient


@pytest.fixture(scope="module")
def service():
    with Service(nodes=NODES, options=["--allow-programs"]) as s:
        yield s


@pytest.mark.parametrize("rank,ahead,passes,point", [
    (0, 1, 2, "between"), (1, 2, 3, "again"), (3, 5, 2, "again")])
def test_a_step_of_several_passes_is_made_without_one_that_is_killed_within(service, rank, ahead,
                                                                            passes, point):
    """After the sum of a step's first pass, in a program with two passes like a GAN
    (docs/decisions/0088). Each further pass adds half of the gradient; only these parts of the
    killed rank's samples in that step are missing."""
    after = random.randrange(2) * STEPS + random.randrange(2, STEPS - ahead - 2)
    print("in slice", after)
    seen = service.dir / f"seen-{secrets.token_hex(8)}"
    seen.mkdir()
    id, gate = run_program(service, ahead, after, point, "--on", rank, "--passes", passes,
                           "--seen", seen)
    event = lose_behind_gate(service, id, rank, gate)
    assert (event["rank"], event["others"], event["step"]) == (rank, 3, after + 1)
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1
    assert job["progress"]["samples"] == sum(w["samples"] for w in job["workers"]) == 2 * SAMPLES
    number, _, indices = json.loads((seen / f".seen-{rank}").read_text().splitlines()[-1])
    assert number == after and indices
    halves = (passes - 1) / 2
    expected = first_parameters() - (2 * (1 + halves) * gradient(range(SAMPLES))
                                     - halves * gradient(indices)) / 512
    for left in {0, 1, 2, 3} - {rank}:
        params = json.loads(service.artifact(id, f"rank-{left}.json"))["params"]
        assert (np.array(params, "f4") == expected.astype("f4")).all(), f"of rank {left}"


@pytest.mark.parametrize("rank,ahead,point", [
    (0, 1, "after"), (2, 2, "after"), (1, 1, "evaluation")])
def test_one_is_killed_where_all_ask_whether_a_pass_follows(service, rank, ahead, point):
    """Before an epoch's evaluation, and during it. The killed rank has made all passes of that
    step."""
    id, gate = run_program(service, ahead, STEPS - 1, point, "--on", rank, "--passes", 2)
    event = lose_behind_gate(service, id, rank, gate)
    assert (event["rank"], event["others"], event["step"]) == (rank, 3, STEPS)
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1
    assert job["progress"]["samples"] == sum(w["samples"] for w in job["workers"]) == 2 * SAMPLES
    expected = first_parameters() - 3 * gradient(range(SAMPLES)) / 512
    for left in {0, 1, 2, 3} - {rank}:
        params = json.loads(service.artifact(id, f"rank-{left}.json"))["params"]
        assert (np.array(params, "f4") == expected.astype("f4")).all(), f"of rank {left}"
