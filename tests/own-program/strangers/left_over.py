"""Gradients of two batches make a step, in an epoch of three: behind the loop the program steps on
what is left over."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(3)
x = torch.randn(96, 6)
y = x[:, :2].sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loader = DataLoader(TensorDataset(x, y), batch_size=32)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
accumulation_steps = 2
for epoch in range(3):
    optimizer.zero_grad()
    for i, (rows, right) in enumerate(loader):
        loss = nn.functional.mse_loss(model(rows), right) / accumulation_steps
        loss.backward()
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
    if (i + 1) % accumulation_steps != 0:
        optimizer.step()
        optimizer.zero_grad()
