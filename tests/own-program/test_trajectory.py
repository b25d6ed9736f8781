"""A PyTorch program goes the way of a job of ours with the same network, as the programs in NumPy
and C do (tests/integration/test_program_trajectory.py)."""

import os
import sys

import pytest

from tree import ROOT


sys.path.insert(0, os.path.join(ROOT, "tests/integration"))
from trajectory import SERVED, TOGETHER, Network  # noqa: E402
from trajectory import go_the_same_way_served, go_the_same_way_together  # noqa: E402


@pytest.fixture
def network(torch_programs, tmp_path):
    def start(folder, momentum, in_order):
        command = torch_programs.command("torch_cases.network", "train", tmp_path / "program")
        env = {"TEST_DATA": str(folder), "TEST_MOMENTUM": str(momentum),
               "TEST_IN_ORDER": str(int(in_order))}
        return {"command": command[:2], "args": command[2:], "env": env}

    return Network(8, 16, 4, "relu", 0.1, start)


def names(value):
    return "-".join(map(str, value.values())) if isinstance(value, dict) else str(value)


@pytest.mark.parametrize("strategy, momentum", TOGETHER, ids=names)
def test_ranks_that_step_together_go_the_same_way(tmp_path, network, strategy, momentum):
    go_the_same_way_together(tmp_path, network, strategy, momentum)


@pytest.mark.parametrize("strategy, momentum", SERVED, ids=names)
def test_in_the_same_order_of_gradients_a_server_goes_the_same_way(tmp_path, network, strategy,
                                                                   momentum):
    go_the_same_way_served(tmp_path, network, strategy, momentum)
