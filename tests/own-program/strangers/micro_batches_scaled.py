"""A batch in parts under a GradScaler, which multiplies each part's loss."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(3)
x = torch.randn(96, 8)
loader = DataLoader(TensorDataset(x, x[:, :4].argmax(1)), batch_size=32)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2, eps=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
model, optimizer, loader, scaler = evenstep.prepare(model, optimizer, loader, scaler)

for epoch in evenstep.epochs(3):
    for inputs, labels in loader:
        optimizer.zero_grad()
        for part, target in zip(inputs.chunk(3), labels.chunk(3)):
            loss = nn.functional.cross_entropy(model(part), target)
            scaler.scale(loss * len(part) / len(inputs)).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        scaler.step(optimizer)
        scaler.update()
    print("epoch", epoch, "loss", loss.item(), "scale", scaler.get_scale())
