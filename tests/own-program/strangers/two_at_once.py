"""torch.autograd.backward() of two losses at once, of which one is a sum (TEST_SUM)."""
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(1)
x = torch.randn(96, 5)
y = (x[:, 0] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=32)
net, head = nn.Linear(5, 2), nn.Linear(5, 1)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.01)
[net, head], optimizer, loader = evenstep.prepare([net, head], optimizer, loader)
reduction = os.environ.get("TEST_SUM", "mean")
for epoch in range(3):
    for inputs, labels in loader:
        one = F.cross_entropy(net(inputs), labels)
        other = F.mse_loss(head(inputs), inputs[:, :1], reduction=reduction)
        optimizer.zero_grad()
        torch.autograd.backward([one, other])
        optimizer.step()
