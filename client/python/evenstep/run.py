"""The run that this process takes part in: one object for every framework, over libevenstep.

It knows flat blocks, slices and answers, and nothing of tensors, so that PyTorch, Keras and a
program with arrays of its own use the same one. `run()` gives it, or None while the program has not
joined, which is always so for a program that runs alone.
"""

import dis
import faulthandler
import json
import math
import os
import signal
import sys
from collections import namedtuple
from time import perf_counter

from . import library
from .ending import Ending
from .library import DIFFERENCE, GO_SAVE, OVER, SAVE, SKIP, STEP, VOID, Error, byref, ctypes
from .loops import Loops

__all__ = ["DIFFERENCE", "SKIP", "STEP", "VOID", "Error", "Run", "Slice", "alone", "run"]

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
    """Has the program asked which rank it is?"""
    return _asked


def asked_by_call(frame):
    """Does this frame ask an iterator for one value, `next(it)`, instead of looping by `for`?"""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith(("CALL", "PRECALL"))


def alone():
    """True if no rank started this program: nothing is distributed."""
    return _run.alone if _run else not os.environ.get("EVENSTEP_SOCKET")


class Run:
    """about: a dict of evenstep.h's struct es_about; params and stats: dicts of library.tensors."""

    def __init__(self, about, optimizer, params, stats):
        self._library = library.Library()
        self._info = library.RunInfo()
        self.over = False  # no further slice comes
        self.save = None  # returns the bytes of the program's own state
        self.before_give = None  # puts parameters into the block, for another rank
        self.before_log = None  # ends an epoch that the program evaluates
        self.unlogged = set()  # names whose values were no numbers
        self.on_start = None  # called once, before the first slice; calls start()
        self.counts = 0, 0  # samples of the two slices begun last
        self._join(about, optimizer, params, stats)
        info = self._info
        self.rank, self.workers, self.ahead = info.rank, info.workers, info.ahead
        self.epoch, self.step, self.seed = info.epoch, info.step, info.seed
        # the previous process ended, but not the whole run
        self.restarted = os.environ.get("EVENSTEP_INCARNATION", "0") != "0"
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
        self._slice, self._result = library.Slice(), library.Result(correct=-1)  # for every step
        self._at_slice, self._at_result = byref(self._slice), byref(self._result)
        self.loops, self.ending = Loops(self, self._library), Ending(self, self._library)
        self.ending.watch()

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
        """Starts the run late, because the rank must first know how many epochs the program
        wants."""
        call, self.on_start = self.on_start, None
        if call:
            self.loops.tell_open()
            call()

    # ---- slices and steps

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
        """Does the rank read and perhaps change parameters while the next slice begins?"""
        return bool(self._library.holds())

    def begin(self, piece):
        """Begins a slice. False: the job was stopped, make no step."""
        self.counts = self.counts[1], piece.count
        if not self.over and self._held(self._library.begin, piece.number) == OVER:
            self.over = True
        return not self.over

    def again(self):
        self._library.again()

    def weight(self, weight):
        self._library.weight(weight)

    def loaded_since(self, began):
        """The program has the samples of the current slice, after waiting for them since `began`,
        in time.perf_counter()."""
        self.loaded_in(perf_counter() - began)

    def loaded_in(self, seconds):
        """The same, by how long it has waited. Times too short to show are not told."""
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
        self.loops.step_is_made()
        result.samples, result.loss, result.learning_rate = samples, loss, learning_rate

    def difference(self):
        self._library.difference()

    def abort(self):
        return self._library.abort()

    def epoch_end(self, epoch):
        self._held(self._library.epoch_end, epoch)
        self.loops.epoch_is_made()

    def loop_end(self):
        """A loop over steps has ended within an epoch."""
        self._held(self._library.epoch_end, -1)

    def _held(self, call, *args):
        return self._asked(SAVE, call, *args)

    def _asked(self, asks, call, *args):
        """Makes the call until its answer is not a request for the program's own state, which it
        gives first."""
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
        if not self.loops.is_behind():
            self._library.log(json.dumps(self._numbers(metrics)).encode())

    def _numbers(self, metrics):
        """Those that are numbers: a program that runs alone may log anything."""
        told = {}
        for name, value in metrics.items():
            try:
                number = float(value)
            except (TypeError, ValueError):
                if name not in self.unlogged:
                    self.unlogged.add(name)
                    self.say("log() leaves out '%s', which is not one number" % name)
            else:
                told[str(name)] = number if math.isfinite(number) else str(number)  # no NaN in JSON
        return told

    def leave(self):
        self.loops.leave()
        self.ending.finish()
        self._held(self._library.leave)

    @staticmethod
    def say(sentence):
        print("evenstep: %s" % sentence, file=sys.stderr, flush=True)
