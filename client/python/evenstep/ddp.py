"""PyTorch programs that were written for DistributedDataParallel, unchanged.

    python -m evenstep.ddp train.py ARGS …        what `evenstep run --ddp train.py` starts

The program is run with a process group in pure Python, which knows rank and size, and with a
DistributedDataParallel that hands its module to prepare(). That joins when the training loop
begins, since only then model, optimizer and loader are all there:

    DistributedDataParallel(model) ─┐
    optimizers of its parameters  ──┼─► first batch of a loader with a DistributedSampler: prepare()
    batch_size × world size       ──┘

The service draws the order of samples in place of the sampler, and each rank has an equal share.
The ranks exchange gradients; the program's own collectives (a metric's all_reduce, a barrier, an
object) go from program to program (group.py).
"""

import contextlib
import os
import runpy
import sys
import weakref

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from . import Error, alone, group, no_sync, prepare
from .torch.samples.loader import KEPT


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
    _init("evenstep", store=dist.HashStore(), rank=mine[0], world_size=mine[1])


_init = dist.init_process_group


# ---- the model


class DistributedDataParallel(torch.nn.Module):
    """In place of PyTorch's: the module, whose gradients the ranks sum."""

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
        """Ranks make the same number of steps, whatever samples they have."""
        return contextlib.nullcontext()

    def register_comm_hook(self, *_):
        raise Error("register_comm_hook: the ranks' exchange is the strategy's, not the program's")


def _models():
    return [m for m in (made() for made in DistributedDataParallel.made) if m is not None]


# ---- optimizers and loaders


class _Optimizers:
    """Every optimizer that is made."""

    made = []

    @classmethod
    def watch(cls):
        original = torch.optim.Optimizer.__init__

        def begin(self, *arguments, **named):
            original(self, *arguments, **named)
            cls.made.append(weakref.ref(self))

        torch.optim.Optimizer.__init__ = begin

    @classmethod
    def of(cls, models):
        mine = {id(p) for m in models for p in m.parameters()}
        living = [o for o in (made() for made in cls.made) if o is not None]
        parts = {id(o): {id(p) for g in o.param_groups for p in g["params"]} for o in living}
        return [o for o in living if parts[id(o)] & mine]


class _Loaders:
    """Sees when the training loop begins: a distributed loader is read while a model trains."""

    given = prepared = None

    @classmethod
    def watch(cls):
        original = DataLoader.__iter__

        def begin(self):
            trains = torch.is_grad_enabled() and any(m.training for m in _models())
            if isinstance(self.sampler, DistributedSampler) and trains and not alone():
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


def _whole(loader):
    """The loader of the global batch."""
    sampler, size = loader.sampler, int(os.environ["WORLD_SIZE"])
    arguments = {name: getattr(loader, name) for name in KEPT if hasattr(loader, name)}
    arguments.update(num_workers=loader.num_workers, prefetch_factor=loader.prefetch_factor)
    drop_last = loader.drop_last or sampler.drop_last
    return DataLoader(
        loader.dataset, loader.batch_size * size, sampler.shuffle, drop_last=drop_last, **arguments
    )


# ---- the program


def install():
    """What the program imports from now on is ours."""
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
    _Optimizers.watch()
    _Loaders.watch()


def main():
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m evenstep.ddp FILE [ARGS …]")
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    install()
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
