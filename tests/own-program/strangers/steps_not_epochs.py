"""A loop over steps, not epochs, as language models are trained: an endless iterator over the
loader, and a last epoch that is not finished."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

max_steps, eval_every = 10, 4
X = torch.linspace(-2, 2, 96).view(-1, 1).repeat(1, 3)
Y = X.sum(1, keepdim=True) ** 2
loader = DataLoader(TensorDataset(X, Y), batch_size=32)
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, eps=1e-3)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)


def cycle(dl):
    while True:
        for data in dl:
            yield data


batches = cycle(loader)
model.train()
for step in range(1, max_steps + 1):
    x, y = next(batches)
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % eval_every == 0:
        print(f"step {step} loss {loss.item():.4f}")
print("done")
