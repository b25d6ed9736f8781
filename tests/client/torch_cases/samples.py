"""Cases of the data: loaders, samplers, workers, loops that are left early."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

from .parts import data, leave


def _tell_batches(output, loader, **options):
    """Sizes of batches and the samples of each epoch, with a scheduler that counts loops' turns."""
    model = nn.Linear(1, 1)
    model, opt, loader = evenstep.prepare(
        model, torch.optim.SGD(model.parameters(), 1e-4), loader, **options
    )
    sizes, seen = [], []
    for _ in evenstep.epochs(3):
        for (x,) in loader:
            sizes.append(len(x))
            seen.append(x.flatten().numpy().copy())
            opt.zero_grad()
            model(x).sum().backward()
            opt.step()
    leave(output, model, sizes=sizes, seen=np.concatenate(seen), length=len(loader))


def numbers(n=200):
    return TensorDataset(torch.arange(n, dtype=torch.float32).view(n, 1))


def shuffled_with_workers(output):
    loader = DataLoader(numbers(), batch_size=32, shuffle=True, num_workers=2, prefetch_factor=3)
    _tell_batches(output, loader)


def drop_last(output):
    _tell_batches(output, DataLoader(numbers(), batch_size=32, shuffle=True, drop_last=True))


def weighted_sampler(output):
    sampler = torch.utils.data.WeightedRandomSampler(torch.arange(200.0), 200)
    _tell_batches(output, DataLoader(numbers(), batch_size=32, sampler=sampler))


class Lines(torch.utils.data.IterableDataset):
    def __init__(self, start=0, step=1):
        self.start, self.step = start, step

    def __iter__(self):
        return iter((torch.tensor([float(i)]),) for i in range(self.start, 200, self.step))


def iterable(output):
    loader = DataLoader(Lines(), batch_size=32)
    part = lambda dataset, rank, workers: Lines(rank, workers)
    _tell_batches(output, loader, shard=part, samples=200)


def left_early(output):
    """A loop that is left after three batches goes on with the fourth."""
    model = nn.Linear(1, 1)
    loader = DataLoader(numbers(), batch_size=32, num_workers=2)
    model, opt, loader = evenstep.prepare(
        model, torch.optim.SGD(model.parameters(), 1e-4), loader
    )
    seen = []
    for _ in range(3):
        for i, (x,) in enumerate(loader):
            seen.append(x.flatten().numpy().copy())
            opt.zero_grad()
            model(x).sum().backward()
            opt.step()
            if i == 2:
                break
    leave(output, model, seen=np.concatenate(seen))
