"""The example in C of client/examples, alone and on real ranks."""

import os
import re
import subprocess

import pytest

from real_rank import run_local
from tree import BUILD

STRATEGIES = [
    {"type": "sync"},
    {"type": "asgd"},
    {"type": "dbs-sgd"},
    {"type": "dc-asgd"},
    {"type": "hpsgd", "k": 1},
    {"type": "hier-sgd", "k1": 1, "k2": 2},
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s["type"])
def test_the_c_example_learns_its_digits(tmp_path, strategy):
    digits = os.path.join(BUILD, "client/examples/digits")
    done = run_local([digits], [36, 24], strategy, tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    accuracies = [float(a) for a in re.findall(r'line="accuracy ([0-9.]+)"', done.stderr)]
    assert len(accuracies) == 2 and min(accuracies) > 0.9


def test_the_c_example_alone_learns_as_it_did_without_the_library():
    examples = os.path.join(BUILD, "client/examples")
    said = [
        subprocess.run([os.path.join(examples, name)], capture_output=True, text=True, timeout=60)
        for name in ("digits", "digits-alone")
    ]
    accuracies = [float(s.stdout.split()[-1]) for s in said]
    assert min(accuracies) > 0.9 and abs(accuracies[0] - accuracies[1]) < 0.05
