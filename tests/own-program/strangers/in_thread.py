"""The whole loop in a thread of the program's, as behind a window or in a notebook: the main thread
waits, and asks now and then whether it is done."""
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
x = torch.randn(96, 6)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), batch_size=32)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)


def train():
    for epoch in range(3):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item())


worker = threading.Thread(target=train, daemon=True)
worker.start()
while worker.is_alive():
    worker.join(0.05)
