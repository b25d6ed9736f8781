"""A loop after timm's: its scheduler sets rates by updates that the loop counts itself, an update
is counted before the schedule hears of it."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class CosineScheduler:
    def __init__(self, optimizer, t_initial, warmup_t, lr_min):
        self.optimizer, self.t, self.w, self.m = optimizer, t_initial, warmup_t, lr_min
        for g in optimizer.param_groups:
            g.setdefault("initial_lr", g["lr"])
        self.base = [g["initial_lr"] for g in optimizer.param_groups]
        self._set(0)

    def _set(self, t):
        for g, b in zip(self.optimizer.param_groups, self.base):
            g["lr"] = (1e-4 + t * (b - 1e-4) / self.w if t < self.w else
                       self.m + 0.5 * (b - self.m) * (1 + math.cos(math.pi * t / self.t)))

    def step_update(self, num_updates):
        self._set(num_updates)


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, lr_scheduler):
    updates_per_epoch = len(loader)
    num_updates = epoch * updates_per_epoch
    last_idx = len(loader) - 1
    model.train()
    for batch_idx, (x, y) in enumerate(loader):
        last_batch = batch_idx == last_idx
        loss = loss_fn(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        num_updates += 1
        lr_scheduler.step_update(num_updates=num_updates)
        if last_batch:
            print("Train: %d [%d/%d]" % (epoch, batch_idx, len(loader)))


torch.manual_seed(0)
x = torch.randn(96, 6)
y = (x.sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=32)
model = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.05, eps=1e-3)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
lr_scheduler = CosineScheduler(optimizer, 4 * len(loader), 3, 1e-5)
for epoch in range(4):
    train_one_epoch(epoch, model, loader, optimizer, nn.CrossEntropyLoss(label_smoothing=0.1),
                    lr_scheduler)
