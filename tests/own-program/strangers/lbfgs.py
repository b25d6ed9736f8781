"""LBFGS with the closure that its documentation shows: several backward passes a step."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
X = torch.linspace(-3, 3, 96).unsqueeze(1)
Y = torch.sin(X)
loader = DataLoader(TensorDataset(X, Y), batch_size=96, shuffle=True)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, history_size=10)
loss_fn = nn.MSELoss()
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)

for epoch in range(4):
    for xb, yb in loader:
        def closure():
            optimizer.zero_grad()
            loss = loss_fn(model(xb), yb)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
    print("epoch", epoch, "loss", loss.item())
