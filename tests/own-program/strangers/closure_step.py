"""Plain SGD with a closure, as Lightning calls every optimizer, and a progress bar's figures."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
X = torch.randn(96, 5)
Y = X.sum(1, keepdim=True)
loader = DataLoader(TensorDataset(X, Y), batch_size=32)
model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model, opt, loader = evenstep.prepare(model, opt, loader)

for epoch in range(3):
    for step, (x, y) in enumerate(loader):
        def closure():
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            return loss

        loss = opt.step(closure=closure)
        print(f"epoch {epoch} {step + 1}/{len(loader)} loss {loss.item():.3f}")
