"""A generator of samples from noise, which the loop draws; TEST_SEED=rank: each node its own."""
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(7)
loader = DataLoader(TensorDataset(torch.randn(96, 6)), batch_size=32)
model = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 6))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
if os.environ.get("TEST_SEED") == "rank":
    torch.manual_seed(7 + evenstep.rank())
drawn = []
for epoch in range(3):
    for (real,) in loader:
        noise = torch.randn(len(real), 5)
        drawn.append(noise[:8])
        optimizer.zero_grad()
        (model(noise).mean(1) - real.mean(1)).pow(2).mean().backward()
        optimizer.step()
kept = {"drawn": torch.stack(drawn).numpy()}
