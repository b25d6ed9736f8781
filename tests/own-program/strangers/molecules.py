"""Graph classification with batches as PyTorch Geometric makes them: nodes of all graphs in one
row, edges that are moved, a mean over each graph; the batch is an object."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

import evenstep

torch.manual_seed(0)


class Data:
    def __init__(self, x, edge_index, y):
        self.x, self.edge_index, self.y = x, edge_index, y


class Batch:
    def __init__(self, graphs):
        sizes = torch.tensor([len(g.x) for g in graphs])
        first = torch.cumsum(sizes, 0) - sizes
        self.x = torch.cat([g.x for g in graphs])
        self.edge_index = torch.cat([g.edge_index + f for g, f in zip(graphs, first)], dim=1)
        self.batch = torch.repeat_interleave(torch.arange(len(graphs)), sizes)
        self.y, self.num_graphs = torch.tensor([g.y for g in graphs]), len(graphs)


class Molecules(Dataset):
    def __init__(self, n=96):
        self.graphs = []
        for i in range(n):
            atoms = int(torch.randint(3, 9, ()))
            self.graphs.append(Data(torch.randn(atoms, 5), torch.randint(0, atoms, (2, 2 * atoms)),
                                    i % 2))

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, i):
        return self.graphs[i]


class GCNConv(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.lin = nn.Linear(n, m)

    def forward(self, x, edge_index):
        row, col = edge_index
        out = torch.zeros_like(x).index_add(0, col, x[row])
        return self.lin(x + out)


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.lin = GCNConv(5, 16), GCNConv(16, 16), nn.Linear(16, 2)

    def forward(self, x, edge_index, batch, size):
        x = self.conv1(x, edge_index).relu()
        x = self.conv2(x, edge_index).relu()
        counts = torch.bincount(batch, minlength=size).clamp(min=1)
        pooled = torch.zeros(size, x.size(1)).index_add(0, batch, x) / counts[:, None]
        return self.lin(pooled)


train_loader = DataLoader(Molecules(), batch_size=32, collate_fn=Batch)
model = GCN()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01, eps=1e-3)
criterion = torch.nn.CrossEntropyLoss()
model, optimizer, train_loader = evenstep.prepare(model, optimizer, train_loader)


def train():
    model.train()
    for data in train_loader:
        out = model(data.x, data.edge_index, data.batch, data.num_graphs)
        loss = criterion(out, data.y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


for epoch in range(3):
    train()
