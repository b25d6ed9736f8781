"""VQ-VAE: a codebook that is no parameter, moved by the batch's codes."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class Quantizer(nn.Module):
    def __init__(self, codes=8, dim=3, decay=0.8):
        super().__init__()
        self.decay = decay
        self.register_buffer("embedding", torch.randn(codes, dim))
        self.register_buffer("cluster_size", torch.ones(codes))
        self.register_buffer("ema_w", self.embedding.clone())

    def forward(self, z):
        code = torch.cdist(z.detach(), self.embedding).argmin(1)
        onehot = F.one_hot(code, len(self.embedding)).float()
        q = self.embedding[code]
        if self.training:
            self.cluster_size.mul_(self.decay).add_(onehot.sum(0), alpha=1 - self.decay)
            self.ema_w.mul_(self.decay).add_(onehot.T @ z.detach(), alpha=1 - self.decay)
            self.embedding.copy_(self.ema_w / self.cluster_size.clamp_min(1e-3)[:, None])
        return z + (q - z).detach(), F.mse_loss(z, q)


torch.manual_seed(20)
x = torch.randn(96, 8)
loader = DataLoader(TensorDataset(x), batch_size=32)
model = nn.ModuleDict({"enc": nn.Linear(8, 3), "vq": Quantizer(), "dec": nn.Linear(3, 8)})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(3):
    for (rows,) in loader:
        q, commitment = model["vq"](model["enc"](rows))
        loss = F.mse_loss(model["dec"](q), rows) + 0.25 * commitment
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, loss.item())
