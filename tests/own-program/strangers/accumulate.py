"""Gradient accumulation as in every blog post: loss / accum_steps, a step each accum_steps batches,
no_sync between."""
import argparse
import contextlib

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=24)
parser.add_argument("--accum-steps", type=int, default=2)
args = parser.parse_args()

torch.manual_seed(42)
X = torch.randn(96, 16)
y = (X[:, :4].sum(dim=1, keepdim=True)).tanh()
dataset = TensorDataset(X, y)
loader = DataLoader(dataset, batch_size=args.batch_size)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)

model, optimizer, loader, scheduler = evenstep.prepare(model, optimizer, loader, scheduler)

optimizer.zero_grad()
for epoch in range(5):
    running_loss = 0.0
    for i, (inputs, targets) in enumerate(loader):
        is_update = (i + 1) % args.accum_steps == 0 or i + 1 == len(loader)
        with contextlib.nullcontext() if is_update else evenstep.no_sync():
            loss = criterion(model(inputs), targets) / args.accum_steps
            loss.backward()
        running_loss += loss.item() * args.accum_steps
        if is_update:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
    print(f"[{epoch + 1}] loss: {running_loss / len(loader):.4f}")
