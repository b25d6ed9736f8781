"""A GAN whose networks and optimizers are prepared in a list and a dict; it logs a NaN."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(96, 4), torch.randn(96, 2)), batch_size=32)
G = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4))
D = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=1e-2, eps=1e-3)
opt_d = torch.optim.Adam(D.parameters(), lr=1e-2, eps=1e-3)

nets, opts, (loader,) = evenstep.prepare([G, D], {"g": opt_g, "d": opt_d}, (loader,))

G, D = nets
bce = nn.BCEWithLogitsLoss()
for epoch in range(3):
    for x, z in loader:
        one, zero = torch.ones(len(x), 1), torch.zeros(len(x), 1)
        opts["d"].zero_grad()
        loss_d = bce(D(x), one) + bce(D(G(z).detach()), zero)
        loss_d.backward()
        opts["d"].step()
        opts["g"].zero_grad()
        loss_g = bce(D(G(z)), one)
        loss_g.backward()
        opts["g"].step()
    evenstep.log(test_accuracy=0.5, fid=float("nan"), loss_g=loss_g.item())
evenstep.state_dict()
