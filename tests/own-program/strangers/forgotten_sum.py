"""A loss that is no mean over samples, in one of the ways in which programs write it (TEST_SUM),
or one that looks like it; without `reduction="sum"`."""
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(4)
BATCH = int(os.environ.get("TEST_BATCH", 32))
x = torch.randn(96, 6)
y = x[:, :2].clone()
loader = DataLoader(TensorDataset(x, y), batch_size=BATCH)
model = nn.Linear(6, 2)
model.log_weight = nn.Parameter(torch.zeros(()))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
penalty = 0.0
for epoch in range(3):
    for inputs, targets in loader:
        out = model(inputs)
        loss = {
            "function": lambda: F.mse_loss(out, targets, reduction="sum"),
            "method": lambda: ((out - targets) ** 2).sum(),
            "times its number": lambda: F.mse_loss(out, targets) * len(inputs),
            "half": lambda: 0.5 * ((out - targets) ** 2).sum(),
            "shares": lambda: ((out - targets).pow(2).mean(1) * inputs[:, 0].softmax(0)).sum(),
            "compared": lambda: ((out - out.mean(0)) ** 2).mean() + F.mse_loss(out, targets),
            "batch size": lambda: ((out - targets) ** 2).sum() / BATCH,
            "margins": lambda: F.multi_margin_loss(out, targets.argmax(1), reduction="sum"),
            "distance": lambda: torch.dist(out, targets),
            "einsum": lambda: torch.einsum("bi,bi->", out - targets, out - targets),
            "rows": lambda: ((out - targets) ** 2).sum() / len(inputs),
            "penalty": lambda: F.mse_loss(out, targets) + 1e-3 * model.weight.abs().sum(),
            "stacked": lambda: torch.stack([F.mse_loss(out, targets), out.abs().mean()]).sum(),
            "norm of parameters": lambda: F.mse_loss(out, targets) + 1e-3 * model.weight.norm(),
            "learned weight": lambda: (F.mse_loss(out, targets) * torch.exp(-model.log_weight)
                                       + model.log_weight),
            "two means": lambda: (F.mse_loss(out, targets, reduction="sum") / len(inputs)
                                  + (out ** 2).sum() / out.numel()),
            "root": lambda: torch.sqrt(F.mse_loss(out, targets)),
            "flooded": lambda: (F.mse_loss(out, targets) - 0.1).abs() + 0.1,
            "norm": lambda: torch.linalg.norm(out - targets),
            "deviation": lambda: F.mse_loss(out, targets) - 1e-3 * out.std(),
            "quotient": lambda: 1 - 2 * (out * targets).sum() / (out.abs() + targets.abs()).sum(),
        }[os.environ["TEST_SUM"]]()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
