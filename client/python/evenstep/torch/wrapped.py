"""PyTorch's classes for distributed programs in a program that was prepared: refused, or
reported."""

import torch

from ..run import Error


def _refuse(*_, **__):
    raise Error(
        "DistributedDataParallel in a program that calls evenstep.prepare() would exchange the "
        "gradients a second time: leave it and init_process_group() out, or leave prepare() out "
        "and run the program by `evenstep run --ddp`"
    )


def watch(run, models):
    """Call it after joining. Under `--ddp` the class is ours (../ddp.py)."""
    wrapper = torch.nn.parallel.DistributedDataParallel
    if wrapper.__module__.startswith("torch."):
        wrapper.__init__ = _refuse
    synchronized = torch.nn.SyncBatchNorm
    if run.workers > 1 and any(isinstance(m, synchronized) for o in models for m in o.modules()):
        run.say(
            "SyncBatchNorm normalizes by the node's own samples, as BatchNorm does here; running "
            "statistics are averaged over the nodes"
        )
