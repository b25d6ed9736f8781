"""Stochastic weight averaging as its documentation shows it: SWALR beside a cosine, the averaged
model given to prepare() with the rest, so that checkpoints hold it."""
import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
x = torch.randn(96, 6)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=96, shuffle=True)
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
swa_model = AveragedModel(model)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
swa_start = 2
swa_scheduler = SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)

model, optimizer, loader, scheduler, swa_scheduler, swa_model = evenstep.prepare(
    model, optimizer, loader, scheduler, swa_scheduler, swa_model)
for epoch in range(6):
    for inputs, target in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), target).backward()
        optimizer.step()
    if epoch > swa_start:
        swa_model.update_parameters(model)
        swa_scheduler.step()
    else:
        scheduler.step()
update_bn(loader, swa_model)
print("averaged", int(swa_model.n_averaged), "at the rate", optimizer.param_groups[0]["lr"])
