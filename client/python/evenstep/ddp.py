"""PyTorch programs that were written for DistributedDataParallel, unchanged.

    python -m evenstep.ddp train.py ARGS …        what `evenstep run --ddp train.py` starts

The program is run with a process group in pure Python, which knows rank and size, and with a
DistributedDataParallel that hands its module to prepare(). That joins when the training loop
begins, since only then model, optimizer and loader are all there:

    DistributedDataParallel(model) ─┐
    optimizers of its parameters  ──┼─► first batch of a loader with a DistributedSampler: prepare()
    batch_size × world size       ──┘

The sampler says which samples each rank has of a global batch, and with equal shares it has them.
The ranks exchange gradients; the program's own collectives (a metric's all_reduce, a barrier, an
object) go from program to program (group.py).
"""

import contextlib
import copy
import datetime
import os
import runpy
import sys
import weakref

import torch
import torch.distributed as dist
from torch.distributed.algorithms import join
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import BatchSampler, DataLoader, Sampler

from . import Error, alone, group, no_sync, prepare
from .peers import TIMEOUT_SECONDS
from .torch.randomness import random_numbers, restore_random_numbers
from .torch.samples.load import KEPT

SHARED_OUT = "no loader with a DistributedSampler, by which --ddp knows each rank's samples"


# ---- the process group


def _init_process_group(
    backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, *_, **__
):
    mine = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if (rank, world_size) not in ((-1, -1), mine):
        raise Error(
            "init_process_group: this is rank %d of %d, not %d of %d; a program that starts its "
            "ranks itself (torch.multiprocessing.spawn) has to take them from the environment, as "
            "torchrun gives them" % (*mine, rank, world_size)
        )
    timeout = timeout or datetime.timedelta(seconds=TIMEOUT_SECONDS)
    _init("evenstep", None, timeout, rank=mine[0], world_size=mine[1], store=dist.HashStore())


_init = dist.init_process_group


# ---- the model


class DistributedDataParallel(torch.nn.Module):
    """Replaces PyTorch's class: returns the module, whose gradients the ranks sum."""

    made = []

    def __init__(self, module, *_, **__):
        super().__init__()
        if not any(p.requires_grad for p in module.parameters()):
            raise Error("DistributedDataParallel: no parameter of the module needs a gradient")
        self.module = module
        self.made.append(weakref.ref(self))

    def forward(self, *inputs, **named):
        return self.module(*inputs, **named)

    def no_sync(self):
        return no_sync()

    def join(self, *_, **__):
        return Join([self])

    def register_comm_hook(self, *_):
        raise Error("register_comm_hook: the ranks' exchange is the strategy's, not the program's")


class Join(contextlib.nullcontext):
    """Replaces PyTorch's class: ranks make the same number of steps, whatever samples they have."""

    def __init__(self, joinables, *_, **__):
        super().__init__()

    @staticmethod
    def notify_join_context(joinable):
        return None


def _models():
    return [m for m in (made() for made in DistributedDataParallel.made) if m is not None]


# ---- optimizers and loaders


class _Optimizers:
    """Keeps track of every optimizer that is made."""

    made = []

    @classmethod
    def watch(cls):
        original = torch.optim.Optimizer.__init__

        def begin(self, *arguments, **named):
            original(self, *arguments, **named)
            cls.made.append(weakref.ref(self))

        torch.optim.Optimizer.__init__ = begin
        torch.optim.Optimizer.__init_subclass__ = classmethod(_keep_whole)
        register_optimizer_step_pre_hook(cls.before_step)

    @classmethod
    def before_step(cls, optimizer, *_):
        """The optimizers for which no gradient was summed."""
        if _Loaders.given is not None or alone():
            return
        kinds = {type(p).__name__ for g in optimizer.param_groups for p in g["params"]}
        if kinds & {"FlatParameter", "DTensor"}:
            raise Error(
                "FSDP and what else cuts up parameters is not offered under --ddp: wrap the model "
                "in DistributedDataParallel, and each rank has all of it"
            )
        if cls.of(_models(), [optimizer]):
            raise Error("a DistributedDataParallel model trains on batches of " + SHARED_OUT)

    @classmethod
    def of(cls, models, optimizers=None):
        """The optimizers that step a parameter of the models, of these or of all."""
        mine = {id(p) for m in models for p in m.parameters()}
        living = optimizers or [o for o in (made() for made in cls.made) if o is not None]
        parts = {id(o): {id(p) for g in o.param_groups for p in g["params"]} for o in living}
        return [o for o in living if parts[id(o)] & mine]


def _keep_whole(kind, **_):
    """Called when a subclass of Optimizer is made. ZeroRedundancyOptimizer gives each rank a part
    of another optimizer's state, to save memory; here it becomes that optimizer, with all of its
    state."""

    def make(_, params, optimizer_class, process_group=None, parameters_as_bucket_view=False,
             overlap_with_ddp=False, **defaults):
        optimizer = optimizer_class(params, **defaults)
        optimizer.consolidate_state_dict = lambda to=0: None
        return optimizer

    if kind.__name__ == "ZeroRedundancyOptimizer":
        kind.__new__ = make


class _Loaders:
    """Detects the start of the training loop: a distributed loader is read while a model trains."""

    given = prepared = None

    @classmethod
    def watch(cls):
        original = DataLoader.__iter__

        def begin(self):
            trains = torch.is_grad_enabled() and any(m.training for m in _models())
            if trains and not alone() and _sampler_of(self):
                return iter(cls.of(self))
            return original(self)

        DataLoader.__iter__ = begin

    @classmethod
    def of(cls, loader):
        if cls.given is None:
            models = _models()
            optimizers = _Optimizers.of(models)
            if not optimizers:
                raise Error("the training loop begins before there is an optimizer of the model")
            whole = _whole(loader)
            parts = [m.module for m in models] + optimizers
            cls.given, cls.prepared = loader, prepare(*parts, whole, by_samples=True)[-1]
        if loader is not cls.given:
            raise Error("a program trains with one distributed loader, and this is a second one")
        return cls.prepared


def _sampler_of(loader):
    """Its DistributedSampler, or a similar one that gives this rank's part of an epoch; None: it
    has none."""
    batches = loader.batch_sampler
    sampler = batches.sampler if type(batches) is BatchSampler else None
    return sampler if hasattr(sampler, "num_replicas") and hasattr(sampler, "rank") else None


class AllRanks(Sampler):
    """The order of the global batches: of each the ranks' parts, one after the other.

        rank 0 draws  a b c d        batches of 2, 2 ranks
        rank 1 draws  e f g h        a b e f │ c d g h
    """

    def __init__(self, sampler, batch):
        self.sampler, self.batch, self.epoch = sampler, batch, 0
        self.generator = getattr(sampler, "generator", None)
        if sampler.num_replicas != dist.get_world_size():
            raise Error(
                "the %s of the training data is one for %d ranks, and there are %d"
                % (type(sampler).__name__, sampler.num_replicas, dist.get_world_size())
            )

    def __len__(self):
        return len(self.sampler) * self.sampler.num_replicas

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        parts = [self._part_of(rank) for rank in range(self.sampler.num_replicas)]
        if len(parts) > 1 and len(self.sampler) > 1 and all(p == parts[0] for p in parts):
            raise Error(
                "the %s of the training data gives all ranks the same samples"
                % type(self.sampler).__name__
            )
        for first in range(0, len(self.sampler), self.batch):
            for part in parts:
                yield from part[first : first + self.batch]

    def _part_of(self, rank):
        """The part that the program of that rank draws, which has the same random numbers."""
        sampler, now = copy.copy(self.sampler), random_numbers()
        sampler.rank = rank
        if self.generator is not None:
            sampler.generator = torch.Generator(self.generator.device)
            sampler.generator.set_state(self.generator.get_state())
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(self.epoch)
        part = list(sampler)
        restore_random_numbers(now)
        if len(part) != len(self.sampler):
            raise Error(
                "the %s of the training data says that rank %d has %d samples and gives %d"
                % (type(sampler).__name__, rank, len(self.sampler), len(part))
            )
        return part


def _whole(loader):
    """The loader of the global batch."""
    batches = loader.batch_sampler
    arguments = {name: getattr(loader, name) for name in KEPT if hasattr(loader, name)}
    arguments.update(num_workers=loader.num_workers, prefetch_factor=loader.prefetch_factor)
    return DataLoader(
        loader.dataset,
        batches.batch_size * dist.get_world_size(),
        sampler=AllRanks(batches.sampler, batches.batch_size),
        drop_last=batches.drop_last,
        **arguments,
    )


# ---- the program


def install():
    """Replaces what the program imports from now on."""
    env = os.environ
    env["RANK"] = env.get("EVENSTEP_RANK", "0")
    env["WORLD_SIZE"] = env.get("EVENSTEP_WORLD_SIZE", "1")
    for name, value in {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}.items():
        env[name] = value
    env.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    group.register()
    dist.init_process_group = dist.distributed_c10d.init_process_group = _init_process_group
    parallel = torch.nn.parallel
    parallel.DistributedDataParallel = DistributedDataParallel
    parallel.distributed.DistributedDataParallel = DistributedDataParallel
    join.Join = dist.algorithms.Join = Join
    _Optimizers.watch()
    _Loaders.watch()


def main():
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m evenstep.ddp FILE [ARGS …]")
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    install()
    runpy.run_path(sys.argv[0], run_name="__main__")
    if _Loaders.given is None and not alone():
        raise Error("the program has trained no DistributedDataParallel model, or on " + SHARED_OUT)


if __name__ == "__main__":
    main()
