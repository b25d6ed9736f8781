"""Habits that are another thing on a part of a batch: a last batch that is smaller is left out by
hand (TEST_HABIT=skip), labels and a hidden state of batch_size rows (labels, hidden), statistics of
the data by a loop over the loader (statistics), a step for each parameter within the backward pass
(hook)."""
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

HABIT = os.environ.get("TEST_HABIT", "skip")
batch_size = 32
torch.manual_seed(0)
x = torch.randn(96, 5) * 2 + 1
y = (x.sum(1, keepdim=True) > 5).float()
loader = DataLoader(TensorDataset(x, y), batch_size=batch_size)
model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
loss_fn = nn.BCEWithLogitsLoss()
mean, std = 0.0, 1.0
if HABIT == "hook":
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: optimizer.step())
if HABIT == "statistics":
    total, squares, n = 0.0, 0.0, 0
    for inputs, _ in loader:
        total, squares, n = total + inputs.sum(0), squares + (inputs ** 2).sum(0), n + len(inputs)
    mean = total / n
    std = (squares / n - mean ** 2).sqrt()
for epoch in range(3):
    for inputs, targets in loader:
        if HABIT == "skip" and inputs.size(0) != batch_size:
            continue
        if HABIT == "labels":
            targets = torch.ones(batch_size, 1)
        if HABIT == "hidden":
            inputs = inputs + torch.zeros(batch_size, 5)
        loss = loss_fn(model((inputs - mean) / std), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
