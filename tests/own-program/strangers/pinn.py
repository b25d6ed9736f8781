"""A physics-informed network: u'' = -pi^2 sin(pi x) on [-1, 1]. The loss has derivatives of the
output over collocation points of the loader, and boundary values that are always the same two."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class PINN(nn.Module):
    def __init__(self, layers=(1, 20, 20, 1)):
        super().__init__()
        self.linears = nn.ModuleList([nn.Linear(a, b) for a, b in zip(layers, layers[1:])])
        for linear in self.linears:
            nn.init.xavier_normal_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x):
        for linear in self.linears[:-1]:
            x = torch.tanh(linear(x))
        return self.linears[-1](x)


def residual(model, x):
    x = x.clone().requires_grad_(True)
    u = model(x)
    u_x = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
    u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]
    return u_xx + math.pi ** 2 * torch.sin(math.pi * x)


torch.manual_seed(1234)
points = torch.linspace(-1, 1, 96)[torch.randperm(96)].unsqueeze(1)
loader = DataLoader(TensorDataset(points), batch_size=32, shuffle=False)
boundary = torch.tensor([[-1.0], [1.0]])
model = PINN()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-4)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.9)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(3):
    for (x,) in loader:
        optimizer.zero_grad(set_to_none=False)
        loss_f = torch.mean(residual(model, x) ** 2)
        loss_b = torch.mean(model(boundary) ** 2)
        loss = 0.01 * loss_f + loss_b
        loss.backward()
        for linear in model.linears:
            nn.utils.clip_grad_value_(linear.parameters(), 0.5)
        optimizer.step()
    scheduler.step()
    print(f"\repoch {epoch}: loss {loss.item():.3e}", end="")
