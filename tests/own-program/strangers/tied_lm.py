"""A language model whose output layer is tied to its embedding, weight decay groups by name, linear
warm-up by LambdaLR, dict batches of a default collate."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import evenstep


class Blocks(Dataset):
    def __init__(self, n=96, block=8):
        g = torch.Generator().manual_seed(11)
        self.tokens = torch.randint(0, 20, (n, block + 1), generator=g)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return {"input_ids": self.tokens[i, :-1], "labels": self.tokens[i, 1:], "meta": {"id": i}}


class TinyLM(nn.Module):
    def __init__(self, vocab=20, d=16, block=8):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.wpe = nn.Embedding(block, d)
        self.attn = nn.MultiheadAttention(d, 2, batch_first=True)
        self.ln = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)
        self.head.weight = self.wte.weight
        self.register_buffer("mask", torch.triu(torch.ones(block, block), 1).bool())
        self.loss_fn = nn.CrossEntropyLoss()

    def forward(self, input_ids, labels=None):
        x = self.wte(input_ids) + self.wpe(torch.arange(input_ids.size(1)))
        x = self.ln(x + self.attn(x, x, x, attn_mask=self.mask, need_weights=False)[0])
        logits = self.head(x)
        loss = None if labels is None else self.loss_fn(logits.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": logits}


torch.manual_seed(5)
model = TinyLM()
decay = [p for n, p in model.named_parameters() if p.dim() >= 2]
no_decay = [p for n, p in model.named_parameters() if p.dim() < 2]
optim = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1},
                           {"params": no_decay, "weight_decay": 0.0}], lr=3e-3, eps=1e-3)
sched = torch.optim.lr_scheduler.LambdaLR(optim, lambda s: min(1.0, (s + 1) / 4))
loader = DataLoader(Blocks(), batch_size=32, num_workers=1, persistent_workers=True)
model, optim, loader, sched = evenstep.prepare(model, optim, loader, sched)

step = 0
for epoch in range(3):
    for batch in loader:
        out = model(batch["input_ids"], labels=batch["labels"])
        out["loss"].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        sched.step()
        optim.zero_grad(set_to_none=True)
        step += 1
    print(f"epoch {epoch} step {step} ppl {math.exp(out['loss'].item()):.2f}")
