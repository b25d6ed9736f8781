"""Magnitude pruning while it trains: after the first epoch half of the weights are masked."""
import torch
from torch import nn
from torch.nn.utils import prune
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(6)
x = torch.randn(96, 8)
loader = DataLoader(TensorDataset(x, x[:, :3].sum(1, keepdim=True)), batch_size=32)
model = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in evenstep.epochs(4):
    if epoch == 1:
        for layer in model[0], model[2]:
            prune.l1_unstructured(layer, "weight", amount=0.5)
    for inputs, target in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), target)
        loss.backward()
        optimizer.step()
    print("epoch", epoch, loss.item())
print("zeros", sum(int((layer.weight == 0).sum()) for layer in (model[0], model[2])))
