"""A schedule of warm-up and decay whose function asks the loader for its length in each step, a
sampler that sorts by length and turns the order with each epoch, and a loader's class that scales
batches."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Sampler

import evenstep

EPOCHS, BATCH = 4, 32
torch.manual_seed(2)
lengths = [1 + 7 * i % 12 for i in range(96)]
rows = torch.randn(96, 12)
texts = [(row[:n], int(row[0] > 0)) for row, n in zip(rows, lengths)]


class ByLength(Sampler):
    def __init__(self):
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return len(lengths)

    def __iter__(self):
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        first = BATCH * self.epoch % len(order)
        return iter(order[first:] + order[:first])


class Scaled(DataLoader):
    def __iter__(self):
        for x, y in super().__iter__():
            yield x / 2, y


def collate(batch):
    most = max(len(text) for text, _ in batch)
    padded = torch.stack([F.pad(text, (0, most - len(text))) for text, _ in batch])
    return F.pad(padded, (0, 12 - most)), torch.tensor([label for _, label in batch])


def rate(step):
    done = step / (EPOCHS * len(loader))
    return min((step + 1) / 3, max(0.0, 1 - done))


model = nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
sampler = ByLength()
loader = Scaled(texts, BATCH, sampler=sampler, collate_fn=collate)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
model, optimizer, loader, schedule = evenstep.prepare(model, optimizer, loader, schedule)
for epoch in evenstep.epochs(EPOCHS):
    sampler.set_epoch(epoch)
    for i, (x, y) in enumerate(loader, start=1):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        schedule.step()
