"""Gradient surgery (PCGrad): a backward pass for each of two tasks over one graph; where their
gradients conflict one is projected, and their sum is put into p.grad. Weights of the tasks follow
the ratio of their losses (GradNorm's idea), which stay constants here."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep


def flat_grads(params):
    return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten()
                      for p in params])


def set_grads(params, flat):
    at = 0
    for p in params:
        p.grad = flat[at:at + p.numel()].view_as(p).clone()
        at += p.numel()


torch.manual_seed(1)
x = torch.randn(96, 6)
y, labels = x[:, :1] - x[:, 1:2], (x[:, 0] + x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y, labels), batch_size=32)
body = nn.Sequential(nn.Linear(6, 12), nn.Tanh())
heads = nn.ModuleList([nn.Linear(12, 1), nn.Linear(12, 2)])
params = [*body.parameters(), *heads.parameters()]
optimizer = torch.optim.SGD(params, lr=0.05, momentum=0.9)
[body, heads], optimizer, loader = evenstep.prepare([body, heads], optimizer, loader)
for epoch in range(3):
    for inputs, target, label in loader:
        h = body(inputs)
        losses = [F.mse_loss(heads[0](h), target), F.cross_entropy(heads[1](h), label)]
        grads = []
        for loss in losses:
            optimizer.zero_grad()
            loss.backward(retain_graph=True)
            grads.append(flat_grads(params))
        a, b = grads
        dot = torch.dot(a, b)
        if dot < 0:
            a = a - dot / b.dot(b) * b
        set_grads(params, a + b)
        optimizer.step()
