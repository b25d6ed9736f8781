"""Polyak averages of the weights, swapped into the model for each validation by `p.data = …` and
back; snapshots at each cycle's end; the average of the snapshots stays in the model."""
import copy

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class Polyak:
    def __init__(self, model, decay=0.8):
        self.model, self.decay = model, decay
        self.shadow = {n: p.data.clone() for n, p in model.named_parameters()}
        self.backup = {}

    def update(self):
        for n, p in self.model.named_parameters():
            self.shadow[n] = self.decay * self.shadow[n] + (1 - self.decay) * p.data

    def apply_shadow(self):
        for n, p in self.model.named_parameters():
            self.backup[n] = p.data
            p.data = self.shadow[n]

    def restore(self):
        for n, p in self.model.named_parameters():
            p.data = self.backup[n]
        self.backup = {}


torch.manual_seed(5)
x = torch.randn(128, 6)
y = (x[:, :3].sum(1) > 0).long()
train, valid = TensorDataset(x[:96], y[:96]), (x[96:], y[96:])
loader = DataLoader(train, batch_size=32)
model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, foreach=False)
schedule = CosineAnnealingWarmRestarts(optimizer, T_0=len(loader))
model, optimizer, loader, schedule = evenstep.prepare(model, optimizer, loader, schedule)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
average, snapshots = Polyak(model), []
for epoch in range(3):
    for i, (inputs, labels) in enumerate(loader):
        loss = criterion(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        average.update()
    average.apply_shadow()
    with torch.no_grad():
        print("valid", criterion(model(valid[0]), valid[1]).item())
    average.restore()
    snapshots.append(copy.deepcopy(model.state_dict()))
mean = {k: torch.stack([s[k] for s in snapshots]).mean(0) for k in snapshots[0]}
model.load_state_dict(mean)
kept = {"shadow." + n: v.numpy() for n, v in average.shadow.items()}
