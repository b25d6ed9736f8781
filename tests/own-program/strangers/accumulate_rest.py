"""Accumulation without no_sync, whose last step of an epoch has fewer batches: both by the loop's
own count."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
X = torch.randn(112, 8)
Y = X[:, :2].sum(1, keepdim=True)
loader = DataLoader(TensorDataset(X, Y), batch_size=16)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
accumulation = 3
for epoch in range(4):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x), y)
        (loss / accumulation).backward()
        if (i + 1) % accumulation == 0 or (i + 1) == len(loader):
            optimizer.step()
            optimizer.zero_grad()
