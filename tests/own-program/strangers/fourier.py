"""A Fourier neural operator: its spectral layer has complex weights. A table of places is left
empty, as where an option says none."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class Spectral(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        weight = torch.randn(width, width, modes, dtype=torch.cfloat) / width
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        waves = torch.fft.rfft(x)
        out = torch.zeros_like(waves)
        low = waves[..., :self.modes]
        out[..., :self.modes] = torch.einsum("bim,iom->bom", low, self.weight)
        return torch.fft.irfft(out, n=x.shape[-1])


class Operator(nn.Module):
    def __init__(self, width=8, places=0):
        super().__init__()
        self.lift = nn.Conv1d(1, width, 1)
        self.places = nn.Parameter(torch.zeros(places, width))
        self.spectral, self.skip = Spectral(width, 6), nn.Conv1d(width, width, 1)
        self.out = nn.Conv1d(width, 1, 1)

    def forward(self, x):
        x = self.lift(x)
        return self.out(nn.functional.gelu(self.spectral(x) + self.skip(x)))


torch.manual_seed(11)
waves = torch.randn(96, 1, 32).cumsum(-1) / 5
loader = DataLoader(TensorDataset(waves, waves.roll(3, -1)), batch_size=32)
model = Operator()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4, eps=1e-3)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in evenstep.epochs(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
