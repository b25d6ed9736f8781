"""Accumulation over tasks: each batch is of one task, and reaches the head of that one alone."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(1)
X = torch.randn(96, 8)
Y = torch.stack([X[:, 0] + X[:, 1], X[:, 2] * X[:, 3]], 1)
loader = DataLoader(TensorDataset(X, Y), batch_size=16)
body = nn.Sequential(nn.Linear(8, 16), nn.Tanh())
heads = nn.ModuleList([nn.Linear(16, 1), nn.Linear(16, 1)])
model = nn.ModuleDict({"body": body, "heads": heads})
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        task = i % 2
        out = heads[task](body(x)).squeeze(1)
        (nn.functional.mse_loss(out, y[:, task]) / 2).backward()
        if task == 1:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
