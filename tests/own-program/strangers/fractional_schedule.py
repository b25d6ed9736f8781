"""Warm restarts as PyTorch's documentation steps them, `step(epoch + i / len(loader))`; a focal
loss and a smooth one, weighed by numbers that the model learns, and a penalty."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
x = torch.randn(96, 10)
y, r = torch.randint(0, 4, (96,)), torch.randn(96, 2)
loader = DataLoader(TensorDataset(x, y, r), batch_size=32)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(10, 16)
        self.a, self.b = nn.Linear(16, 4), nn.Linear(16, 2)
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        h = torch.relu(self.body(x))
        return self.a(h), self.b(h)


net = Net()
opt = torch.optim.RMSprop(net.parameters(), lr=0.003, eps=1e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 2)
net, opt, loader, sched = evenstep.prepare(net, opt, loader, sched)
for epoch in range(3):
    for i, (x, y, r) in enumerate(loader):
        opt.zero_grad()
        logits, reg = net(x)
        ce = F.cross_entropy(logits, y, reduction="none")
        focal = ((1 - torch.exp(-ce)) ** 2 * ce).mean()
        l2 = F.smooth_l1_loss(reg, r)
        loss = (torch.exp(-net.log_vars[0]) * focal + net.log_vars[0]
                + torch.exp(-net.log_vars[1]) * l2 + net.log_vars[1])
        l1 = sum(p.abs().sum() for p in net.body.parameters())
        loss = loss + 1e-4 * l1
        loss.backward()
        opt.step()
        sched.step(epoch + i / len(loader))
