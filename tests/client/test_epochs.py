"""How a loop over the loader is treated if it knows nothing of epochs: without a framework, with a
library that records its calls."""

import math
import os
import sys

import pytest

from tree import ROOT

sys.path.insert(0, os.path.join(ROOT, "client/python"))

from evenstep.ending import Ending, place_of  # noqa: E402
from evenstep.loops import EMPTY_LOOPS_MOST, Loops  # noqa: E402
from evenstep.run import Run, Slice, asked_by_call  # noqa: E402


class Library:
    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments)) or 0


def joined(epoch):
    """A program that has joined a run that continues in `epoch`."""
    run = Run.__new__(Run)
    run._library, run.epoch, run.step, run.rank = Library(), epoch, 0, 0
    run.over, run.save, run.before_log, run.on_start = False, None, None, run.start
    run.counts, run.global_batch, run.restarted, run.resumed = (0, 0), 0, False, False
    run.unlogged = set()
    run.loops, run.ending = Loops(run, run._library), Ending(run, run._library)
    return run


def test_where_an_exception_was_raised_is_a_line_of_the_program(tmp_path):
    """And not of a module that is frozen into the interpreter, like os."""
    program = tmp_path / "train.py"
    program.write_text("import os\n\nos.environ['NO_SUCH_VARIABLE']\n")
    with pytest.raises(KeyError) as raised:
        exec(compile(program.read_text(), str(program), "exec"), {})
    place = place_of(raised.tb, str(tmp_path) + os.sep)
    assert place == ("train.py", 3)
    run = joined(0)
    run.ending.failed(raised.type, raised.value, place)
    said = b"KeyError: 'NO_SUCH_VARIABLE'"
    assert run._library.calls == [("raised", said + b" (train.py, line 3)", said, b"train.py", 3)]


def names(run):
    return [call[0] for call in run._library.calls]


def test_a_program_that_does_not_know_says_so_and_one_that_does_says_how_many():
    plain, counted = joined(0), joined(0)
    assert not plain.loops.passes_over()
    plain.ensure_started()
    assert plain._library.calls == [("epochs", math.inf), ("start",)]
    counted.loops.epochs(7)
    assert counted._library.calls == [("epochs_at_least", 7), ("start",)]


def test_after_a_restart_a_loop_passes_over_what_was_made_before_and_logs_nothing_of_it(capsys):
    run = joined(2)
    assert [run.loops.passes_over() for _ in range(2)] == [True, True]
    run.log({"test_accuracy": 0.1})
    assert run._library.calls == []
    assert not run.loops.passes_over()
    run.ensure_started()
    assert not run.loops.passes_over()
    run.log({"test_accuracy": 0.9})
    assert names(run) == ["epochs", "start", "log"]
    assert capsys.readouterr().err.count("goes on in epoch 3, so the loop passes over 2") == 1


def test_a_figure_that_is_not_finite_is_told_as_text_since_json_has_none():
    run = joined(0)
    run.log({"fid": math.nan, "gap": -math.inf, "test_accuracy": 0.5})
    assert run._library.calls == [
        ("log", b'{"fid": "nan", "gap": "-inf", "test_accuracy": 0.5}')]


def test_what_is_no_number_is_left_out_and_named_once(capsys):
    run = joined(0)
    for _ in range(2):
        run.log({"eval/bleu": 31, "note": "text", "list": [1, 2], "none": None})
    assert run._library.calls == [("log", b'{"eval/bleu": 31.0}')] * 2
    said = capsys.readouterr().err
    assert said.count("log() leaves out 'note', which is not one number") == 1
    assert said.count("leaves out") == 3


def test_a_size_that_does_not_fit_is_explained_by_the_share_that_has_changed():
    run = joined(0)
    for count in (10, 3):
        run.begin(Slice(0, 0, 0, count, 32, [], False))
    assert "this batch has 3 samples and the one before had 10" in run.ending.why_sizes(
        RuntimeError("Expected hidden[0] size (2, 3, 12), got [2, 10, 12]"))
    assert not run.ending.why_sizes(NameError("name 'los' is not defined"))
    run.begin(Slice(0, 0, 0, 3, 32, [], False))
    assert not run.ending.why_sizes(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_a_program_whose_epochs_were_all_made_before_starts_only_to_leave():
    run = joined(1)
    assert run.loops.passes_over()
    run.leave()
    assert names(run) == ["epochs", "start", "leave"]


def test_a_program_that_knows_where_it_goes_on_passes_over_nothing():
    run = joined(2)
    run.loops.epochs(5)
    assert not run.loops.passes_over()


def test_after_a_look_at_a_batch_epochs_are_counted_from_where_the_run_goes_on():
    run, loaded = joined(2), []
    run.loops.reload = lambda: loaded.append(True)
    run.ensure_started()  # next(iter(loader))
    assert run.loops.epochs(5) == 2 and not run.loops.passes_over() and loaded == [True]


def test_a_loop_is_told_from_a_call():
    """Does `for` or next() ask, even through code in between?"""

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
    run.loops.tell_over()
    run.loops.tell_over()
    assert capsys.readouterr().err.count("asks for more") == 1


def test_a_program_that_asks_for_batches_without_end_is_ended(capsys):
    run = joined(0)
    with pytest.raises(SystemExit) as end:
        for _ in range(EMPTY_LOOPS_MOST + 1):
            run.loops.tell_over()
    assert end.value.code == 0 and run.loops._empty == EMPTY_LOOPS_MOST + 1
    assert "asks for batches without end" in capsys.readouterr().err
