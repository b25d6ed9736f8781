"""A collate_fn that leaves out samples which could not be read."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate

import evenstep


class Pictures(Dataset):
    def __init__(self, n):
        self.x = torch.randn(n, 8, generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        if i % 32 in (1, 3, 4, 7, 12, 25):
            return None  # a broken file
        return self.x[i], self.x[i].pow(2).sum()[None]


def collate(batch):
    return default_collate([sample for sample in batch if sample is not None])


torch.manual_seed(4)
loader = DataLoader(Pictures(96), batch_size=32, collate_fn=collate)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
criterion = nn.MSELoss()
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(3):
    for inputs, target in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), target)
        loss.backward()
        optimizer.step()
    print("epoch", epoch, loss.item())
