"""Parameters and running statistics in the shared block.

A float32 tensor in host memory becomes a view of its part of the block: `param.data` is replaced,
the Parameter object stays, so optimizers made before or after see the same one. Each view has a
storage of its own (one frombuffer), since torch.save writes whole storages. Any other tensor (on a
GPU, bfloat16) keeps its memory and is copied where the rank reads or writes the block. A complex
tensor is to the rank one of floats, with a last dimension of two.

A program may move a parameter out of the block (`model.to()`): `check` compares addresses before
every step and brings it back.
"""

import contextlib
from collections import namedtuple

import torch

from ...run import Error

Described = namedtuple("Described", "parameters statistics named buffers")


def _is_dense(tensor):
    if tensor.is_contiguous():
        return True
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.dim() in formats and tensor.is_contiguous(memory_format=formats[tensor.dim()])


def plain(name):
    """A name without what torch.compile puts before it."""
    return name.replace("_orig_mod.", "")


def _is_lazy(param):
    return isinstance(param, torch.nn.parameter.UninitializedParameter)


def may_train(param):
    """Not a constant that is kept as a parameter (numbers of classes, a mask), nor an empty one."""
    if _is_lazy(param):
        return True
    floats = param.is_floating_point() or param.is_complex()
    return (param.requires_grad or floats) and param.numel() > 0


def _floats_of(tensor):
    """How many floats of the block a tensor takes."""
    return tensor.numel() * (2 if tensor.is_complex() else 1)


def named_parameters(models):
    """Each parameter once, with its name; tied ones under their first name."""
    seen = set()
    for i, model in enumerate(models):
        prefix = "%d." % i if len(models) > 1 else ""
        for name, param in model.named_parameters():
            if id(param) not in seen and may_train(param):
                seen.add(id(param))
                yield plain(prefix + name), param


def has_batch_norm(models):
    """PyTorch's refuse to train on one sample, which a node's share of a batch may be."""
    norm = torch.nn.modules.batchnorm._BatchNorm
    return any(isinstance(m, norm) for model in models for m in model.modules())


def _named_statistics(models):
    """(name, tensor, index of its mean or -1): running means and variances of batch norms."""
    found = []
    for i, model in enumerate(models):
        prefix = "%d." % i if len(models) > 1 else ""
        for name, module in model.named_modules():
            mean = getattr(module, "running_mean", None)
            variance = getattr(module, "running_var", None)
            if isinstance(mean, torch.Tensor) and isinstance(variance, torch.Tensor):
                path = plain(prefix + name + "." if name else prefix)
                found.append((path + "running_mean", mean, -1))
                found.append((path + "running_var", variance, len(found) - 1))
    return found


def describe(models, optimizers):
    groups = [g for o in optimizers for g in o.param_groups]
    without_decay = {id(p) for g in groups if not g.get("weight_decay") for p in g["params"]}
    named, parameters = list(named_parameters(models)), []
    for name, p in named:
        if _is_lazy(p):
            raise Error(
                "parameter '%s' has no shape yet (a lazy module): run the model once before "
                "prepare()" % name
            )
        if not (p.is_floating_point() or p.is_complex()) or p.layout != torch.strided:
            raise Error("parameter '%s' is %s: only dense floats are trained" % (name, p.dtype))
        laid = torch.view_as_real(p.detach()) if p.is_complex() else p
        entry = {"name": name, "shape": list(laid.shape), "decay": id(p) not in without_decay}
        if not p.is_contiguous() and _is_dense(p):
            entry["strides"] = list(laid.stride())
        parameters.append(entry)
    if not named:
        raise Error("the model has no parameters")
    buffers = _named_statistics(models)
    statistics = [
        {"name": name, "shape": list(b.shape), "mean_of": mean} for name, b, mean in buffers
    ]
    return Described(parameters, statistics, named, [b for _, b, _ in buffers])


class Slot:
    """One tensor's place in a block."""

    def __init__(self, name, tensor, memory, first):
        self.name, self.tensor, self.first = name, tensor, first
        self.dtype = torch.complex64 if tensor.is_complex() else torch.float32
        self.view = self._over(memory)
        self.at = self.view.data_ptr()
        self.inside = False  # the tensor's memory is the block's

    def _over(self, memory):
        t, n = self.tensor, self.tensor.numel()
        flat = torch.frombuffer(memory, dtype=self.dtype, count=n, offset=4 * self.first)
        return flat.as_strided(t.size(), t.stride()) if _is_dense(t) else flat.view(t.shape)

    def fits(self):
        return self.tensor.dtype == self.dtype and self.tensor.device.type == "cpu"

    def move_in(self):
        """The tensor's memory becomes the block's, if it can; the block's values count."""
        self.inside = self.fits()
        if self.inside:
            self.tensor.data = self.view
        else:
            self.tensor.data.copy_(self.view)

    def is_where_it_was(self):
        return not self.inside or self.tensor.data_ptr() == self.at


class Blocks:
    def __init__(self, run, models, described):
        self.run, self.models = run, models
        self.slots = self._slots(described.named, run.params)
        self.statistics = self._slots(
            [(s["name"], b) for s, b in zip(described.statistics, described.buffers)], run.stats
        )
        self.gradients = [Slot(s.name, s.tensor, run.grads, s.first).view for s in self.slots]
        self.flat = torch.frombuffer(run.params, dtype=torch.float32)
        self.flat_gradients = torch.frombuffer(run.grads, dtype=torch.float32)
        self.by_id = {id(s.tensor): i for i, s in enumerate(self.slots)}
        self.before = None  # parameters before the step of which the difference is sent
        self.where, self.outside = [], []

    @staticmethod
    def _slots(named, memory):
        slots, first = [], 0
        for name, tensor in named:
            slots.append(Slot(name, tensor, memory, first))
            first += _floats_of(tensor)
        return slots

    @torch.no_grad()
    def fill(self):
        """The program's own first values, before everybody's are there."""
        for slot in self.slots + self.statistics:
            slot.view.copy_(slot.tensor)

    @torch.no_grad()
    def attach(self):
        for slot in self.slots + self.statistics:
            slot.move_in()
        self._sort()

    def _sort(self):
        both = self.slots + self.statistics
        self.where = [(s.tensor, s.at) for s in both if s.inside]
        self.outside = [s for s in both if not s.inside]

    def check(self, copy=True):
        """Brings back what the program moved; copy: the rank is about to read the block."""
        for tensor, at in self.where:  # in every step: nothing else is done where nothing moved
            if tensor.data_ptr() != at:
                break
        else:
            if not self.outside:
                return
        self._bring_back(copy)

    @torch.no_grad()
    def _bring_back(self, copy):
        for slot in self.slots + self.statistics:
            if not slot.is_where_it_was() or (not slot.inside and slot.fits()):
                slot.view.copy_(slot.tensor)
                slot.move_in()
                self._sort()
        for slot in self.outside if copy else ():
            slot.view.copy_(slot.tensor)

    def refresh(self):
        """The rank has changed the block: what is not in it gets the new values."""
        for slot in self.outside:
            slot.tensor.data.copy_(slot.view)

    def finer(self):
        """What the block has rounded, by name: values of 64 bits."""
        return {
            slot.name: slot.tensor.detach().clone()
            for slot in self.outside
            if slot.tensor.dtype in (torch.float64, torch.complex128)
        }

    @torch.no_grad()
    def refine(self, values):
        """The same of a state, where the block has them rounded."""
        for slot in self.outside:
            value = values.get(slot.name)
            if value is not None and torch.equal(value.to(slot.dtype), slot.view):
                slot.tensor.copy_(value)

    @contextlib.contextmanager
    def kept(self):
        """Whatever is done within, all of it is afterwards as it was before."""
        both = self.slots + self.statistics
        before = [slot.tensor.detach().clone() for slot in both]
        try:
            yield
        finally:
            with torch.no_grad():
                for slot, value in zip(both, before):
                    if not slot.tensor.equal(value):  # a forward pass may be under way
                        slot.tensor.copy_(value)

    @torch.no_grad()
    def remember(self):
        """Before a step whose difference is sent."""
        if self.before is None:
            self.before = torch.empty_like(self.flat)
        self.before.copy_(self.flat)

    @torch.no_grad()
    def difference(self):
        """Gradients become parameters before minus after, parameters what they were before."""
        self.check()
        torch.sub(self.before, self.flat, out=self.flat_gradients)
        self.flat.copy_(self.before)

    def check_replaced(self):
        """load_state_dict(assign=True) swaps Parameter objects: the model then trains others. So
        does a layer that is added."""
        for name, p in named_parameters(self.models):
            if id(p) not in self.by_id:
                raise Error(
                    "parameter '%s' was replaced after prepare() (load_state_dict(assign=True), or "
                    "an assignment to the module): do that before prepare()" % name
                )
