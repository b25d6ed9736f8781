"""Orthogonal and spectral parametrizations, a lazy layer, a rotary cache made in the first pass,
checkpointed blocks, a multi-task loss with learned weights, and a model that is wrapped by
torch.utils.checkpoint without reentering; fused SGD."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class Rotary(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / 100 ** (torch.arange(0, dim, 2).float() / dim))
        self.cos_cached = self.sin_cached = None

    def forward(self, x):
        n = x.shape[1]
        if self.cos_cached is None or self.cos_cached.shape[0] < n:
            freqs = torch.outer(torch.arange(n).float(), self.inv_freq)
            emb = torch.cat([freqs, freqs], -1)
            self.cos_cached, self.sin_cached = emb.cos(), emb.sin()
        a, b = x.chunk(2, -1)
        return x * self.cos_cached[:n] + torch.cat([-b, a], -1) * self.sin_cached[:n]


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.rotary = nn.LayerNorm(dim), Rotary(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.mlp = nn.Sequential(parametrizations.orthogonal(nn.Linear(dim, dim)), nn.GELU())

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + F.scaled_dot_product_attention(self.rotary(q), self.rotary(k), v, is_causal=True)
        return x + self.mlp(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.LazyLinear(8)
        self.blocks = nn.ModuleList([Block(8) for _ in range(2)])
        self.classes, self.value = nn.Linear(8, 3), nn.Linear(8, 1)
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        x = x.mean(1)
        return self.classes(x), self.value(x)


torch.manual_seed(4)
x = torch.randn(96, 5, 6)
labels, targets = torch.randint(0, 3, (96,)), x.mean((1, 2)).unsqueeze(1)
loader = DataLoader(TensorDataset(x, labels, targets), batch_size=32)
model = Net()
model(x[:2])
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
steps = len(loader.dataset) // loader.batch_size
assert steps == 3 and len(loader) == 3, (steps, len(loader))
for epoch in range(3):
    for inputs, label, target in loader:
        out, value = model(inputs)
        losses = torch.stack([F.cross_entropy(out, label), F.mse_loss(value, target)])
        loss = (torch.exp(-model.log_vars) * losses + model.log_vars).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
