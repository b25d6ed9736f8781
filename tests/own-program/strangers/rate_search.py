"""A search for the learning rate before the training, as many notebooks have it: some steps at
growing rates, then weights and optimizer as they were."""
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(5)
x = torch.randn(96, 6)
loader = DataLoader(TensorDataset(x, x[:, :1]), batch_size=16)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
print("shape", next(iter(loader))[0].shape)


def train_on(inputs, targets):
    optimizer.zero_grad()
    loss = F.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


before = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
losses = []
for i, batch in enumerate(loader):
    optimizer.param_groups[0]["lr"] = 1e-4 * 10**i
    losses.append(train_on(*batch))
    if i == 3:
        break
model.load_state_dict(before[0])
optimizer.load_state_dict(before[1])
for epoch in range(3):
    for batch in loader:
        train_on(*batch)
