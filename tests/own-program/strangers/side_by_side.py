"""Entropy of unlabelled samples of a second loader, whose order is drawn anew in each epoch."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(5)
x, unlabelled = torch.randn(96, 8), torch.randn(120, 8)
loader = DataLoader(TensorDataset(x, x[:, :4].argmax(1)), batch_size=16)
other = DataLoader(TensorDataset(unlabelled), batch_size=20, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2, eps=1e-2)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(3):
    for i, ((inputs, labels), (rows,)) in enumerate(zip(loader, other)):
        optimizer.zero_grad()
        shares = model(rows).softmax(1)
        loss = nn.functional.cross_entropy(model(inputs), labels) - (shares * shares).sum(1).mean()
        loss.backward()
        optimizer.step()
