"""Lookahead in its first, widespread form: an optimizer around another one that never calls
Optimizer.__init__, so that it has none of PyTorch's hooks, and saves the states of both."""
from collections import defaultdict

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class Lookahead(torch.optim.Optimizer):
    def __init__(self, optimizer, k=3, alpha=0.5):
        self.optimizer, self.k, self.alpha = optimizer, k, alpha
        self.param_groups, self.defaults = optimizer.param_groups, optimizer.defaults
        self.state = defaultdict(dict)
        for group in self.param_groups:
            group["counter"] = 0

    def zero_grad(self):
        self.optimizer.zero_grad()

    def update(self, group):
        for fast in group["params"]:
            slow = self.state[fast].setdefault("slow", fast.data.clone())
            slow += (fast.data - slow) * self.alpha
            fast.data.copy_(slow)

    def step(self, closure=None):
        loss = self.optimizer.step(closure)
        for group in self.param_groups:
            if group["counter"] == 0:
                self.update(group)
            group["counter"] = (group["counter"] + 1) % self.k
        return loss

    def state_dict(self):
        slow = [self.state[p].get("slow") for group in self.param_groups for p in group["params"]]
        return {"fast": self.optimizer.state_dict(), "slow": slow}

    def load_state_dict(self, state):
        self.optimizer.load_state_dict(state["fast"])
        self.param_groups = self.optimizer.param_groups
        params = [p for group in self.param_groups for p in group["params"]]
        for p, slow in zip(params, state["slow"]):
            if slow is not None:
                self.state[p]["slow"] = slow.clone()


torch.manual_seed(0)
x = torch.randn(96, 6)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), batch_size=32)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = Lookahead(torch.optim.RAdam(model.parameters(), lr=0.05, eps=1e-3))
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(4):
    for inputs, targets in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
