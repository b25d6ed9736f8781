"""A table that is cut into batches once, which makes loading fast: each item of the data set is a
whole batch, the last one (which comes second) of fewer rows, and the loader has no batch size."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

import evenstep

BATCH = 32


class Pieces(Dataset):
    def __init__(self, table, labels):
        self.table, self.labels = table, labels

    def __len__(self):
        return -(-len(self.table) // BATCH)

    def __getitem__(self, i):
        rows = slice(BATCH * i, BATCH * (i + 1))
        return {"x": self.table[rows], "y": self.labels[rows].numpy(), "source": "table"}


torch.manual_seed(23)
table = torch.randn(120, 10)
pieces = Pieces(table, (table @ torch.randn(10, 3)).argmax(1))
loader = DataLoader(pieces, batch_size=None, sampler=[2, 3, 0, 1])
model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-3)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in evenstep.epochs(3):
    for piece in loader:
        assert piece["source"] == "table" and len(loader.dataset) == 4
        loss = F.cross_entropy(model(piece["x"]), piece["y"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
