"""A small GPT on characters: AdamW, clipping, warm-up and gradient accumulation; two lines (marked)
make it distributed.

    python3 gpt.py TEXT                                    alone
    evenstep submit JOB.json     on a cluster (docs/own-program-run.md has the job)
"""
import argparse
import contextlib
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

import evenstep  # 1


class Characters(Dataset):
    """Every window of `context` characters, with the character that follows each."""

    def __init__(self, text, context):
        self.alphabet = sorted(set(text))
        number = {c: i for i, c in enumerate(self.alphabet)}
        self.codes = torch.tensor([number[c] for c in text])
        self.context = context

    def __len__(self):
        return (len(self.codes) - 1) // self.context

    def __getitem__(self, i):
        window = self.codes[i * self.context:(i + 1) * self.context + 1]
        return window[:-1], window[1:]


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, alphabet, context, width=64, layers=2, heads=4):
        super().__init__()
        self.token = nn.Embedding(alphabet, width)
        self.position = nn.Parameter(torch.zeros(context, width))
        self.layers = nn.Sequential(*[Layer(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, alphabet, bias=False)
        self.head.weight = self.token.weight  # one tensor, used twice
        nn.init.normal_(self.token.weight, std=0.02)

    def forward(self, x):
        return self.head(self.norm(self.layers(self.token(x) + self.position)))


def rate(step, warmup, steps):
    """Share of the learning rate: up in a line, then down along a cosine."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1, (step - warmup) / max(1, steps - warmup))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("text")
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--accumulate", type=int, default=2, help="backward passes of an update")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()
    torch.manual_seed(1)

    with open(args.text, encoding="utf-8") as f:
        data = Characters(f.read(), args.context)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = Gpt(len(data.alphabet), args.context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.1)
    model, optimizer, loader = evenstep.prepare(model, optimizer, loader)  # 2
    steps = args.epochs * len(loader) // args.accumulate
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: rate(s, steps // 10, steps))
    for epoch in evenstep.epochs(args.epochs):
        for i, (x, y) in enumerate(loader):
            last = (i + 1) % args.accumulate == 0
            with contextlib.nullcontext() if last else evenstep.no_sync():
                loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
                (loss / args.accumulate).backward()
            if last:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
        evenstep.log(bits_per_character=loss.item() / math.log(2))


if __name__ == "__main__":
    main()
