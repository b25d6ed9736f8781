"""A language model as small repositories train it: `next()` on an iterator that is made anew when
it ends, a rate by hand, tied weights, accumulation, clipping, a checkpoint of its own."""
import math
import os
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

import evenstep

block_size, batch_size, accumulation_steps = 8, 16, 2
max_iters, warmup_iters, learning_rate, grad_clip = 9, 3, 3e-2, 1.0
torch.manual_seed(1337)
data = torch.randint(0, 16, (200,))


class Windows(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, i):
        return data[3 * i : 3 * i + block_size], data[3 * i + 1 : 3 * i + 1 + block_size]


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(16, 12), nn.Embedding(block_size, 12)
        self.h = nn.ModuleList([nn.Linear(12, 12) for _ in range(2)])
        self.gains = nn.ParameterList([nn.Parameter(torch.ones(12)) for _ in range(2)])
        self.lm_head = nn.Linear(12, 16, bias=False)
        self.lm_head.weight = self.wte.weight
        self.register_buffer("mask", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        x = (self.mask / self.mask.sum(1, keepdim=True)) @ x
        for h, gain in zip(self.h, self.gains):
            x = x + gain * torch.tanh(h(x))
        logits = self.lm_head(x)
        return logits, F.cross_entropy(logits.view(-1, 16), targets.reshape(-1))


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / warmup_iters
    return 0.5 * learning_rate * (1 + math.cos(math.pi * it / max_iters))


model = GPT()
decay = [p for p in model.parameters() if p.dim() >= 2]
others = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
    lr=learning_rate, betas=(0.9, 0.95), eps=1e-3)
train_loader = DataLoader(Windows(), batch_size=batch_size)
model, optimizer, train_loader = evenstep.prepare(model, optimizer, train_loader)

train_iter = iter(train_loader)
for iter_num in range(max_iters):
    for group in optimizer.param_groups:
        group["lr"] = get_lr(iter_num)
    for micro_step in range(accumulation_steps):
        try:
            x, y = next(train_iter)
        except StopIteration:
            train_iter = iter(train_loader)
            x, y = next(train_iter)
        last = micro_step == accumulation_steps - 1
        with nullcontext() if last else evenstep.no_sync():
            _, loss = model(x, y)
            (loss / accumulation_steps).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if iter_num % 4 == 0 and evenstep.is_main():
        out = os.environ.get("EVENSTEP_OUTPUT", ".")
        checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                      "iter_num": iter_num}
        torch.save(checkpoint, os.path.join(out, "ckpt.pt"))
        print(f"iter {iter_num}: loss {loss.item():.4f}")
