"""Accumulation of losses that are sums, by the loop's own count and without no_sync."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(3)
X = torch.randn(100, 10)
Y = X[:, :3].sum(1, keepdim=True).sin()
loader = DataLoader(TensorDataset(X, Y), batch_size=16)
model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader, reduction="sum")
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        ((model(x) - y) ** 2).sum().backward()
        if (i + 1) % 3 == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
