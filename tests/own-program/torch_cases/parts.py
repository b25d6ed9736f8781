"""What the cases share: data that are drawn from a seed, networks, and the loop around a step.

Each case writes its parameters to OUTPUT.npz. Full batches (`FULL`) make the order of samples
irrelevant, so that a run alone and one on unequal ranks are comparable."""

import os
import signal

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import evenstep

FULL, STEPS = 1200, 60


def data(n=FULL, features=20, classes=5):
    g = torch.Generator().manual_seed(3)
    x = torch.randn(n, features, generator=g)
    y = (x @ torch.randn(features, classes, generator=g)).argmax(1)
    return TensorDataset(x, y)


def images(n=FULL):
    g = torch.Generator().manual_seed(4)
    return TensorDataset(torch.randn(n, 3, 8, 8, generator=g), torch.arange(n) % 5)


def mlp():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(),
                         nn.Linear(64, 5))


def leave(output, model, **more):
    values = {k.replace("/", "."): v.detach().float().numpy()
              for k, v in model.state_dict().items()}
    np.savez(output + ".npz", **values, **more)


def loop(output, model, opt, loader, step, epochs=STEPS, **options):
    """prepare, then `step` for each batch."""
    model, opt, loader = evenstep.prepare(model, opt, loader, **options)
    steps = 0
    for _ in evenstep.epochs(epochs):
        for x, y in loader:
            steps += 1
            crash(steps, opt)
            step(model, opt, x, y)
    leave(output, model)


def last_rank():
    return evenstep.rank() == evenstep.world_size() - 1


def crash(steps, opt):
    """TEST_CRASH=N: the last rank's first process is killed where its Nth step begins, or with
    TEST_CRASH_IN=optimizer where the optimizer's step begins."""
    first = os.environ.get("EVENSTEP_INCARNATION") == "0" and last_rank()
    if first and steps == int(os.environ.get("TEST_CRASH", 0)):
        kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        if os.environ.get("TEST_CRASH_IN") == "optimizer":
            opt.register_step_pre_hook(kill)
        else:
            kill()


def plain_step(model, opt, x, y):
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step()


def full(set_, **options):
    return DataLoader(set_, batch_size=FULL, shuffle=True, **options)
