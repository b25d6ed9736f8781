"""A thread of the program's own that reads batches ahead (a BackgroundGenerator)."""
import queue
import threading

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class ReadsAhead:
    def __init__(self, batches, ahead=2):
        self.batches, self.queue = batches, queue.Queue(ahead)
        threading.Thread(target=self.fill, daemon=True).start()

    def fill(self):
        for batch in self.batches:
            self.queue.put(batch)
        self.queue.put(None)

    def __iter__(self):
        return iter(self.queue.get, None)


model = torch.nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
data = TensorDataset(torch.randn(96, 6), torch.arange(96) % 3)
model, optimizer, loader = evenstep.prepare(model, optimizer, DataLoader(data, 32))
for epoch in evenstep.epochs(3):
    for x, y in ReadsAhead(loader):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
