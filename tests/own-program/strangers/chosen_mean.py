"""An autoencoder that is to fill in what was left out: the loss is a mean over the values that a
mask chooses, in some rows many and in some few."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(3)
x = torch.randn(96, 10)
hidden = torch.rand(96, 10) < torch.linspace(0.05, 0.9, 96)[:, None]
order = torch.arange(96).view(3, 32).flip(1).T.reshape(-1)
loader = DataLoader(TensorDataset(x[order], hidden[order]), batch_size=32)
model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(3):
    for rows, left_out in loader:
        made = model(rows.masked_fill(left_out, 0.0))
        if epoch == 1:
            loss = F.mse_loss(made[left_out], rows[left_out])
        else:
            loss = ((made - rows) ** 2)[left_out].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
