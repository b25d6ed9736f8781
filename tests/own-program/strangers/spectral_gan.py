"""A GAN with spectral normalization, whose vectors move in each forward pass, and hinge losses."""
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(11)
data, noise = torch.randn(96, 6) + 2, torch.randn(96, 4)
loader = DataLoader(TensorDataset(data, noise), batch_size=32)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6))
D = nn.Sequential(spectral_norm(nn.Linear(6, 16)), nn.LeakyReLU(0.1),
                  spectral_norm(nn.Linear(16, 1)))
g_opt = torch.optim.Adam(G.parameters(), 1e-2, betas=(0.0, 0.9), eps=1e-2)
d_opt = torch.optim.Adam(D.parameters(), 2e-2, betas=(0.0, 0.9), eps=1e-2)
G, D, g_opt, d_opt, loader = evenstep.prepare(G, D, g_opt, d_opt, loader)
for epoch in range(3):
    for real, z in loader:
        d_opt.zero_grad()
        loss_d = (torch.relu(1 - D(real)).mean() + torch.relu(1 + D(G(z).detach())).mean())
        loss_d.backward()
        d_opt.step()
        g_opt.zero_grad()
        loss_g = -D(G(z)).mean()
        loss_g.backward()
        g_opt.step()
    print("epoch", epoch, loss_d.item(), loss_g.item())
