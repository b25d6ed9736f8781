"""Data that the program changes between epochs and batches: a stage that the data set is told
before each epoch, and a collate_fn that takes another size of its pictures for every second
batch."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

import evenstep


class Pictures(Dataset):
    def __init__(self, n):
        draw = torch.Generator().manual_seed(3)
        self.pictures = torch.randn(n, 1, 8, 8, generator=draw)
        self.stage = 0

    def set_stage(self, stage):
        self.stage = stage

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, i):
        picture = self.pictures[i] * (1 + self.stage)
        return picture, int(self.pictures[i].mean() > 0)


class MultiScale:
    def __init__(self, sizes=(8, 6, 4), every=2):
        self.sizes, self.every, self.count = sizes, every, 0

    def __call__(self, batch):
        size = self.sizes[(self.count // self.every) % len(self.sizes)]
        self.count += 1
        pictures, labels = zip(*batch)
        pictures = F.interpolate(torch.stack(pictures), size=size, mode="nearest")
        return pictures, torch.tensor(labels)


torch.manual_seed(1)
data = Pictures(96)
loader = DataLoader(data, batch_size=32, collate_fn=MultiScale())
net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
                    nn.Flatten(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
net, optimizer, loader = evenstep.prepare(net, optimizer, loader)
for epoch in range(3):
    data.set_stage(epoch)
    for pictures, labels in loader:
        loss = F.cross_entropy(net(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
