"""A language model whose padding has the label -100, with smoothed labels and clipping: the loss
is a mean over the words that are there. Some rows have none."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(1)
WORDS = 20
text = torch.randint(0, WORDS, (96, 9))
labels = text[:, 1:].clone()
for row, length in enumerate(torch.randint(0, 9, (96,))):
    labels[row, length:] = -100
loader = DataLoader(TensorDataset(text[:, :-1], labels), batch_size=32)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(WORDS, 12), nn.Linear(12, WORDS)
        self.rnn = nn.GRU(12, 12, batch_first=True)

    def forward(self, x):
        return self.out(self.rnn(self.embedding(x))[0])


model = Words()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-3)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(3):
    for inputs, targets in loader:
        logits = model(inputs)
        loss = F.cross_entropy(logits.view(-1, WORDS), targets.reshape(-1), label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
