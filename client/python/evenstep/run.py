"""The run that this process takes part in: one object for every framework, over libevenstep.

It knows flat blocks, slices and answers, and nothing of tensors, so that PyTorch, Keras and a
program with arrays of its own use the same one. `run()` gives it, or None while the program has not
joined, which is always so for a program that runs alone.
"""

import atexit
import dis
import faulthandler
import json
import math
import os
import re
import signal
import sys
import traceback
from collections import namedtuple
from time import perf_counter

from . import library
from .library import DIFFERENCE, GO_SAVE, OVER, SAVE, SKIP, STEP, VOID, Error, Lost, byref, ctypes

__all__ = ["DIFFERENCE", "SKIP", "STEP", "VOID", "Error", "Run", "Slice", "alone", "run"]

EMPTY_LOOPS_MOST = 10_000
LEAST_LOADING = 50e-6

Slice = namedtuple("Slice", "epoch number start count step_count indices epoch_last")

_run = None
_asked = False


def run():
    return _run


def note_asked():
    global _asked
    _asked = True


def knows_who_it_is():
    """Whether the program has asked which rank it is."""
    return _asked


def asked_by_call(frame):
    """Whether this frame asks an iterator for one value, `next(it)`, where a `for` would stand."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith(("CALL", "PRECALL"))


def alone():
    """No rank started this program: nothing is distributed."""
    return _run.alone if _run else not os.environ.get("EVENSTEP_SOCKET")


SAID_MOST = 240  # characters of an exception, so that where it was raised is not cut off


def _place(trace, folder):
    """('train.py', 12), the innermost line that is in the program's folder; or None."""
    files = [at for at in traceback.extract_tb(trace) if at.filename[:1] != "<"]  # <frozen os>
    names = [(os.path.join(folder, at.filename), at.lineno) for at in files]
    own = [(os.path.relpath(name, folder), n) for name, n in names if name.startswith(folder)]
    return own[-1] if own else None


def _numbers(text):
    return set(map(int, re.findall(r"\d{1,9}", text)))


def _told_by(error, within):
    """An Error of ours that a framework has put into another one, as TensorFlow does in a graph,
    where `within` was the last to be raised; else the exception itself."""
    inner = error
    while inner is not None and not isinstance(inner, Error):
        inner = inner.__cause__ or inner.__context__
    inner = inner or within
    return inner if inner is not None and str(inner) in str(error) else error


class Run:
    """about: a dict of evenstep.h's struct es_about; params and stats: dicts of library.tensors."""

    def __init__(self, about, optimizer, params, stats):
        self._library = library.Library()
        self._info = library.RunInfo()
        self.over = False  # no slice comes any more
        self.save = None  # gives the bytes of the program's own state
        self.before_give = None  # parameters into the block, for a rank that gives them to another
        self.before_leave = None  # what is still to be told
        self.before_log = None  # ends an epoch of which the program evaluates
        self.on_start = None  # called once, before the first slice; calls start()
        self._open = True  # the program's loop says how many epochs there are
        self._passed = 0  # epochs that the program's loops have passed over
        self.passes_none = None  # a sentence: why none of them may be passed over
        self.reload = None  # called when they have, if the run started before
        self.repeats = False  # what the program does, a process before it did
        self._ended = 0  # epochs that this process has made
        self._empty = 0  # loops that began behind the run's last epoch
        self.lacks = 0  # steps that a count of the program's own lacks, as it began anew
        self.within = None  # the last Error that was raised where a framework calls us
        self._counts = 0, 0  # samples of the last two slices that were begun
        self._join(about, optimizer, params, stats)
        info = self._info
        self.rank, self.workers, self.ahead = info.rank, info.workers, info.ahead
        self.epoch, self.step, self.seed = info.epoch, info.step, info.seed
        # the process before this one ended, and not the whole run
        self.restarted = os.environ.get("EVENSTEP_INCARNATION", "0") != "0"
        self.lacks = self.step if self.restarted else 0
        self.passing = info.epoch > 0  # loops pass over epochs that were made before
        self.global_batch, self.resumed = info.global_batch, bool(info.resumed)
        self.state = ctypes.string_at(info.state, info.state_bytes) if info.state else None
        self.params = (ctypes.c_float * info.n_params).from_address(info.params)
        self.grads = (ctypes.c_float * info.n_params).from_address(info.grads)
        self.stats = (ctypes.c_float * info.n_stats).from_address(info.stats)
        at = ctypes.POINTER(ctypes.c_double)()
        self._library.kept(byref(at))
        self.kept = ctypes.cast(at, ctypes.POINTER(ctypes.c_double * library.KEPT)).contents
        self.ready = self._library.ready
        self.takes_gradients = bool(self._library.takes_gradients())
        self.sums_gradients = bool(self._library.sums_gradients())
        self._slice, self._result = library.Slice(), library.Result(correct=-1)  # of every step
        self._at_slice, self._at_result = byref(self._slice), byref(self._result)
        self._watch_end()

    def _join(self, about, optimizer, params, stats):
        global _run
        if _run is not None:
            raise Error("this program has joined already: prepare everything in one call")
        if hasattr(signal, "SIGUSR2") and signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL:
            faulthandler.register(signal.SIGUSR2, all_threads=True)
            about["stack_signal"] = int(signal.SIGUSR2)
        if isinstance(optimizer.get("name"), str):
            optimizer["name"] = optimizer["name"].encode()
        about["framework"] = about["framework"].encode()
        told = library.About(abi=library.ABI, has_state=1, **about)
        told.optimizer = library.Optimizer(**optimizer)
        told.n_params, told.n_stats = len(params), len(stats)
        told.params, told.stats = library.tensors(params), library.tensors(stats)
        self.alone = bool(self._library.alone())
        self._library.join(byref(told), byref(self._info))
        _run = self

    def start(self):
        self._library.start()

    def ensure_started(self):
        """Late, since the rank has to know before how many epochs the program wants."""
        call, self.on_start = self.on_start, None
        if call:
            if self._open:
                self._library.epochs(math.inf)
            call()

    def check_passing(self):
        """The program's loops begin before the run's epoch."""
        if self.passing and self.passes_none:
            raise Error(self.passes_none)

    def passes_over(self):
        """A loop begins over an epoch that was made before the run was started again: it has no
        batch. So a loop that knows nothing of the restart ends where it would have ended."""
        if not self.passing:
            return False
        self.check_passing()
        if self._passed == self.epoch:
            self._pass_no_more()
            return False
        if self._passed == 0:
            self._start_behind()
            self.say(
                "the run goes on in epoch %d, so the loop passes over %d without a batch: "
                "`for epoch in evenstep.epochs(n)` begins there" % (self.epoch + 1, self.epoch)
            )
        self._passed += 1
        return True

    def passes_back(self, looked):
        """The loop that was passed over last was left. looked: it was none."""
        self._passed -= looked

    def _start_behind(self):
        """What stands between or behind loops that are passed over evaluates and saves what the run
        has made, and not the program's first parameters."""
        if self.reload:
            self.ensure_started()

    def _pass_no_more(self):
        if self.passing and not self.on_start and self.reload:
            self.reload()  # a batch was looked at before the loops
        self.passing = False

    def repeats_from(self):
        """Loops go through what was made before once more: the epoch in which they begin."""
        self.ensure_started()
        return self._passed if self.passing else self.epoch

    def has_repeated(self, epochs):
        """They have gone through so many epochs, the last one perhaps in part."""
        self._passed = max(self._passed, min(epochs, self.epoch))

    def goes_on_where_it_is(self):
        """The program knows of restarts: its loops pass over nothing."""
        self._pass_no_more()
        self.ensure_started()

    def tell_over(self):
        """A loop begins behind the run's last epoch, so it has no batch. A program that asks for
        batches until it has some (`while True: for x in loader`) ends there."""
        self._empty += 1
        if self._empty > EMPTY_LOOPS_MOST + self.lacks:
            self.say("the job is over, and the program asks for batches without end: it ends here")
            sys.exit(0)
        if self.lacks and self._empty == 1:
            self.say(
                "the run is over, and the program asks for more: it was started again in step %d, "
                "so a loop that counts steps itself began at 0 there. It gets batches that no step "
                "is made of until it ends; `for step in evenstep.steps(n)` goes on with the run's "
                "count" % self.lacks
            )
        elif self._open and self.rank == 0:
            self._open = False
            self.say(
                "the job's epochs are over, and the program asks for more: `--set /epochs=N` says "
                "how many there are, unless the job was stopped or has reached its target"
            )

    # ---- slices and steps

    def epochs(self, n):
        """A loop makes n more epochs; how many of them the run had made before this process began.
        Where it had made all, the loop is passed over, and the run starts in one that follows."""
        behind = self._passed + self._ended
        if behind + n > 0:
            self._library.epochs_at_least(behind + n)
        self._open = False
        made = min(max(self.epoch - behind, 0), n) if self.on_start or self.passing else 0
        self._passed += made
        if made < n:
            self.goes_on_where_it_is()
        elif made:
            self._start_behind()
        return made

    def next(self):
        """The next slice, or None: the job is done or stopped."""
        s = self._slice
        if self.over or self._library.next(self._at_slice) == 0:
            self.over = True
            return None
        indices = s.indices[: s.count] if s.count else []
        return Slice(
            s.epoch, s.number, s.start, s.count, s.step_count, indices, bool(s.epoch_last)
        )

    def holds(self):
        """The rank reads and may change parameters while the next slice begins."""
        return bool(self._library.holds())

    def begin(self, piece):
        """False: the job was stopped, make no step."""
        self._counts = self._counts[1], piece.count
        if not self.over and self._held(self._library.begin, piece.number) == OVER:
            self.over = True
        return not self.over

    def again(self):
        self._library.again()

    def weight(self, weight):
        self._library.weight(weight)

    def loaded_since(self, began):
        """The slice that was begun has its samples, which the program has waited for since
        `began`, in time.perf_counter()."""
        self.loaded_in(perf_counter() - began)

    def loaded_in(self, seconds):
        """The same, by how long it has waited. What no figure shows is not told."""
        if seconds > LEAST_LOADING and not self.over:
            self._library.loading(seconds)

    def gradients(self, samples=-1, loss=math.nan, learning_rate=math.nan):
        self._tell(samples, loss, learning_rate)
        return self._asked(GO_SAVE, self._library.gradients, self._at_result)

    def held_back(self, samples=-1, loss=math.nan, learning_rate=math.nan):
        self._tell(samples, loss, learning_rate)
        self._asked(GO_SAVE, self._library.held_back, self._at_result)

    def _tell(self, samples, loss, learning_rate):
        result = self._result
        if self.passing and self._passed < self.epoch and not self.lacks:
            self.say(
                "the run goes on in epoch %d, and the program takes batches by next(), so a loop "
                "of its own over steps or epochs begins at 0 and makes as many more as the run "
                "had: `for step in evenstep.steps(n)` and `for epoch in evenstep.epochs(n)` go on "
                "where it is" % (self.epoch + 1)
            )
        self.passing = False
        result.samples, result.loss, result.learning_rate = samples, loss, learning_rate

    def difference(self):
        self._library.difference()

    def abort(self):
        return self._library.abort()

    def epoch_end(self, epoch):
        self._held(self._library.epoch_end, epoch)
        self._ended += 1

    def loop_end(self):
        """A loop over steps ended within an epoch."""
        self._held(self._library.epoch_end, -1)

    def _held(self, call, *args):
        return self._asked(SAVE, call, *args)

    def _asked(self, asks, call, *args):
        """The call's answer, once the rank has been given the program's own state if it asks."""
        while (answer := call(*args)) == asks:
            if asks == GO_SAVE and self.before_give:
                self.before_give()
            state = self.save() if self.save else b""
            self._library.state(state, len(state))
        return answer

    # ---- metrics and the end

    def log(self, metrics):
        if self.before_log:
            self.before_log()
        over = self.passing and self._passed  # they are of an epoch that is passed over
        if not over and not self.repeats:
            told = {name: v if math.isfinite(v) else str(v) for name, v in metrics.items()}
            self._library.log(json.dumps(told).encode())  # JSON has no NaN

    def _check_it_began(self):
        """A program that has prepared itself and took no batch."""
        if self.on_start and not self.over:
            raise Error(
                "the program has called prepare() and ends without having taken a batch. One that "
                "goes on from a file of its own (`for epoch in range(start, n)`) may have found a "
                "file of an earlier run: a run has checkpoints, and begins with epoch 0"
            )

    def leave(self):
        if self._passed:  # all epochs were made before
            self.ensure_started()
        if self.before_leave:
            try:
                self._check_it_began()
                self.before_leave()
            except Error as e:
                if not isinstance(e, Lost):
                    self.failed(type(e), e, None)
                raise
        self._held(self._library.leave)

    def failed(self, kind, error, place):
        """Ends with this exception, raised at `place`: "NameError: name 'los' is not defined
        (train.py, line 12)". What we refuse ourselves is a sentence, and not tried again."""
        said = "".join(traceback.format_exception_only(kind, error)).strip()
        if isinstance(error, Error):
            final = not isinstance(error, Lost)
            (self._library.refused if final else self._library.failed)(said.encode())
            return
        sentence = "%s (%s, line %d)" % (said[:SAID_MOST], *place) if place else said
        sentence += self._why_sizes(error) + self._why_short(error)
        file, line = place or (None, 0)
        self._library.raised(sentence.encode(), said.encode(), file and file.encode(), line)

    def _why_sizes(self, error):
        """A state that is kept from batch to batch, as a word model's, meets other rows, and so
        does what is made with as many as batch_size."""
        before, now = self._counts
        if not re.search("size|shape|dimension", str(error)):
            return ""
        if now < self.global_batch and {now, self.global_batch} <= _numbers(str(error)):
            return (
                "; of a batch of %d samples this node has %d: make what belongs to a batch by its "
                "own number of rows, len(x), in place of batch_size" % (self.global_batch, now)
            )
        if 0 in self._counts or before == now:
            return ""
        return (
            "; this batch has %d samples and the one before had %d, since a node's share changes: "
            "keep nothing by sample from batch to batch, or take sync with "
            "`--set /batching/policy=static`" % (now, before)
        )

    def _why_short(self, error):
        """An epoch that goes on has fewer batches than a program asks for."""
        if not isinstance(error, StopIteration) or not self.resumed:
            return ""
        return (
            "; the run went on within an epoch, whose loop has the batches that are left: ask for "
            "len(loader) in each epoch and not before"
        )

    def _watch_end(self):
        """Leaves when the interpreter ends, and tells the rank of an exception that ends it."""
        pid, folder, hook = os.getpid(), os.getcwd() + os.sep, sys.excepthook
        ended = []

        def on_exception(kind, value, trace):
            first = os.getpid() == pid and not ended
            ended.append(True)
            try:
                hook(kind, value, trace)  # before the rank knows, which then ends this process
                sys.stderr.flush()
            finally:
                if first:
                    told = _told_by(value, self.within)
                    self._quietly(self.failed, type(told), told, _place(trace, folder))

        def on_exit():
            if os.getpid() == pid and not ended:
                ended.append(True)
                self._quietly(self.leave)

        sys.excepthook = on_exception
        atexit.register(on_exit)

    @staticmethod
    def say(sentence):
        print("evenstep: %s" % sentence, file=sys.stderr, flush=True)

    @classmethod
    def _quietly(cls, call, *args):
        try:
            call(*args)
        except Error as e:
            cls.say(e)
