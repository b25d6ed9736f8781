"""A rate that falls by a figure of each epoch, in a schedule that prepare() was not given."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(3)
X = torch.randn(96, 6)
Y = (X[:, 0] * X[:, 1] > 0).long()
loader = DataLoader(TensorDataset(X, Y), batch_size=32)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0,
                                                      threshold=0.05)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in evenstep.epochs(6):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        schedule.step(nn.functional.cross_entropy(model(X[:32]), Y[:32]))
    print("epoch", epoch, "rate", optimizer.param_groups[0]["lr"])
