"""A batch is looked at before a loop over range(), which knows nothing of a restart; a rate for
each epoch, told by a schedule. TEST_EPOCHS=evenstep: over epochs(), which begins where the run
is."""
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(5)
x = torch.randn(64, 4)
loader = DataLoader(TensorDataset(x, x.exp().sum(1, keepdim=True)), batch_size=32)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.7)
model, optimizer, loader, scheduler = evenstep.prepare(model, optimizer, loader, scheduler)
inputs, _ = next(iter(loader))
print("input", inputs.shape[1:], "output", model(inputs).shape[1:])
knows = os.environ.get("TEST_EPOCHS") == "evenstep"
for epoch in evenstep.epochs(5) if knows else range(5):
    for inputs, targets in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    scheduler.step()
    print("epoch", epoch, "rate", scheduler.get_last_lr())
