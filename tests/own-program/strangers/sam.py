"""Sharpness-aware minimization, as repositories write it: an optimizer around another one, two
passes over each batch, the second at other parameters."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base_optimizer, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self):
        for group in self.param_groups:
            norm = torch.norm(torch.stack([p.grad.norm(p=2) for p in group["params"]]), p=2)
            for p in group["params"]:
                e_w = p.grad * group["rho"] / (norm + 1e-12)
                self.state[p]["old_p"] = p.data.clone()
                p.add_(e_w)
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old_p"]
        self.base_optimizer.step()
        self.zero_grad()

    def step(self, closure=None):
        raise NotImplementedError("call first_step and second_step")


torch.manual_seed(6)
x = torch.randn(96, 6)
loader = DataLoader(TensorDataset(x, x.sin().sum(1, keepdim=True)), batch_size=32)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = SAM(model.parameters(), torch.optim.SGD, lr=0.05, momentum=0.9)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(3):
    for inputs, targets in loader:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.first_step()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.second_step()
    print("epoch", epoch, loss.item())
