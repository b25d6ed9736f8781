"""A loader beside the training loader, before it in zip(), which asks it first and so ends with it:
`for unlabeled, (x, y) in zip(others, loader)`."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
x = torch.randn(96, 6)
others = DataLoader(TensorDataset(torch.randn(24, 6)), batch_size=8)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), batch_size=32)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(4):
    for (unlabeled,), (inputs, targets) in zip(others, loader):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss = loss + 0.1 * model(unlabeled).pow(2).mean()
        loss.backward()
        optimizer.step()
