"""Wrappers that look one batch ahead: one moves batches as timm's PrefetchLoader, another marks the
last one; accumulation by two, and what is left of it in the last batch."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class PrefetchLoader:
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        first = True
        for next_input, next_target in self.loader:
            next_input = next_input.double().sub_(0.1).float()
            if not first:
                yield input, target
            else:
                first = False
            input, target = next_input, next_target * 1
        yield input, target

    def __len__(self):
        return len(self.loader)


def mark_last(iterable):
    batches = iter(iterable)
    before = next(batches)
    for batch in batches:
        yield False, before
        before = batch
    yield True, before


torch.manual_seed(3)
x = torch.randn(80, 6)
data = TensorDataset(x, x[:, :3].argmax(1))
model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 3))
optimizer = torch.optim.AdamW(model.parameters(), 1e-2, eps=1e-3)
loader = DataLoader(data, batch_size=16)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(2):
    for i, (last, (input, target)) in enumerate(mark_last(loader)):
        (F.cross_entropy(model(input), target) / 2).backward()
        if i % 2 or last:
            optimizer.step()
            optimizer.zero_grad()
for epoch in range(2):
    for i, (input, target) in enumerate(PrefetchLoader(loader)):
        (F.cross_entropy(model(input), target) / 2).backward()
        if (i + 1) % 2 == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
