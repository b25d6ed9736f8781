"""A loop over steps that knows of restarts, as in small repositories of language models: warm-up
and decay by the step's number, accumulation within a step, samples counted in a dict of its own."""
import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

max_steps, warmup = int(os.environ.get("TEST_STEPS", 12)), 4
micro_steps, learning_rate = 2, 0.1
torch.manual_seed(0)
X = torch.randn(96, 8)
Y = X[:, :2].sum(1, keepdim=True)
loader = DataLoader(TensorDataset(X, Y), batch_size=16)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
seen = {"samples": 0}
model, optimizer, loader, seen = evenstep.prepare(model, optimizer, loader, seen)


def cycle(dl):
    while True:
        yield from dl


batches = cycle(loader)
for step in evenstep.steps(max_steps, batches=micro_steps):
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * min(1, (step + 1) / warmup) * (1 - step / max_steps)
    optimizer.zero_grad()
    for _ in range(micro_steps):
        x, y = next(batches)
        (nn.functional.mse_loss(model(x), y) / micro_steps).backward()
    optimizer.step()
    seen["samples"] += 2 * 16
print("done", step + 1, "steps of", seen["samples"], "samples")
