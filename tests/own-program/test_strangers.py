"""Programs that were not written for Evenstep: what people write, with its two lines added.

Each runs alone, under `sync` on two real ranks with unequal minibatches, where it ends with the
parameters that it had alone, and under a strategy with a server, where it ends well. The first two
need the same samples in each step: a batch is the whole set there, or the order is the set's.
"""

import numpy as np
import pytest

from compare import bit_identical, difference
from conftest import python_with
from nursery import Nursery
from real_rank import COLUMNS, rows_of, run_local
from stranger_runs import PROGRAMS, SAMPLES, KEEPS_ROWS, STEPS_WITHIN, SCALED, ZIPPED
from stranger_runs import AHEAD, BY_STEPS, OFTEN, on_ranks, tensors_of
from tree import environment


@pytest.mark.parametrize("name", PROGRAMS)
def test_sync_on_unequal_ranks_equals_the_program_alone(torch_programs, run_programs, tmp_path,
                                                        name):
    batch, off = PROGRAMS[name]
    alone = run_programs(torch_programs, "strangers.run", name).results[0]
    sizes = [batch * 5 // 8, batch * 3 // 8]
    done, results = on_ranks(torch_programs, name, tmp_path / "sync", sizes, {"type": "sync"})
    assert bit_identical(results)
    found = difference(results[0], alone)
    print("%s: %.1e" % (name, found))
    assert found < off and rows_of(done)


# a loop over steps that ends with an epoch ends the run there, and other nodes have fewer steps
SERVED = set(PROGRAMS) - BY_STEPS - KEEPS_ROWS - STEPS_WITHIN - SCALED - ZIPPED - AHEAD


@pytest.mark.parametrize("name", sorted(SERVED))
def test_a_server_trains_it(torch_programs, tmp_path, name):
    batch, _ = PROGRAMS[name]
    sizes = [batch * 5 // 8, batch * 3 // 8]
    done, results = on_ranks(torch_programs, name, tmp_path, sizes, {"type": "dbs-sgd"})
    assert all(np.isfinite(v).all() for r in results for v in r.values())
    assert "changes between steps" not in done.stderr, "the program stepped beside the server"
    rows = [dict(zip(COLUMNS, row.split(","))) for row in rows_of(done)]
    # at least; of the epoch in which the first of them leaves, others may have begun a step
    assert sum(int(r["batch"]) for r in rows) >= 3 * SAMPLES.get(name, 96)


def test_clipping_that_a_server_does_not_do_is_told(torch_programs, tmp_path):
    sizes, strategy = [20, 12], {"type": "dbs-sgd"}
    done, _ = on_ranks(torch_programs, "text_bags", tmp_path / "clips", sizes, strategy)
    told = "a change of the gradients after backward() (clipping) has no effect"
    assert done.stderr.count(told) == 2
    done, _ = on_ranks(torch_programs, "pictures", tmp_path / "leaves", sizes, strategy)
    assert told not in done.stderr


@pytest.mark.parametrize("seed", ["", "rank"])
def test_noise_that_is_the_same_on_each_node_is_told(torch_programs, tmp_path, seed):
    """On equal nodes, which draw as much in each step."""
    done, ends = on_ranks(torch_programs, "noise", tmp_path, [16, 16], {"type": "sync"},
                          variables={"TEST_SEED": seed})
    same = np.array_equal(ends[0]["drawn"], ends[1]["drawn"])
    told = "this program draws random numbers for the samples of a batch"
    assert (same, done.stderr.count(told)) == ((False, 0) if seed else (True, 2))


def test_noise_of_gradients_is_the_same_on_each_node_and_none_of_samples(torch_programs, tmp_path):
    """What the log would say, seed + rank, would have them drift apart."""
    done, ends = on_ranks(torch_programs, "noise", tmp_path, [16, 16], {"type": "sync"},
                          variables={"TEST_NOISE": "gradients"})
    assert bit_identical(ends) and "draws random numbers for the samples" not in done.stderr


def test_a_batch_may_be_taken_between_a_forward_pass_and_its_backward_pass(
        torch_programs, run_programs, tmp_path):
    """nanoGPT asks for it while a GPU computes."""
    alone = run_programs(torch_programs, "strangers.run", "like_nanogpt").results[0]
    _, results = on_ranks(torch_programs, "like_nanogpt", tmp_path / "sync", [20, 12],
                          {"type": "sync"}, variables={"TEST_AHEAD": "1"})
    assert bit_identical(results) and difference(results[0], alone) < 2e-5


@pytest.mark.parametrize("ahead", ["", "1"])
def test_the_last_batch_in_hand_is_trained_where_the_job_ends_first(torch_programs, tmp_path,
                                                                   ahead):
    """Six batches, of which nanoGPT takes a seventh before it has used the sixth."""
    ahead = {"TEST_AHEAD": ahead}
    _, ends = on_ranks(torch_programs, "like_nanogpt", tmp_path / "own", [20, 12],
                       {"type": "sync"}, variables={**ahead, "TEST_ITERS": "3"})
    command = torch_programs.command("strangers.run", "like_nanogpt", tmp_path / "rank")
    done = run_local(command, [20, 12], {"type": "sync"}, tmp_path,
                     ["--out", str(tmp_path / "job")], variables=ahead, epochs=2)
    assert done.returncode == 0 and len(rows_of(done)) == 2 * 6
    saved = tensors_of(tmp_path / "job/artifacts/model.safetensors")
    assert difference(saved, {key: ends[0]["0." + key].ravel() for key in saved}) < 2e-6


@pytest.mark.parametrize("name", ["data_prefetcher", "marks_last"])
def test_a_batch_that_is_taken_ahead_is_refused_under_a_server(torch_programs, tmp_path, name):
    command = torch_programs.command("strangers.run", name, tmp_path / "rank")
    half = PROGRAMS[name][0] // 2
    done = run_local(command, [half, half], {"type": "asgd"}, tmp_path)
    assert done.returncode != 0
    assert "under this strategy a slice of the job ends where the next batch" in done.stderr


@pytest.mark.parametrize("name", ["data_prefetcher", "marks_last"])
@pytest.mark.parametrize("strategy", ["local-sgd", "hier-sgd"])
def test_what_takes_a_batch_ahead_saves_the_average(torch_programs, tmp_path, name, strategy):
    """Behind its last batch it does not ask the loader any more."""
    batch = PROGRAMS[name][0]
    _, ends = on_ranks(torch_programs, name, tmp_path, [batch * 5 // 8, batch * 3 // 8],
                       {"type": strategy, **OFTEN[strategy]})
    assert bit_identical(ends)


def test_a_file_that_every_node_saves_is_told(torch_programs, tmp_path):
    done, _ = on_ranks(torch_programs, "adapters", tmp_path / "sync", [20, 12], {"type": "sync"})
    told = "this node saves 'adapters.pt' beneath $EVENSTEP_OUTPUT"
    assert done.stderr.count(told) == 2, "by rank 0 too, whose lines `evenstep run` shows"
    done, _ = on_ranks(torch_programs, "trainer", tmp_path / "main", [60, 36], {"type": "sync"})
    assert "this node saves" not in done.stderr, "it asks is_main()"


@pytest.mark.parametrize("name", ["early_stopping", "steps_not_epochs", *sorted(AHEAD)])
def test_it_ends_where_it_likes_on_one_rank_too(torch_programs, run_programs, tmp_path, name):
    """Most steps of a single rank are made without asking it."""
    alone = run_programs(torch_programs, "strangers.run", name).results[0]
    _, results = on_ranks(torch_programs, name, tmp_path / "one", [PROGRAMS[name][0]],
                          {"type": "sync"})
    assert difference(results[0], alone) < PROGRAMS[name][1]


def test_a_figure_that_is_nan_hides_no_other(torch_programs, tmp_path):
    done, _ = on_ranks(torch_programs, "gan_lists", tmp_path / "sync", [20, 12], {"type": "sync"})
    assert 'name="fid" value=nan' in done.stderr and 'name="loss_g" value=0.' in done.stderr
    evaluations = [l for l in done.stdout.splitlines() if l.startswith("evaluation,")]
    assert len(evaluations) == 3 and all(",0.500000," in line for line in evaluations)


@pytest.mark.parametrize("name", ["jax_mlp", "jax_optax"])
def test_a_jax_program_ends_where_it_ends_alone(run_programs, tmp_path, name):
    nursery = Nursery(python_with("jax", "numpy"), "numpy", environment())
    try:
        alone = run_programs(nursery, "strangers.run", name).results[0]
        _, results = on_ranks(nursery, name, tmp_path / "sync", [20, 12], {"type": "sync"})
        assert bit_identical(results) and difference(results[0], alone) < 2e-5
        on_ranks(nursery, name, tmp_path / "asgd", [20, 12], {"type": "asgd"})
    finally:
        nursery.close()


def test_one_with_arrays_that_gives_no_state_is_told_what_to_write(tmp_path):
    """Its moments are its own: under `sync` nobody else has them, elsewhere they begin anew."""
    nursery = Nursery(python_with("jax", "numpy"), "numpy", environment())
    killed = {"TEST_KILL": "5", "TEST_KILL_IN": "sum"}
    try:
        command = nursery.command("strangers.run", "jax_mlp", tmp_path / "rank")
        done = run_local(command, [20, 12], {"type": "sync"}, tmp_path, variables=killed)
        assert done.returncode != 0 and "one with arrays where it says join(save=f" in done.stderr
        done, _ = on_ranks(nursery, "jax_mlp", tmp_path / "asgd", [20, 12], {"type": "asgd"},
                           variables=killed)
        assert done.stderr.count("Adam's moments and its count), began anew") == 1
    finally:
        nursery.close()


def test_a_thread_that_reads_batches_ahead_is_refused(torch_programs, tmp_path):
    command = torch_programs.command("strangers.run", "reads_ahead", tmp_path / "rank")
    done = run_local(command, [20, 12], {"type": "sync"}, tmp_path)
    assert done.returncode != 0
    assert "the thread that makes the backward pass is not the one that takes" in done.stderr
