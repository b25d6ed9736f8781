"""A generator of samples from noise, which the loop draws; TEST_SEED=rank: each node its own.
TEST_NOISE=gradients: the noise of an epoch is drawn before it, and gradients get some of theirs."""
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
drawn, fixed = [], torch.randn(32, 5)
of_gradients = os.environ.get("TEST_NOISE") == "gradients"
for epoch in range(3):
    for (real,) in loader:
        noise = fixed[: len(real)] if of_gradients else torch.randn(len(real), 5)
        drawn.append(noise[:8])
        optimizer.zero_grad()
        (model(noise).mean(1) - real.mean(1)).pow(2).mean().backward()
        for p in model.parameters() if of_gradients else ():
            p.grad += 0.01 * torch.randn_like(p)
        optimizer.step()
kept = {"drawn": torch.stack(drawn).numpy()}
