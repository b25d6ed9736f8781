"""What a loop over the loader is that knows nothing of epochs: no framework, and a library that
notes what it is asked."""

import math
import os
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, os.path.join(ROOT, "client/python"))

from evenstep.run import EMPTY_LOOPS_MOST, Run, asked_by_call  # noqa: E402


class Library:
    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments)) or 0


def joined(epoch):
    """A program that has joined a run that goes on in `epoch`."""
    run = Run.__new__(Run)
    run._library, run._open, run._passed, run._empty = Library(), True, 0, 0
    run.epoch, run.rank, run.over, run.save, run.before_leave = epoch, 0, False, None, None
    run.on_start, run.reload, run.passing = run.start, None, epoch > 0
    run._ended = 0
    return run


def names(run):
    return [call[0] for call in run._library.calls]


def test_a_program_that_does_not_know_says_so_and_one_that_does_says_how_many():
    plain, counted = joined(0), joined(0)
    assert not plain.passes_over()
    plain.ensure_started()
    assert plain._library.calls == [("epochs", math.inf), ("start",)]
    counted.epochs(7)
    assert counted._library.calls == [("epochs_at_least", 7), ("start",)]


def test_after_a_restart_a_loop_passes_over_what_was_made_before_and_logs_nothing_of_it(capsys):
    run = joined(2)
    assert [run.passes_over() for _ in range(2)] == [True, True]
    run.log({"test_accuracy": 0.1})
    assert run._library.calls == []
    assert not run.passes_over()
    run.ensure_started()
    assert not run.passes_over()
    run.log({"test_accuracy": 0.9})
    assert names(run) == ["epochs", "start", "log"]
    assert capsys.readouterr().err.count("goes on in epoch 3, so the loop passes over 2") == 1


def test_a_program_whose_epochs_were_all_made_before_starts_only_to_leave():
    run = joined(1)
    assert run.passes_over()
    run.leave()
    assert names(run) == ["epochs", "start", "leave"]


def test_a_program_that_knows_where_it_goes_on_passes_over_nothing():
    run = joined(2)
    run.epochs(5)
    assert not run.passes_over()


def test_after_a_look_at_a_batch_epochs_are_counted_from_where_the_run_goes_on():
    run, loaded = joined(2), []
    run.reload = lambda: loaded.append(True)
    run.ensure_started()  # next(iter(loader))
    assert run.epochs(5) == 2 and not run.passes_over() and loaded == [True]


def test_a_loop_is_told_from_a_call():
    """Whether `for` or next() asks, also through what stands between."""

    class Asked:
        def __iter__(self):
            self.said = asked_by_call(sys._getframe(1))
            yield self.said

    asked = Asked()

    def between():
        for _ in asked:
            yield

    for _ in enumerate(asked):
        assert not asked.said
    for _ in zip(range(1), between()):
        assert not asked.said
    assert next(iter(asked)) and next(enumerate(asked))[1]


def test_a_loop_behind_the_jobs_epochs_is_told_once(capsys):
    run = joined(0)
    run.tell_over()
    run.tell_over()
    assert capsys.readouterr().err.count("asks for more") == 1


def test_a_program_that_asks_for_batches_without_end_is_ended(capsys):
    run = joined(0)
    with pytest.raises(SystemExit) as end:
        for _ in range(EMPTY_LOOPS_MOST + 1):
            run.tell_over()
    assert end.value.code == 0 and run._empty == EMPTY_LOOPS_MOST + 1
    assert "asks for batches without end" in capsys.readouterr().err
