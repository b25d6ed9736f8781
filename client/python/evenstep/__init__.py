"""Evenstep: your training program on many unequal machines, by two lines.

    import evenstep
    model, opt, loader = evenstep.prepare(model, opt, loader)

A program that a rank started then works on this node's share of each global batch, and its
optimizer steps on gradients that are summed over all nodes. A program that runs alone gets back the
very objects that it gave. docs/own-program.md has the rest.
"""

import contextlib
import importlib
import os
import random

from .run import Error, alone, note_asked, run
from .versions import check

__version__ = "0.1.0"
__all__ = ["Error", "alone", "epochs", "is_main", "log", "no_sync", "prepare", "rank"]
__all__ += ["state_dict", "steps", "weight", "world_size"]


def _begin_alike():
    """For `evenstep run --check`, which compares two runs of a program. Gives both runs the same
    seed for what the program does not seed itself: Keras' first weights, which come from Python's
    random numbers, and data that NumPy draws. PyTorch always begins with the same seed."""
    seed = os.environ.get("CHECK_SEED")
    if seed is None:
        return
    random.seed(int(seed))
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(int(seed))


_begin_alike()


def __getattr__(name):
    """evenstep.keras and the others here need no import of their own."""
    if name in ("arrays", "client", "keras"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError("module 'evenstep' has no attribute '%s'" % name)


_program = None  # made by prepare(): no_sync, weight and state_dict of its framework
_objects = ()  # the objects that a program running alone prepared


def prepare(*objects, **options):
    """Makes model, optimizer and loader part of the run; returns them in the order given.

    PyTorch: modules, optimizers, one DataLoader for training, schedulers; several in a list, a
    tuple or a dict; or Lightning's or transformers' Trainer alone. Keras: one model, before
    `compile`; or, for a loop of your own, models, optimizers and data. Options of PyTorch, and the
    first of a Keras loop: `reduction="sum"` if the loss is a sum over samples; `shard`, a function
    (dataset, rank, world_size) that gives an iterable data set's part, and `samples`, how many
    samples an epoch of it has. A program of two phases calls it once more, with the second
    optimizer and loader. Of Keras: `unfreezes=False` if no later fit() trains weights that are
    frozen in the first.
    """
    global _objects
    if not objects:
        raise TypeError("prepare() needs at least a model and a loader")
    if not alone():
        if any(_is_keras(o) for o in objects):
            check("keras")
            from . import keras

            return keras.prepare(*objects, **options)
        check("torch")
        from . import torch

        if torch.trainers.take(objects):
            return objects[0]
        if _program is None:
            take_part(torch.Program(objects, **options))
        else:
            _program.go_on_with(objects, **options)
        objects = _program.objects
    _objects = objects
    return objects[0] if len(objects) == 1 else objects


def take_part(program):
    """Returns what prepare() made of this process's program, with its no_sync, weight and
    state_dict."""
    global _program
    _program = program


def _is_keras(model):
    if type(model) in (list, tuple):
        return any(map(_is_keras, model))
    return any(kind.__module__.startswith("keras.") for kind in type(model).__mro__)


def epochs(n):
    """range(n), from where a restart left off; ends early if the job does. A program may have
    several such loops, one after the other."""
    joined = run()
    if joined is None:
        yield from range(n)
        return
    for epoch in range(joined.loops.epochs(n), n):
        if joined.over:
            return
        yield epoch


def steps(n, batches=1):
    """range(n) for a loop over steps instead of epochs, from where a restart left off; ends early
    if the job does. `batches`: how many batches a step takes, if gradients are accumulated. Under a
    parameter server it counts the steps of the run, not of the node."""
    if alone():
        yield from range(n)
        return
    if not hasattr(_program, "steps"):
        raise Error("evenstep.steps() is for PyTorch programs, after prepare(): take epochs(n)")
    yield from _program.steps(n, batches)


def rank():
    """This node's number, from 0; known before prepare() too. Alone: 0."""
    note_asked()
    return run().rank if run() else _told("EVENSTEP_RANK", 0)


def world_size():
    return run().workers if run() else _told("EVENSTEP_WORLD_SIZE", 1)


def _told(name, otherwise):
    """What the rank has told its program by the environment."""
    return otherwise if alone() else int(os.environ.get(name, otherwise))


def is_main():
    """True on one rank, whose files in $EVENSTEP_OUTPUT become the job's artifacts."""
    return rank() == 0


def log(metrics=None, /, **more):
    """Logs numbers by name, from a dict or by keywords. test_accuracy and test_loss, or val_…, are
    an evaluation of the job; other numbers are metrics of it. Does nothing alone."""
    if run():
        run().log({**(metrics or {}), **more})


def no_sync():
    """Keeps the gradients of the passes inside on this node; the next pass adds them to its own."""
    return _program.no_sync() if _program else contextlib.nullcontext()


def weight(n):
    """Sets the weight of this batch in the mean over nodes, if it is not its number of samples
    (tokens). Call it before backward."""
    if _program:
        _program.weight(n)


def state_dict():
    """Model, optimizer, scheduler, random numbers and position in the data, for torch.save."""
    if _program:
        return _program.state_dict()
    if not _objects:
        raise Error("state_dict() needs what prepare() was given")
    if any(_is_keras(o) for o in _objects):
        from .keras.weight import Calls

        return Calls().state_dict()
    from .torch.restart import state

    return state.alone(_objects)
