"""A normalizing flow (RealNVP) with ActNorm layers, which set their scale and shift by the first
batch that they see (Glow)."""
import math
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.log_scale, self.shift = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim))
        self.register_buffer("initialized", torch.tensor(0, dtype=torch.uint8))

    def forward(self, x):
        if self.initialized.item() == 0:
            with torch.no_grad():
                self.shift.copy_(-x.mean(0))
                self.log_scale.copy_(-torch.log(x.std(0) + 1e-6))
                self.initialized.fill_(1)
        return (x + self.shift) * self.log_scale.exp(), self.log_scale.sum().expand(len(x))


class Coupling(nn.Module):
    def __init__(self, dim, flip):
        super().__init__()
        self.flip, half = flip, dim // 2
        self.net = nn.Sequential(nn.Linear(half, 16), nn.ReLU(), nn.Linear(16, dim))

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        a, b = (b, a) if self.flip else (a, b)
        s, t = self.net(a).chunk(2, dim=1)
        s = torch.tanh(s)
        b = b * s.exp() + t
        return torch.cat([b, a] if self.flip else [a, b], dim=1), s.sum(1)


class Flow(nn.Module):
    def __init__(self, dim=4, steps=2):
        super().__init__()
        layers = [[ActNorm(dim), Coupling(dim, i % 2 == 1)] for i in range(steps)]
        self.layers = nn.ModuleList([layer for pair in layers for layer in pair])

    def log_prob(self, x):
        total = x.new_zeros(len(x))
        for layer in self.layers:
            x, log_det = layer(x)
            total = total + log_det
        return total - 0.5 * (x ** 2 + math.log(2 * math.pi)).sum(1)


torch.manual_seed(2)
data = torch.randn(96, 4) @ torch.randn(4, 4) + 1.0
loader = DataLoader(TensorDataset(data), batch_size=32)
flow = Flow()
if os.environ.get("TEST_FIRST"):  # as the message says
    with torch.no_grad():
        flow.log_prob(data[:32])
optimizer = torch.optim.Adam(flow.parameters(), lr=1e-2, eps=1e-4)
flow, optimizer, loader = evenstep.prepare(flow, optimizer, loader)
for epoch in range(3):
    for (x,) in loader:
        loss = -flow.log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
