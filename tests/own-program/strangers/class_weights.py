"""Rare labels weigh more, as tutorials on unbalanced classes do it: the loss divides by the weights
of the labels that are in the batch."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(1)
x = torch.randn(96, 6)
y = (x[:, 0] > 0.8).long()
loader = DataLoader(TensorDataset(x, y), batch_size=32)
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
counts = torch.bincount(y)
criterion = nn.CrossEntropyLoss(weight=len(y) / (2.0 * counts))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(3):
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
