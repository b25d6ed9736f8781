"""Gradients by torch.func and by torch.autograd.grad, which autograd then gets, and by a pass of
each of two losses; the losses are weighed by parameters that belong to no module."""
import torch
from torch import nn
from torch.func import functional_call, grad
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
x = torch.randn(96, 6)
data = TensorDataset(x, x.sum(1, keepdim=True), x.prod(1, keepdim=True))
loader = DataLoader(data, batch_size=24)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 2))
log_vars = nn.Parameter(torch.zeros(2))
params = [*model.parameters(), log_vars]
optimizer = torch.optim.Adam(params, lr=1e-2, eps=1e-3)
model, weights, optimizer, loader = evenstep.prepare(
    model, nn.ParameterList([log_vars]), optimizer, loader)


def losses(out, a, b, log_vars):
    errors = (out[:, :1] - a).pow(2).mean(), (out[:, 1:] - b).abs().mean()
    return [e * (-v).exp() + v for e, v in zip(errors, log_vars)]


for epoch in range(3):
    for inputs, a, b in loader:
        optimizer.zero_grad()
        if epoch == 0:
            first, second = losses(model(inputs), a, b, log_vars)
            first.backward(retain_graph=True)
            second.backward()
        elif epoch == 1:
            total = sum(losses(model(inputs), a, b, log_vars))
            torch.autograd.backward(params, torch.autograd.grad(total, params))
        else:
            named = dict(model.named_parameters())
            of = lambda p, v: sum(losses(functional_call(model, p, (inputs,)), a, b, v))
            of_model, of_vars = grad(of, argnums=(0, 1))(named, log_vars)
            torch.autograd.backward(params, [*of_model.values(), of_vars])
        nn.utils.clip_grad_norm_(params, 0.5)
        optimizer.step()
    print("epoch", epoch, "weights", (-log_vars).exp().tolist())
