"""Batches of at most so many tokens, as translation programs make them: unequal numbers of texts,
of about one length each, and a mean over the words that count."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Sampler

import evenstep

TOKENS = 216


class ByTokens(Sampler):
    def __init__(self, lengths):
        self.batches, now = [], []
        for i in sorted(range(len(lengths)), key=lengths.__getitem__):
            if (len(now) + 1) * lengths[i] > TOKENS:
                self.batches.append(now)
                now = []
            now.append(i)
        self.batches.append(now)

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter(self.batches)


def padded(texts):
    return nn.utils.rnn.pad_sequence(texts, batch_first=True)


torch.manual_seed(19)
texts = [torch.randint(1, 24, (n,)) for n in torch.randint(5, 20, (96,)).tolist()]
loader = DataLoader(texts, batch_sampler=ByTokens([len(t) for t in texts]), collate_fn=padded)
model = nn.Sequential(nn.Embedding(24, 16, padding_idx=0), nn.Linear(16, 32), nn.Tanh(),
                      nn.Linear(32, 24))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, eps=1e-3)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in evenstep.epochs(3):
    for x in loader:
        loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
