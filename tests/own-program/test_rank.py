"""PyTorch programs on the real rank: evenstep-worker --local starts them, and gradients go over
MPI.

The other tests have a stand-in of the rank (rank.py), which can be unequal in ways that a cluster
shows seldom; here the programs, libevenstep, worker/program, the strategies and Open MPI are all
the real ones."""

import os
import subprocess

import numpy as np
import pytest

from compare import bit_identical, difference
from conftest import python_with
from real_rank import rows_of, run_local
from tree import ROOT, environment

HERE = os.path.join(ROOT, "tests/own-program")
CASE = os.path.join(HERE, "case.py")
UNEQUAL = {"sgd_momentum": 5e-7, "adamw": 2e-5, "clipping": 5e-7, "odd_parameters": 5e-6}
UNEQUAL |= {"token_weighted": 1e-6, "token_weighted_twice": 1e-6, "sum_reduction": 2e-6,
            "two_backwards": 1e-6, "two_heads": 1e-6}


def alone(python, tmp_path, case):
    """Parameters that the case ends with when nothing started it."""
    output = str(tmp_path / "alone")
    env = environment()
    env["PYTHONPATH"] += ":" + HERE
    subprocess.run([python, CASE, "torch_cases", case, output], env=env, check=True, timeout=240)
    return dict(np.load(output + ".npz"))


def on_ranks(python, tmp_path, case, sizes, strategy, options=(), variables=None, **more):
    """What each rank's program ends with, and the rows of the run."""
    command = [python, CASE, "torch_cases", case, str(tmp_path / "rank")]
    env = {"PYTHONPATH": HERE}
    done = run_local(command, sizes, strategy, tmp_path, options, env, variables, **more)
    assert done.returncode == 0, done.stderr[-4000:]
    results = [dict(np.load(tmp_path / f"rank-{i}.npz")) for i in range(len(sizes))]
    return results, rows_of(done)


@pytest.fixture(scope="module")
def python():
    return python_with("torch", "numpy")


@pytest.mark.parametrize("case", UNEQUAL)
def test_sync_on_unequal_ranks_equals_the_program_alone(python, tmp_path, case):
    results, rows = on_ranks(python, tmp_path, case, [700, 500], {"type": "sync"})
    assert len(rows) == 2 * 60
    assert bit_identical(results)
    found = difference(results[0], alone(python, tmp_path, case))
    print("%s: %.1e" % (case, found))
    assert found < UNEQUAL[case]


ONE = ["sgd_momentum", "adamw", "odd_parameters", "token_weighted", "sum_reduction",
       "two_backwards", "two_heads"]


@pytest.mark.parametrize("case", ONE)
def test_one_rank_equals_the_program_alone(python, tmp_path, case):
    """Its gradients are not copied, and most of its steps are made without asking."""
    results, rows = on_ranks(python, tmp_path, case, [1200], {"type": "sync"})
    assert len(rows) == 60
    assert difference(results[0], alone(python, tmp_path, case)) < UNEQUAL[case]


@pytest.mark.parametrize("sizes", [[700, 500], [1200]], ids=["two", "one"])
def test_each_gradient_is_copied_once_and_by_one_rank_never(python, tmp_path, sizes):
    """DistributedDataParallel copies each into a bucket and back."""
    results, _ = on_ranks(python, tmp_path, "copies", sizes, {"type": "sync"})
    tensors = sum(name != "copies" for name in results[0])
    # a few values are looked at in the first twelve (torch/step/changed.py)
    assert all(set(r["copies"][12:]) == {tensors if len(sizes) > 1 else 0} for r in results)


@pytest.mark.parametrize("where", ["step", "optimizer"])
def test_one_ranks_program_that_was_killed_makes_each_step_once(python, tmp_path, where):
    case, killed = "without_momentum", {"TEST_CRASH": "31", "TEST_CRASH_IN": where}
    results, rows = on_ranks(python, tmp_path, case, [1200], {"type": "sync"}, variables=killed)
    assert len(rows) == 60
    assert difference(results[0], alone(python, tmp_path, case)) < 5e-7


@pytest.mark.parametrize("strategy", ["sync", "asgd"])
def test_drop_last_leaves_out_other_samples_in_each_epoch(python, tmp_path, strategy):
    results, _ = on_ranks(python, tmp_path, "drop_last", [20, 12], {"type": strategy})
    assert sum(r["sizes"].sum() for r in results) == 3 * 192
    if strategy == "sync":
        assert [len(r["sizes"]) for r in results] == [18, 18]
        epochs = [np.concatenate([np.split(r["seen"], 3)[i] for r in results]) for i in range(3)]
        assert all(len(set(seen)) == 192 for seen in epochs)
        assert len({frozenset(seen) for seen in epochs}) == 3


def test_an_exception_that_one_rank_catches_leaves_the_step_out_everywhere(python, tmp_path):
    results, rows = on_ranks(python, tmp_path, "fails_in_backward", [700, 500], {"type": "sync"})
    assert len(rows) == 2 * 4 and bit_identical(results)
    # the three other steps
    assert difference(results[0], alone(python, tmp_path, "fails_in_backward")) < 5e-7


@pytest.mark.parametrize("case", ["token_weighted", "sum_loss"])
def test_token_weights_and_sums_train_where_gradients_are_not_summed_over_ranks(
        python, tmp_path, case):
    results, rows = on_ranks(python, tmp_path, case, [700, 500], {"type": "local-sgd", "k": 1})
    end, first = alone(python, tmp_path, case), alone(python, tmp_path, "untrained")
    assert rows and difference(results[0], end) < 0.5 * difference(first, end)


@pytest.mark.parametrize(
    "strategy",
    [{"type": "asgd"}, {"type": "dbs-sgd"}, {"type": "softsync", "n": 1},
     {"type": "local-sgd", "k": 2}, {"type": "hier-sgd", "k1": 1, "k2": 2},
     {"type": "hpsgd", "k": 1}], ids=lambda s: s["type"],
)
@pytest.mark.parametrize("case", ["plain_sgd", "adamw"])
def test_every_strategy_trains_the_program(python, tmp_path, strategy, case):
    """Sixty updates of the whole set or so: closer to the run alone than that is to its start."""
    results, rows = on_ranks(python, tmp_path, case, [700, 500], strategy)
    assert rows
    end, first = alone(python, tmp_path, case), alone(python, tmp_path, "untrained")
    away = sum(float(((results[0][k] - end[k]) ** 2).sum()) for k in end)
    moved = sum(float(((first[k] - end[k]) ** 2).sum()) for k in end)
    print("%s: %.3f of the way is left" % (case, (away / moved) ** 0.5))
    assert away < moved


def test_a_program_that_fails_names_rank_node_and_last_lines(python, tmp_path):
    with pytest.raises(AssertionError,
                       match="the program of rank [01] on 'local-[12]' ended with exit code 1"
                       ".*no attribute 'missing'"):
        on_ranks(python, tmp_path, "missing", [700, 500], {"type": "sync"})


def test_a_loss_that_is_not_a_number_ends_the_job_with_rank_and_node(python, tmp_path):
    with pytest.raises(AssertionError, match="the loss became NaN or infinite: the program of rank "
                                             "1 on 'local-2', step 2, epoch 2, 500 samples"):
        on_ranks(python, tmp_path, "diverges", [700, 500], {"type": "sync"})


@pytest.mark.parametrize("case, why", [
    ("two_loaders", r"prepare\(\) takes one loader, that of the training data, and got 2"),
    ("without_loader", r"let one hand out the numbers of rows, DataLoader\(range\(n\), "),
    ("shares_out", "the loader has a DistributedSampler, which shares the samples out"),
])
def test_a_loader_that_cannot_take_part_is_refused_in_a_sentence(python, tmp_path, case, why):
    with pytest.raises(AssertionError, match=why):
        on_ranks(python, tmp_path, case, [1], {"type": "sync"})


@pytest.mark.parametrize("case", ["sgd_momentum", "adamw"])
def test_a_program_that_was_killed_under_sync_comes_back_with_another_ranks_optimizer(
        python, tmp_path, case):
    """The parameters are those of the program alone, as if nothing had happened."""
    results, rows = on_ranks(python, tmp_path, case, [700, 500], {"type": "sync"},
                             variables={"TEST_CRASH": "31"})
    assert len(rows) == 2 * 60 and bit_identical(results)
    assert difference(results[0], alone(python, tmp_path, case)) < UNEQUAL[case]


@pytest.mark.parametrize("strategy", [{"type": "asgd"}, {"type": "local-sgd", "k": 2}],
                         ids=lambda s: s["type"])
def test_a_program_that_was_killed_comes_back(python, tmp_path, strategy):
    results, rows = on_ranks(python, tmp_path, "plain_sgd", [700, 500], strategy,
                             variables={"TEST_CRASH": "31"})
    end, first = alone(python, tmp_path, "plain_sgd"), alone(python, tmp_path, "untrained")
    assert rows and difference(results[0], end) < difference(first, end)


def test_two_phases_equal_the_program_alone_and_one_that_is_killed_comes_back_to_the_bit(
        python, tmp_path):
    """With the optimizer of its phase from another rank. Its own first phase is passed over, and it
    goes through the batches of the epoch of six once more (docs/decisions/0071)."""
    whole, _ = on_ranks(python, tmp_path, "two_phases", [120, 80], {"type": "sync"})
    results, rows = on_ranks(python, tmp_path, "two_phases", [120, 80], {"type": "sync"},
                             variables={"TEST_CRASH": "27"})
    assert difference(whole[0], alone(python, tmp_path, "two_phases")) < 2e-5
    assert len(rows) == 2 * 36 and results[1]["steps"] == 36 - 24
    assert all(np.array_equal(whole[0][k], r[k]) for r in results for k in whole[0] if k != "steps")


# within an epoch of six steps, in its last one, in the first one of the next
KILLED = [("goes_on_sgd", 9, {"type": "sync"}), ("goes_on_adamw", 12, {"type": "sync"}),
          ("goes_on_adamw", 13, {"type": "sync"}),
          ("goes_on_adamw", 9, {"type": "local-sgd", "k": 3}), ("two_phases", 27, {"type": "sync"}),
          ("two_phases", 19, {"type": "local-sgd", "k": 3})]


@pytest.mark.parametrize("case,after,strategy", KILLED,
                         ids=lambda v: v["type"] if isinstance(v, dict) else str(v))
def test_an_attempt_that_was_killed_goes_on_as_if_it_had_not_been(
        python, tmp_path, case, after, strategy):
    goes_on_bit_for_bit(python, tmp_path, case, after, strategy, [120, 80], 1)


def test_an_attempt_of_one_rank_goes_on_from_the_last_of_its_checkpoints(python, tmp_path):
    """Steps between two checkpoints are made without asking, those before one are not."""
    goes_on_bit_for_bit(python, tmp_path, "goes_on_adamw", 15, {"type": "sync"}, [200], 4)


def goes_on_bit_for_bit(python, tmp_path, case, after, strategy, sizes, every):
    """Optimizer, scheduler, buffers, dropout's random numbers, Python's and NumPy's."""
    whole, run = tmp_path / "whole", tmp_path / "run"
    undisturbed, _ = on_ranks(python, whole, case, sizes, strategy, ["--out", str(whole)])
    often, keeps = {"checkpoint": {"every_steps": every}}, ["--out", str(run)]
    with pytest.raises(AssertionError):
        on_ranks(python, run, case, sizes, strategy, keeps, {"TEST_KILL": str(after)}, **often)
    results, _ = on_ranks(python, run, case, sizes, strategy, keeps, **often)
    for a, b in zip(undisturbed, results):
        assert all(np.array_equal(a[k], b[k]) for k in a if k != "steps"), (case, difference(a, b))
    assert results[0]["steps"] < undisturbed[0]["steps"] == (36 if case == "two_phases" else 24)
    code = "import sys, torch; print(sorted(torch.load(sys.argv[1], weights_only=True)))"
    shown = subprocess.run([python, "-c", code, str(run / "artifacts/state.bin")],
                           capture_output=True, text=True)
    assert (shown.stdout.strip()
            == "['buffers', 'habits', 'optimizer', 'place', 'random', 'scheduler']"), shown.stderr
