"""A Wasserstein GAN with a gradient penalty: gradients of gradients, a critic that steps each time
and a generator that steps every second time, each with its optimizer and schedule."""
import torch
from torch import autograd, nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(7)
real_data, noise = torch.randn(96, 5) + 1, torch.randn(96, 3)
mix = torch.rand(96, 1)
loader = DataLoader(TensorDataset(real_data, noise, mix), batch_size=32)
G = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 5))
D = nn.Sequential(nn.Linear(5, 16), nn.Softplus(), nn.Linear(16, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=1e-2, betas=(0.5, 0.9), eps=1e-3)
opt_d = torch.optim.Adam(D.parameters(), lr=1e-2, betas=(0.5, 0.9), eps=1e-3)
sched = [torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o in (opt_g, opt_d)]
count = {"step": 0}  # a process that is started again has it
G, D, opt_g, opt_d, loader, *_ = evenstep.prepare(G, D, opt_g, opt_d, loader, *sched, count)
for epoch in range(4):
    for real, z, alpha in loader:
        for p in D.parameters():
            p.requires_grad_(True)
        opt_d.zero_grad()
        fake = G(z).detach()
        between = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        out = D(between)
        gradient, = autograd.grad(out, between, torch.ones_like(out), create_graph=True,
                                  retain_graph=True)
        penalty = ((gradient.norm(2, dim=1) - 1) ** 2).mean()
        loss_d = D(fake).mean() - D(real).mean() + 10 * penalty
        loss_d.backward()
        opt_d.step()
        if count["step"] % 2:
            for p in D.parameters():
                p.requires_grad_(False)
            opt_g.zero_grad()
            loss_g = -D(G(z)).mean()
            loss_g.backward()
            opt_g.step()
        count["step"] += 1
    for s in sched:
        s.step()
    print("epoch", epoch, loss_d.item())
