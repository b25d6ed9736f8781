"""A batch that is too large for the memory: it goes through the network in parts, each part's loss
scaled by what it has of the batch."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(3)
x = torch.randn(96, 8)
loader = DataLoader(TensorDataset(x, x[:, :4].argmax(1)), batch_size=32)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2, eps=1e-2)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)

for epoch in evenstep.epochs(3):
    for inputs, labels in loader:
        optimizer.zero_grad()
        for part, target in zip(inputs.chunk(3), labels.chunk(3)):
            loss = nn.functional.cross_entropy(model(part), target)
            (loss * len(part) / len(inputs)).backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item())
