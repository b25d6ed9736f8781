"""libevenstep through ctypes: its structs, its calls, and its errors as exceptions.

The library lies beside this file in a wheel; EVENSTEP_LIBRARY names another one. Each call is
described in evenstep.h; here are types alone.
"""

import ctypes
import os
from ctypes import CDLL, POINTER, PyDLL, Structure, byref, c_char_p, c_double, c_float, c_int
from ctypes import c_int64, c_size_t, c_uint64, c_void_p

ABI = 1
KEPT = 6
SAVE, OVER = 1, 2
STEP, SKIP, DIFFERENCE, VOID, GO_SAVE = 0, 1, 2, 3, 4


class Error(RuntimeError):
    """The program asks for something impossible; the message says why. Another try would fail the
    same way."""

    __module__ = "evenstep"  # people import it from there; tracebacks print it


class Lost(Error):
    """A call failed, or another rank's program is gone: another try may succeed."""


class Tensor(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dims", c_int),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("initial", POINTER(c_float)),
        ("no_decay", c_int),
        ("mean_of", c_int),
    ]


class Optimizer(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("server", c_int),
        ("learning_rate", c_double),
        ("momentum", c_double),
        ("weight_decay", c_double),
        ("nesterov", c_int),
    ]


class About(Structure):
    _fields_ = [
        ("abi", c_int),
        ("framework", c_char_p),
        ("samples", c_int64),
        ("global_batch", c_int64),
        ("ahead", c_int),
        ("drop_last", c_int),
        ("in_order", c_int),
        ("sums", c_int),
        ("has_state", c_int),
        ("stack_signal", c_int),
        ("epochs", c_double),
        ("seed", c_uint64),
        ("optimizer", Optimizer),
        ("n_params", c_int),
        ("n_stats", c_int),
        ("params", POINTER(Tensor)),
        ("stats", POINTER(Tensor)),
    ]


class RunInfo(Structure):
    _fields_ = [
        ("rank", c_int),
        ("workers", c_int),
        ("resumed", c_int),
        ("ahead", c_int),
        ("global_batch", c_int64),
        ("epoch", c_int64),
        ("step", c_int64),
        ("seed", c_uint64),
        ("n_params", c_int64),
        ("n_stats", c_int64),
        ("params", c_void_p),
        ("grads", c_void_p),
        ("stats", c_void_p),
        ("state", c_void_p),
        ("state_bytes", c_size_t),
    ]


class Slice(Structure):
    _fields_ = [
        ("epoch", c_int64),
        ("number", c_int64),
        ("start", c_int64),
        ("count", c_int64),
        ("step_count", c_int64),
        ("indices", POINTER(c_int64)),
        ("epoch_last", c_int),
    ]


class Result(Structure):
    _fields_ = [
        ("samples", c_int64),
        ("loss", c_double),
        ("correct", c_double),
        ("learning_rate", c_double),
    ]


CALLS = {
    "es_abi": [],
    "es_alone": [],
    "es_join": [POINTER(About), POINTER(RunInfo)],
    "es_start": [],
    "es_epochs": [c_double],
    "es_epochs_at_least": [c_double],
    "es_next": [POINTER(Slice)],
    "es_holds": [],
    "es_kept": [POINTER(POINTER(c_double))],
    "es_begin": [c_int64],
    "es_again": [],
    "es_takes_gradients": [],
    "es_sums_gradients": [],
    "es_weight": [c_double],
    "es_loading": [c_double],
    "es_gradients": [POINTER(Result)],
    "es_difference": [],
    "es_held_back": [POINTER(Result)],
    "es_abort": [],
    "es_epoch_end": [c_int64],
    "es_log": [c_char_p],
    "es_state": [c_char_p, c_size_t],
    "es_leave": [],
    "es_failed": [c_char_p],
    "es_raised": [c_char_p, c_char_p, c_char_p, c_int],
    "es_refused": [c_char_p],
}


def _path():
    beside = os.path.join(os.path.dirname(__file__), "libevenstep.so")
    return os.environ.get("EVENSTEP_LIBRARY") or (
        beside if os.path.exists(beside) else "libevenstep.so.%d" % ABI
    )


class Library:
    """The calls by name without `es_`; -1 becomes an Error with the library's sentence."""

    def __init__(self):
        path = _path()
        try:
            library = CDLL(path)
            # es_ready is called once for each tensor of a step and does not wait: releasing the
            # interpreter's lock for it costs more than the call
            quick = PyDLL(path)
        except OSError as e:
            raise Error("cannot load libevenstep from '%s': %s" % (path, e)) from None
        self._error = library.es_error
        self._error.restype = c_char_p
        for name, types in CALLS.items():
            setattr(self, name[3:], self._checked(getattr(library, name), types))
        self.ready = self._checked(quick.es_ready, [c_int])
        if self.abi() != ABI:
            raise Error("'%s' has ABI %d, this package needs %d" % (path, self.abi(), ABI))

    def _checked(self, function, types):
        function.argtypes = types
        function.restype = c_int

        def call(*args):
            result = function(*args)
            if result < 0:
                raise Lost(self._error().decode(errors="replace"))
            return result

        return call


def tensors(entries):
    """An array of struct es_tensor from dicts: name, shape, and strides, decay, mean_of if
    known."""
    array = (Tensor * max(1, len(entries)))()
    for to, entry in zip(array, entries):
        shape = entry["shape"]
        to.name = entry["name"].encode()
        to.dims = len(shape)
        to.shape = (c_int64 * max(1, len(shape)))(*shape)
        if entry.get("strides"):
            to.strides = (c_int64 * len(shape))(*entry["strides"])
        to.no_decay = not entry.get("decay", True)
        to.mean_of = entry.get("mean_of", -1) + 1
    return array


__all__ = ["About", "Error", "Library", "Lost", "Optimizer", "Result", "RunInfo", "Slice", "byref"]
__all__ += ["ctypes", "tensors", "SAVE", "OVER", "STEP", "SKIP", "DIFFERENCE", "VOID", "GO_SAVE"]
