"""A language model on packed texts: tokens of all texts in one row, a summed cross entropy that is
divided by the number of tokens as a Python int."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

import evenstep

torch.manual_seed(0)


class Texts(Dataset):
    def __init__(self):
        self.texts = [torch.randint(0, 16, (int(torch.randint(3, 10, ())),)) for _ in range(96)]

    def __len__(self):
        return 96

    def __getitem__(self, i):
        return self.texts[i]


def collate(texts):
    inputs, targets = torch.cat([t[:-1] for t in texts]), torch.cat([t[1:] for t in texts])
    return {"input_ids": inputs, "labels": targets, "num_tokens": len(targets)}


loader = DataLoader(Texts(), batch_size=32, collate_fn=collate)
model = nn.Sequential(nn.Embedding(16, 12), nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 16))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(3):
    for batch in loader:
        logits = model(batch["input_ids"])
        loss = F.cross_entropy(logits, batch["labels"], reduction="sum") / batch["num_tokens"]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
