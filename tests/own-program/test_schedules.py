"""A program that is killed where nobody else stands at its step, under averages, goes on with the
rate of the run: its state is of the last checkpoint, or there is none, and the epochs since then
are in no schedule."""

import numpy as np
import pytest

from compare import bit_identical, difference
from stranger_runs import EACH_STEP, attempt_ends, on_ranks

AVERAGES = {"type": "local-sgd", "k": 2}
SIZES = [10, 6]
# a process is killed in its Nth pass, of six an epoch; the checkpoint before it, if there is one,
# is of the second epoch
KILLED = {"TEST_KILL": "27", "TEST_KILL_IN": "backward"}
SELDOM = {"checkpoint": {"every_steps": 10}}


def killed(programs, folder, loop, strategy=AVERAGES, variables={}, **more):
    done, ends = on_ranks(programs, "by_epochs", folder, SIZES, strategy,
                          variables={**KILLED, "TEST_LOOP": loop, **variables}, **more)
    assert 'msg="goes on"' in done.stderr
    return done, ends


@pytest.mark.parametrize("loop", ["epochs", "range", "batches"])
def test_a_schedule_is_where_the_run_is(torch_programs, run_programs, tmp_path, loop):
    done, ends = killed(torch_programs, tmp_path, loop, **SELDOM)
    assert "of the last checkpoint" in done.stderr
    for name in "rates", "rate":
        assert ends[1][name] == pytest.approx(ends[0][name], rel=1e-5)
    assert "a schedule of this program (%s) is moved" % (
        "OneCycleLR" if loop == "batches" else "StepLR") in done.stderr


@pytest.mark.parametrize("loop", ["epochs", "range", "batches"])
def test_without_a_checkpoint_it_comes_there_with_its_first_step(torch_programs, tmp_path, loop):
    done, ends = killed(torch_programs, tmp_path, loop, checkpoint={"every_steps": 1000})
    assert "begins anew" in done.stderr
    for name in "rates", "rate":
        assert ends[1][name] == pytest.approx(ends[0][name], rel=1e-5)


# in an epoch whose figures so far the state lacks; a state of the second epoch, or none
@pytest.mark.parametrize("loop", ["plateau", "plateau range"])
@pytest.mark.parametrize("every, at", [(10, "27"), (1000, "27"), (1000, "31")])
def test_a_schedule_by_figures_has_those_of_the_process_before(torch_programs, run_programs,
                                                               tmp_path, loop, every, at):
    done, ends = killed(torch_programs, tmp_path, loop, variables={"TEST_KILL": at},
                        checkpoint={"every_steps": every})
    assert ends[1]["rate"] == ends[0]["rate"] == pytest.approx(0.0025)
    assert set(ends[1]["rates"]) == set(ends[0]["rates"])
    assert "lacks the figures" not in done.stderr


@pytest.mark.parametrize("loop", ["plateau", "plateau range"])
def test_a_figure_counts_once_where_a_process_ends_behind_it(torch_programs, tmp_path, loop):
    """The next one evaluates this epoch once more."""
    _, ends = killed(torch_programs, tmp_path, loop, variables={"TEST_KILL": "0", "TEST_EXIT": "3"},
                     checkpoint={"every_steps": 1000})
    assert ends[1]["rate"] == ends[0]["rate"] == pytest.approx(0.0025)


def test_schedules_by_figures_of_which_there_are_two_say_what_they_lack(torch_programs, tmp_path):
    done, _ = killed(torch_programs, tmp_path, "plateaus", **SELDOM)
    assert "(ReduceLROnPlateau) lacks the figures of the epochs" in done.stderr


@pytest.mark.parametrize("how", ["backward", "refuse"])
def test_one_that_prepare_was_not_given_goes_on_under_sync(torch_programs, run_programs, tmp_path,
                                                           how):
    """In the fourth epoch: killed, or from a checkpoint. It is in a state once it has stepped."""
    name, at = "falls_by_figure", 11
    alone = run_programs(torch_programs, "strangers.run", name).results[0]
    killed = {"TEST_KILL": str(at), "TEST_KILL_IN": how} if how == "backward" else {}
    if how == "refuse":
        attempt_ends(torch_programs, name, tmp_path, [20, 12], at)
    _, ends = on_ranks(torch_programs, name, tmp_path, [20, 12], {"type": "sync"},
                       variables=killed, **EACH_STEP)
    assert bit_identical(ends) and difference(ends[0], alone) < 2e-5


@pytest.mark.parametrize("every", [10, 1000])
def test_a_schedule_of_epochs_is_where_the_run_is_under_a_server(torch_programs, tmp_path, every):
    """The parameters are the server's; the schedule is this program's alone. It is back before the
    other one has made the rest of the run."""
    _, ends = killed(torch_programs, tmp_path, "epochs", {"type": "dbs-sgd"},
                     {"TEST_KILL": "15", "TEST_PAUSE": "0.2"}, checkpoint={"every_steps": every})
    assert ends[1]["rate"] == pytest.approx(ends[0]["rate"], rel=1e-5)
