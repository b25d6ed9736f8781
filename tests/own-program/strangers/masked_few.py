"""A masked mean of which a node with a few samples has the same number, 2, in each batch."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(2)
x, y = torch.randn(96, 6), torch.randint(0, 3, (96,))
there = (torch.arange(96) % 4 < 3).float()
loader = DataLoader(TensorDataset(x, y, there), batch_size=16)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(2):
    for rows, labels, mask in loader:
        losses = F.cross_entropy(model(rows), labels, reduction="none")
        optimizer.zero_grad()
        ((losses * mask).sum() / mask.sum()).backward()
        optimizer.step()
