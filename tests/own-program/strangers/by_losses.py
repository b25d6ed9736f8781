"""A sampler that draws samples by their last losses, which the program keeps in its weights."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

import evenstep

torch.manual_seed(1)
x = torch.randn(96, 5)
y = (x[:, 0] > 0).long()
sampler = WeightedRandomSampler(torch.ones(96), 96)
loader = DataLoader(TensorDataset(torch.arange(96), x, y), batch_size=32, sampler=sampler)
net = nn.Linear(5, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
net, optimizer, loader = evenstep.prepare(net, optimizer, loader)
for epoch in range(3):
    for which, inputs, labels in loader:
        losses = F.cross_entropy(net(inputs), labels, reduction="none")
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()
        sampler.weights[which] = losses.detach().double()
