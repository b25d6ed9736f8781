"""Gradients that stay from batch to batch: accumulated by three (TEST_KEEP=three, or no_sync),
faded in place of zeroed (fades); of losses that are sums (TEST_SUM=1)."""
import contextlib
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

KEEP, SUM = os.environ.get("TEST_KEEP", "three"), bool(os.environ.get("TEST_SUM"))
torch.manual_seed(1)
x = torch.randn(192, 5)
y = x[:, :2].sum(1, keepdim=True)
loader = DataLoader(TensorDataset(x, y), batch_size=32)
model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001 if SUM else 0.05)
reduction = "sum" if SUM else "mean"
model, optimizer, loader = evenstep.prepare(model, optimizer, loader, reduction=reduction)
for epoch in range(3):
    for i, (inputs, targets) in enumerate(loader):
        waits = KEEP == "no_sync" and (i + 1) % 3
        with evenstep.no_sync() if waits else contextlib.nullcontext():
            F.mse_loss(model(inputs), targets, reduction=reduction).backward()
        if KEEP == "fades":
            optimizer.step()
            for p in model.parameters():
                p.grad.mul_(0.5)
        elif (i + 1) % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
