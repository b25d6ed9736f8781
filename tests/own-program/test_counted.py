"""Programs that accumulate gradients and count the batches themselves, each in its own way, where
the run goes on within an epoch or behind one: from a checkpoint, and after a program was killed."""

import pytest

from compare import bit_identical, difference
from real_rank import COLUMNS, rows_of, run_local
from stranger_runs import EACH_STEP, attempt_ends, on_ranks

SIZES, SYNC = [10, 6], {"type": "sync"}
OFF = 2e-6


def whole(programs, folder, way):
    """What the run ends with that nothing has interrupted; the program alone ends there, too."""
    return on_ranks(programs, "counted", folder, SIZES, SYNC, variables={"TEST_COUNT": way})[1][0]


def from_checkpoint(programs, folder, way, at, again=""):
    """The attempt ends in its pass number `at`; the next one goes on. The finished process of that
    one, and what its programs end with."""
    attempt_ends(programs, "counted", folder, SIZES, at, TEST_COUNT=way)
    variables = {"TEST_COUNT": way, **({"TEST_AGAIN": again} if again else {})}
    return on_ranks(programs, "counted", folder, SIZES, SYNC, variables=variables, **EACH_STEP)


def killed(programs, folder, way, at):
    """A run in which a process is killed whose next one goes through no batch once more."""
    variables = {"TEST_COUNT": way, "TEST_KILL": str(at), "TEST_KILL_IN": "backward",
                 "TEST_AGAIN": "none"}
    done, ends = on_ranks(programs, "counted", folder, SIZES, SYNC, variables=variables)
    assert 'msg="goes on"' in done.stderr
    return ends


# a length that was asked for before; a loop over range(length); a count over all epochs; an epoch
# whose rest no step uses; behind an epoch's last step
@pytest.mark.parametrize("way, at", [("length", 6), ("range length", 12), ("over epochs", 9),
                                     ("rest", 8), ("last", 15), ("by epoch", 11)])
def test_all_that_go_on_from_a_checkpoint_count_as_if_nothing_had_happened(torch_programs,
                                                                           tmp_path, way, at):
    end = whole(torch_programs, tmp_path / "whole", way)
    done, ends = from_checkpoint(torch_programs, tmp_path / "cut", way, at)
    told = "the run goes on: its loops go through the %d batches" % (at - 1)
    assert done.stderr.count(told) == 1, "by the main rank"
    rows = [dict(zip(COLUMNS, row.split(","))) for row in rows_of(done)]
    assert len(rows) == 2 * (21 - at + 1)
    assert bit_identical(ends) and difference(ends[0], end) < OFF


# the gradients of batches that are passed over stay nowhere; behind them the loop counts those of
# this epoch, or those since the last step
@pytest.mark.parametrize("way, at", [("last", 8), ("rest", 9), ("own", 12), ("over epochs", 15)])
def test_where_epochs_are_passed_over_an_accumulation_goes_on(torch_programs, tmp_path, way, at):
    end = whole(torch_programs, tmp_path / "whole", way)
    _, ends = from_checkpoint(torch_programs, tmp_path / "cut", way, at, "none")
    assert bit_identical(ends) and difference(ends[0], end) < OFF
    ends = killed(torch_programs, tmp_path / "killed", way, at)
    assert bit_identical(ends) and difference(ends[0], end) < OFF


@pytest.mark.parametrize("way, at, told", [
    ("length", 6, "no optimizer's step was made of its last 3 batches"),
    ("by epoch", 11, "an optimizer's step is made of"),
    ("own", 8, "with gradients of 3 batches of the one before"),
    ("range", 9, "the program takes batches by next()")])
def test_what_counts_otherwise_there_is_told(torch_programs, tmp_path, way, at, told):
    done, _ = from_checkpoint(torch_programs, tmp_path / "cut", way, at, "none")
    assert told in done.stderr


def test_a_loop_that_is_longer_than_what_is_left_is_told_why_it_ends(torch_programs, tmp_path):
    with pytest.raises(AssertionError, match="whose loop has the batches that are left"):
        from_checkpoint(torch_programs, tmp_path / "cut", "range length", 6, "none")
