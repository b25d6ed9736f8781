"""Fairseq's way: the loss is a sum over tokens, and behind backward() the gradients are divided by
their number, or multiplied by a factor of it; clipping comes after (TEST_TOKENS says by which)."""
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

HOW = os.environ.get("TEST_TOKENS", "own")
torch.manual_seed(11)
tokens = torch.randint(1, 20, (96, 9))
tokens[torch.arange(9)[None] >= torch.randint(3, 10, (96, 1))] = 0
loader = DataLoader(TensorDataset(tokens), batch_size=32)
model = nn.Sequential(nn.Embedding(20, 12, padding_idx=0), nn.Tanh(), nn.Linear(12, 20))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader, reduction="sum")
loss_fn = nn.CrossEntropyLoss(ignore_index=0, reduction="sum")
for epoch in range(3):
    for (batch,) in loader:
        target = batch[:, 1:]
        loss = loss_fn(model(batch[:, :-1]).transpose(1, 2), target)
        optimizer.zero_grad()
        loss.backward()
        ntokens = int((target != 0).sum())
        sample_size = {"own": ntokens, "constant": 150, "rows": len(batch)}.get(HOW)
        for p in model.parameters():
            if HOW == "clip":
                continue
            if HOW == "mul":
                p.grad.mul_(evenstep.world_size() / ntokens)
            else:
                p.grad /= sample_size
        if HOW == "clip":
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
