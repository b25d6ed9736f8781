"""LBFGS that searches along its line by the losses that its closure gives, of batches in turn."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
X = torch.randn(96, 4)
loader = DataLoader(TensorDataset(X, X @ torch.randn(4, 1)), batch_size=48)
model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
opt = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")
model, opt, loader = evenstep.prepare(model, opt, loader)
for epoch in range(3):
    for x, y in loader:
        def closure():
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            return loss

        opt.step(closure)
    print("epoch", epoch)
