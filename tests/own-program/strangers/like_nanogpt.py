"""nanoGPT's loop: offsets into a memmap, micro steps, a scaler that is off, and the next batch
asked for between a pass and the step; with TEST_AHEAD before the pass, where nanoGPT does."""
import math
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, RandomSampler

import evenstep

batch_size, block_size, gradient_accumulation_steps, max_iters = 32, 8, 2, 8
learning_rate, warmup_iters, min_lr = 3e-2, 2, 3e-3
VOCAB, WIDTH = 13, 16
torch.manual_seed(1337)
train_bin = os.path.join(tempfile.mkdtemp(), "train.bin")
(np.arange(400) * 5 % VOCAB).astype(np.uint16).tofile(train_bin)


class Rows(Dataset):
    """As many rows as an epoch shall have; all of them alike but for the offset."""

    def __len__(self):
        return 96

    def __getitem__(self, i):
        data = np.memmap(train_bin, dtype=np.uint16, mode="r")
        at = int(i) * 4
        return (torch.from_numpy(data[at:at + block_size].astype(np.int64)),
                torch.from_numpy(data[at + 1:at + 1 + block_size].astype(np.int64)))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(block_size, WIDTH)
        self.attn, self.proj = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.ln = nn.LayerNorm(WIDTH, bias=False)
        self.lm_head = nn.Linear(WIDTH, VOCAB, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        q, k, v = self.attn(self.ln(x)).split(WIDTH, 2)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        logits = self.lm_head(x)
        return logits, F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1), ignore_index=-1)

    def configure_optimizers(self, weight_decay, learning_rate, betas):
        named = {n: p for n, p in self.named_parameters() if p.requires_grad}
        groups = [{"params": [p for p in named.values() if p.dim() >= 2],
                   "weight_decay": weight_decay},
                  {"params": [p for p in named.values() if p.dim() < 2], "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, eps=1e-2, fused=True)


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    coeff = 0.5 * (1.0 + math.cos(math.pi * (it - warmup_iters) / (max_iters - warmup_iters)))
    return min_lr + coeff * (learning_rate - min_lr)


model = GPT()
optimizer = model.configure_optimizers(0.1, learning_rate, (0.9, 0.95))
scaler = torch.amp.GradScaler("cpu", enabled=False)
loader = DataLoader(Rows(), batch_size=batch_size)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)


def batches():
    while True:
        yield from loader


stream = batches()
AHEAD = os.environ.get("TEST_AHEAD")


def get_batch(split):
    return next(stream)


X, Y = get_batch("train")
iter_num = 0
while True:
    lr = get_lr(iter_num)
    for param_group in optimizer.param_groups:
        param_group["lr"] = lr
    for micro_step in range(gradient_accumulation_steps):
        logits, loss = model(X, Y)
        loss = loss / gradient_accumulation_steps
        if AHEAD:
            X, Y = get_batch("train")
            scaler.scale(loss).backward()
        else:
            scaler.scale(loss).backward()
            X, Y = get_batch("train")
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    iter_num += 1
    if iter_num >= int(os.environ.get("TEST_ITERS", max_iters)):
        break
