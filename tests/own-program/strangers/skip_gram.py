"""Skip-gram with negative samples, as word2vec tutorials have it: sparse embeddings and SparseAdam,
of which a batch uses some rows; beside them a layer with an Adam of its own."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import evenstep

WORDS, WIDTH = 60, 8
torch.manual_seed(0)
centers = torch.randint(0, WORDS, (96,))
pairs = TensorDataset(centers, (centers * 7 + 3) % WORDS, torch.randint(0, WORDS, (96, 4)))


class SkipGram(nn.Module):
    def __init__(self):
        super().__init__()
        self.center = nn.Embedding(WORDS, WIDTH, sparse=True)
        self.context = nn.Embedding(WORDS, WIDTH, sparse=True)
        self.turn = nn.Linear(WIDTH, WIDTH)

    def forward(self, center, context, others):
        at = self.turn(self.center(center))
        near = (at * self.context(context)).sum(1)
        far = (self.context(others) @ at.unsqueeze(2)).squeeze(2)
        return -(F.logsigmoid(near) + F.logsigmoid(-far).sum(1)).mean()


model = SkipGram()
rows = torch.optim.SparseAdam([model.center.weight, model.context.weight], lr=0.02, eps=1e-3)
opt = torch.optim.Adam(model.turn.parameters(), lr=0.01, eps=1e-3)
loader = DataLoader(pairs, batch_size=32)
model, rows, opt, loader = evenstep.prepare(model, rows, opt, loader)
for epoch in range(3):
    for batch in loader:
        rows.zero_grad()
        opt.zero_grad()
        loss = model(*batch)
        loss.backward()
        rows.step()
        opt.step()
