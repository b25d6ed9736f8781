"""Bayes by backprop: an ELBO whose likelihood is summed over the batch, and whose complexity, a
function of the parameters alone, is shared out among the batches."""
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)


class BayesLinear(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.mu = nn.Parameter(torch.randn(m, n) / math.sqrt(n))
        self.rho = nn.Parameter(torch.full((m, n), -4.0))

    def forward(self, x, eps):
        sigma = torch.log1p(torch.exp(self.rho))
        self.kl = (0.5 * (sigma**2 + self.mu**2 - 1) - torch.log(sigma)).sum()
        return x @ (self.mu + sigma * eps[: self.mu.numel()].view_as(self.mu)).t()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = BayesLinear(8, 16), BayesLinear(16, 3)

    def forward(self, x, eps):
        return self.l2(F.relu(self.l1(x, eps)), eps)


x = torch.randn(96, 8)
loader = DataLoader(TensorDataset(x, x[:, :3].argmax(1)), batch_size=32)
noise = torch.randn(9, 128)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=2e-3, momentum=0.9)
net, optimizer, loader = evenstep.prepare(net, optimizer, loader, reduction="sum")
num_batches, k = len(loader), 0
if os.environ.get("TEST_SHARES"):  # what the log says
    num_batches *= evenstep.world_size()
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        out = net(x, noise[k])
        kl = net.l1.kl + net.l2.kl
        loss = F.cross_entropy(out, y, reduction="sum") + kl / num_batches
        loss.backward()
        optimizer.step()
        k += 1
