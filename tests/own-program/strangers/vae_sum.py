"""PyTorch's VAE example: a loss that is a sum over the batch, a constant kept as a parameter, a
model in float64 that is wrapped for several GPUs."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(9)
torch.set_default_dtype(torch.float64)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(10, 16), nn.Linear(16, 3), nn.Linear(16, 3)
        self.fc3, self.fc4 = nn.Linear(3, 16), nn.Linear(16, 10)
        self.levels = nn.Parameter(torch.tensor([2, 3]), requires_grad=False)
        self.temperature = nn.Parameter(torch.tensor(0.5))

    def forward(self, x, eps):
        h = F.relu(self.fc1(x))
        mu, logvar = self.fc21(h), self.fc22(h)
        z = mu + eps * torch.exp(0.5 * logvar) * self.temperature
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x, reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


x = torch.rand(96, 10)
loader = DataLoader(TensorDataset(x, torch.randn(96, 3)), batch_size=32)
model = nn.DataParallel(VAE())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-1)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader, reduction="sum")
for epoch in range(3):
    train_loss = 0
    for batch_idx, (data, eps) in enumerate(loader):
        optimizer.zero_grad()
        recon, mu, logvar = model(data, eps)
        loss = loss_function(recon, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    print(f"====> Epoch: {epoch} Average loss: {train_loss / len(loader.dataset):.4f}")
