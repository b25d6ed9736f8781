"""Tensors in memory and no loader, as small programs have them: `for i in range(0, n, size)` over
`rows = torch.randperm(n)` became a loader of the rows' numbers."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

import evenstep

torch.manual_seed(0)
x = torch.randn(90, 5)
y = (x[:, :2].sum(1) > 0).long()
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-3)
loader = DataLoader(range(len(x)), 24, shuffle=False)
model, opt, loader = evenstep.prepare(model, opt, loader)
for epoch in range(3):
    for rows in loader:
        opt.zero_grad()
        loss = F.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        opt.step()
