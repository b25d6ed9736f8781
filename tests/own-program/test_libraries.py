"""Programs whose loop, loader or optimizer a library makes: Lightning, transformers, Accelerate,
Ignite. As test_strangers.py."""

import re

import pytest

from compare import bit_identical, difference
from conftest import python_with
from nursery import Nursery
from real_rank import rows_of
from stranger_runs import on_ranks
from tree import environment

# figures of the libraries that are metrics of the job
LOGS = {"lightning_fit": {"perplexity"}, "transformers_trainer": {"grad_norm", "learning_rate"}}
# batch, and how far rounding may carry parameters
PROGRAMS = {
    "accelerate_loop": (24, 2e-5),
    "ignite_engine": (32, 2e-5),
    "lightning_fit": (32, 2e-5),
    "transformers_trainer": (32, 5e-5),
}


@pytest.fixture(scope="module")
def programs():
    python = python_with("torch", "lightning", "transformers", "accelerate", "ignite")
    made = Nursery(python, "torch,torch._dynamo,numpy,lightning,accelerate,ignite,"
                   "transformers.trainer,transformers.models.gpt2.modeling_gpt2", environment())
    yield made
    made.close()


def sizes_of(name):
    batch, _ = PROGRAMS[name]
    return [batch * 5 // 8, batch * 3 // 8]


@pytest.mark.parametrize("name", PROGRAMS)
def test_sync_on_unequal_ranks_equals_the_program_alone(programs, run_programs, tmp_path, name):
    """Also where a program is killed in its second epoch."""
    alone = run_programs(programs, "strangers.run", name).results[0]
    for killed in ({}, {"TEST_KILL": "5"}):
        done, results = on_ranks(programs, name, tmp_path / ("sync%d" % len(killed)),
                                 sizes_of(name), {"type": "sync"}, variables=killed)
        assert ('msg="goes on"' in done.stderr) == bool(killed), done.stderr[-6000:]
        assert bit_identical(results) and rows_of(done)
        found = difference(results[0], alone)
        print("%s: %.1e" % (name, found))
        assert found < PROGRAMS[name][1]
    logged = set(re.findall(r'msg="metric" .*name="([^"]*)"', done.stderr))
    assert {m for m in logged if not m.startswith("test_")} == LOGS.get(name, set())
    if name != "accelerate_loop":
        losses = re.findall(r"^evaluation,(?:[^,]*,)*?", done.stdout, re.M)
        assert len(losses) == 3, "each epoch's validation is shown"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_server_trains_it(programs, tmp_path, name):
    """Lightning validates in each epoch, however many batches of it a node has."""
    done, results = on_ranks(programs, name, tmp_path, sizes_of(name), {"type": "dbs-sgd"})
    assert rows_of(done) and len(results) == 2
    if name == "lightning_fit":
        assert len(re.findall(r"^evaluation,", done.stdout, re.M)) == 3


@pytest.mark.parametrize("at", ["6", "8", "14"])
def test_an_engine_that_is_killed_goes_on_with_its_own_count(programs, run_programs, tmp_path, at):
    """In the first step of an epoch, within one, and near the end of the run."""
    alone = run_programs(programs, "strangers.run", "ignite_engine").results[0]
    done, results = on_ranks(programs, "ignite_engine", tmp_path, sizes_of("ignite_engine"),
                             {"type": "sync"}, variables={"TEST_KILL": at})
    assert 'msg="goes on"' in done.stderr and bit_identical(results)
    assert difference(results[0], alone) < 2e-5
    assert done.stderr.count("trained 3 epochs") >= 2, "each engine comes to its end"
