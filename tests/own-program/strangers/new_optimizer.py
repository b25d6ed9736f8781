"""An optimizer that is made anew for the second half of the epochs, at another rate, as a stage of
fine-tuning: prepare() has seen the first one alone. TEST_OPTIMIZER=sgd: plain SGD."""
import os
from functools import partial

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
x = torch.randn(96, 6)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), batch_size=32)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
is_plain = os.environ.get("TEST_OPTIMIZER") == "sgd"
make = torch.optim.SGD if is_plain else partial(torch.optim.Adam, eps=1e-3)
optimizer = make(model.parameters(), lr=0.1)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(4):
    if epoch == 2:
        optimizer = make(model.parameters(), lr=0.02)
    for inputs, targets in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
