"""Learning to learn: each sample is a task of a few points, the inner loop steps a copy of the
parameters by gradients that are differentiated again."""
import torch
from torch import nn
from torch.func import functional_call
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(8)
amplitude, phase = torch.rand(48, 1) + 0.5, torch.rand(48, 1) * 3
points = torch.rand(48, 10) * 4 - 2
tasks = TensorDataset(points, amplitude * torch.sin(points + phase))
loader = DataLoader(tasks, batch_size=16, shuffle=False)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-2, amsgrad=True)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)


def adapted(x, y, steps=2, rate=0.05):
    params = dict(model.named_parameters())
    for _ in range(steps):
        error = nn.functional.mse_loss(functional_call(model, params, x), y)
        grads = torch.autograd.grad(error, list(params.values()), create_graph=True)
        params = {k: p - rate * g for (k, p), g in zip(params.items(), grads)}
    return params


for epoch in range(3):
    for xs, ys in loader:
        meta_loss = 0.0
        for x, y in zip(xs.unsqueeze(2), ys.unsqueeze(2)):
            params = adapted(x[:5], y[:5])
            meta_loss = meta_loss + nn.functional.mse_loss(
                functional_call(model, params, x[5:]), y[5:])
        meta_loss = meta_loss / len(xs)
        optimizer.zero_grad()
        meta_loss.backward()
        optimizer.step()
    print("epoch", epoch, meta_loss.item())
