"""Padded rows with a mask, as tutorials on sequences have them: the program divides by what the
mask leaves. Lengths differ, so that nodes have different numbers of words."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(2)
text = torch.randint(1, 20, (96, 8))
lengths = torch.cat([torch.randint(1, 3, (48,)), torch.randint(4, 9, (48,))])
mask = (torch.arange(8) < lengths[:, None]).float()
order = torch.arange(96).view(2, 48).T.reshape(-1)  # short and long rows by turns
loader = DataLoader(TensorDataset(text[order], mask[order]), batch_size=32)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(20, 12), nn.Linear(12, 5)

    def forward(self, x):
        return self.out(torch.tanh(self.embedding(x)))


model = Tagger()
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(3):
    for words, there in loader:
        loss = F.cross_entropy(model(words).transpose(1, 2), words % 5, reduction="none")
        loss = (loss * there).sum() / there.sum().clamp(min=1)
        optimizer.zero_grad()
        (loss / 2).backward()
        optimizer.step()
