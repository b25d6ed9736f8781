"""What prepare() was given: each object by what it is, alone or in lists, tuples and dicts.

    prepare([G, D], [opt_G, opt_D], loader)      ->  [G, D], [opt_G, opt_D], the rebuilt loader

A dict with one of PyTorch's objects in it is a container of them; any other dict is something of
the program's own that a state holds (state.py).
"""

from collections import namedtuple

from torch.nn import Module
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader

from ..run import Error

# with what stands before it one line of a log, which the job's reason is taken from
WITHOUT_LOADER = (
    ". Without a DataLoader of yours let one hand out the numbers of rows, DataLoader(range(n), "
    "batch_size, shuffle=True), and train on x[rows], y[rows] "
    "(docs/own-program-frameworks.md#without-a-loader)"
)
OWN_LOADER = " (of a loader of your own make a DataLoader, over a Dataset)"

Given = namedtuple("Given", "models optimizers loaders schedulers others")

# what to write with objects of these packages, which distribute a program themselves
LIGHTNING = (
    "Lightning: trainer = evenstep.prepare(Trainer(…)), and then trainer.fit() as ever; with "
    "Fabric evenstep.prepare() comes before fabric.setup(), and its loader needs no "
    "setup_dataloaders()"
)
ADVICE = {
    "accelerate": "Accelerate: give it the plain DataLoader, in place of the one that "
    "accelerator.prepare() has made",
    "lightning": LIGHTNING,
    "pytorch_lightning": LIGHTNING,
    "lightning_fabric": LIGHTNING,
    "transformers": "transformers: trainer = evenstep.prepare(Trainer(…)), and then "
    "trainer.train()",
    "deepspeed": "DeepSpeed distributes the program itself: give the model and its optimizer as "
    "they are without it",
    "horovod": "Horovod distributes the program itself: give the optimizer that "
    "hvd.DistributedOptimizer() wraps",
    "skorch": "skorch: in a subclass of the net get_iterator(dataset, training=True) gives its "
    "loader once, with module_ and optimizer_, to prepare() "
    "(docs/own-program-frameworks.md#skorch-and-fastai)",
    "fastai": "fastai: prepare(learn.model, learn.opt.opt, loader) comes before "
    "learn.dls = DataLoaders(loader, …), with PyTorch's optimizer in an OptimWrapper "
    "(docs/own-program-frameworks.md#skorch-and-fastai)",
}

# in the order of Given's first four
KINDS = (Module, Optimizer, DataLoader, (LRScheduler, ReduceLROnPlateau))


def _kind(value):
    """The index of its kind in KINDS, len(KINDS) for another object with a state, or None."""
    if isinstance(value, AveragedModel):
        return len(KINDS)  # a module that nobody trains
    for i, kind in enumerate(KINDS):
        if isinstance(value, kind):
            return i
    has_state = callable(getattr(value, "state_dict", None))
    has_state = has_state and callable(getattr(value, "load_state_dict", None))
    return len(KINDS) if has_state or isinstance(value, dict) else None


def _inside(value):
    """The contents of a container; None: it is none."""
    if type(value) in (list, tuple):
        return value
    if isinstance(value, dict) and any(_kind(v) in range(len(KINDS)) for v in value.values()):
        return list(value.values())
    return None


def flat(objects):
    """The objects, in order, from all their containers."""
    found = []
    for o in objects:
        inside = _inside(o)
        found += [o] if inside is None else flat(inside)
    return found


def replaced(objects, old, new):
    """The same objects in the same containers, with `new` instead of `old`."""
    values = []
    for o in objects:
        inside = _inside(o)
        if inside is None:
            values.append(new if plain(o) is old else o)
        elif not any(plain(o) is old for o in flat(inside)):
            values.append(o)
        elif isinstance(o, dict):
            values.append(dict(zip(o, replaced(inside, old, new))))
        else:
            values.append(type(o)(replaced(inside, old, new)))
    return tuple(values)


def plain(value):
    """Unwraps objects of Accelerate, in a job in which it knows of one process: its loader reads a
    batch ahead; its optimizer and its schedule step what they contain."""
    if type(value).__module__.startswith("accelerate."):
        for name in "base_dataloader", "optimizer", "scheduler":
            inside = value.__dict__.get(name)
            if _kind(inside) in range(len(KINDS)):
                return inside
    return value


def _advice(value):
    for kind in type(value).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in ADVICE:
            return ADVICE[package]
    return None


def by_kind(objects):
    """As Given, out of whatever they are in."""
    found = Given([], [], [], [], [])
    for o in map(plain, flat(objects)):
        kind = _kind(o)
        wrong = kind is None or KINDS[kind : kind + 1] == (DataLoader,)
        passes_on = not hasattr(type(o), "state_dict")  # passes requests on to its model
        advice = _advice(o) if wrong or passes_on else None
        if advice:
            raise Error("prepare() does not take a %s. %s" % (type(o).__name__, advice))
        if kind is None:
            raise Error(
                "prepare() takes modules, optimizers, a DataLoader, schedulers, lists and dicts of "
                "them, and what a state is to hold (a dict, or what has state_dict() and "
                "load_state_dict()), not %s%s"
                % (type(o).__name__, OWN_LOADER if hasattr(o, "__iter__") else "")
            )
        found[kind].append(o)
    return found


def sort(objects):
    """The same with what a run needs: models, and one loader, which stands in place of the list."""
    given = by_kind(objects)
    if len(given.loaders) > 1:
        raise Error(
            "prepare() takes one loader, that of the training data, and got %d: the loaders of "
            "validation and test data stay as they are" % len(given.loaders)
        )
    if not given.models or not given.loaders:
        raise Error(
            "prepare() needs the model and the loader of the training data, together (it got %d "
            "and %d)%s"
            % (len(given.models), len(given.loaders), "" if given.loaders else WITHOUT_LOADER)
        )
    for model in given.models:
        wrapper = type(model).__name__
        if wrapper in ("DistributedDataParallel", "FullyShardedDataParallel"):
            raise Error(
                "prepare() takes the model itself, not one wrapped by %s: its ranks exchange here"
                % wrapper
            )
    return given._replace(loaders=given.loaders[0])
