"""A user's program that ends under `sync` where its rank owes the run a state: in the step of a
checkpoint, in the run's last step, at an evaluation that is the best so far. Others have made the
step, so nothing is lost: its next process goes on from what one of them gives.

Over real MPI, with kill -9 (tests/program/counting.py)."""
import pytest

from test_program import BATCH, SAMPLES, Run, job

STEPS = SAMPLES // BATCH  # of each of two epochs
MOMENTUM = ["--optimizer", "momentum", "--state", "--everyone"]


def run(folder, fault=(), **changes):
    done = Run(folder, job({"type": "sync"}, [*MOMENTUM, *fault], **changes))
    assert done.code == 0, done.log[-3000:]
    return done


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return run(tmp_path_factory.mktemp("alone"))


def killed(step, point, *ranks):
    return ["--fault", "killed", "--after", step, "--point", point, "--times", 1, "--on", *ranks]


def assert_as_if_nothing_had_happened(done, alone, *ranks):
    """Parameters are equal to the bit, of each program and of the model; and each sample counts
    once per epoch."""
    assert (done.model() == alone.model()).all()
    for rank in range(3):
        assert done.ranks[rank]["params"] == alone.ranks[0]["params"]
        assert done.ranks[rank]["incarnation"] == (rank in ranks)
    assert all(done.seen(epoch) == list(range(SAMPLES)) for epoch in range(2))


# rank 0 gives the model and the checkpoints, the others their own states
@pytest.mark.parametrize("ranks", [(0,), (2,), (0, 1)])
@pytest.mark.parametrize("point", ["step", "after", "evaluation"])
def test_one_that_ends_in_the_last_step_leaves_what_it_would_have_left(tmp_path, alone, ranks,
                                                                       point):
    done = run(tmp_path, killed(2 * STEPS - 1, point, *ranks))
    assert_as_if_nothing_had_happened(done, alone, *ranks)


@pytest.mark.parametrize("ranks", [(0,), (2,), (0, 1)])
@pytest.mark.parametrize("step", [4, 3])  # within an epoch, and at its end
def test_a_checkpoint_is_put_off_by_a_step_where_a_program_has_ended(tmp_path, alone, ranks, step):
    """It is then complete: it contains each rank's own state."""
    spec = {"checkpoint": {"every_steps": step + 1}}
    done = run(tmp_path, killed(step, "step", *ranks), **spec)
    assert "a checkpoint is put off by a step" in done.log
    assert_as_if_nothing_had_happened(done, alone, *ranks)
    saved = {p.name for p in (tmp_path / "checkpoints").glob(f"step-{step + 2:012}*")}
    assert all(any(f".rank-{r}." in name for name in saved) for r in range(3)), saved


def test_the_best_so_far_is_kept_where_rank_0_has_ended_in_its_step(tmp_path, alone):
    """At the end of the first epoch, which has the greater accuracy."""
    worse = ["--accuracy", 0.5]
    done = run(tmp_path, [*worse, *killed(STEPS - 1, "step", 0)])
    assert_as_if_nothing_had_happened(done, alone, 0)
    assert len(done.evaluations) == 2
    assert (tmp_path / "artifacts/best.safetensors").exists()


def test_where_all_have_ended_in_the_last_step_the_message_says_so(tmp_path):
    all_of_them = killed(2 * STEPS - 1, "step", 0, 1, 2)
    done = Run(tmp_path, job({"type": "sync"}, [*MOMENTUM, *all_of_them]))
    assert done.code != 0
    assert "the programs of all ranks ended in step 4 of epoch 2" in done.log


@pytest.mark.parametrize("step", [2, 2 * STEPS - 1])
def test_one_rank_alone_makes_the_step_again_and_says_what_is_lost(tmp_path, step):
    """No other process has the optimizer's state."""
    done = run(tmp_path, killed(step, "step", 0), sizes=(64,))
    assert done.seen(0) == done.seen(1) == list(range(SAMPLES))
    assert done.ranks[0]["incarnation"] == 1
    assert "its optimizer begins anew" in done.log and "every_steps" in done.log
