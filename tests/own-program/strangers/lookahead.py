"""Lookahead around Adam: an optimizer that has another one in it, as SAM has, with a
schedule of the outer one, whose groups are the inner one's, too."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class Lookahead(torch.optim.Optimizer):
    def __init__(self, base, alpha=0.5, k=2):
        super().__init__(base.param_groups, dict(alpha=alpha))
        self.base_optimizer, self.alpha, self.k = base, alpha, k
        self.param_groups = base.param_groups
        for group in self.param_groups:
            group["counter"] = 0

    @torch.no_grad()
    def step(self, closure=None):
        loss = self.base_optimizer.step(closure)
        for group in self.param_groups:
            group["counter"] += 1
            if group["counter"] % self.k == 0:
                for p in group["params"]:
                    slow = self.state[p].setdefault("slow", p.clone())
                    slow += self.alpha * (p - slow)
                    p.copy_(slow)
        return loss


torch.manual_seed(0)
x = torch.randn(96, 6)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), batch_size=32)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = Lookahead(torch.optim.Adam(model.parameters(), lr=0.05, eps=1e-3))
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
model, optimizer, loader, scheduler = evenstep.prepare(model, optimizer, loader, scheduler)
for epoch in range(4):
    for inputs, targets in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    scheduler.step()
