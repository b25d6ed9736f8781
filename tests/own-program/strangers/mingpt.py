"""A small GPT in minGPT's trainer: 10 billion rows that are drawn at random are its epoch, and it
counts iterations. The rows are alike, so that which of them a batch has changes nothing."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

import evenstep

torch.manual_seed(0)
TOKENS, ROW, WIDTH = 11, 6, 16
text = torch.randint(0, TOKENS, (ROW + 1,))


class Rows(Dataset):
    def __len__(self):
        return 500

    def __getitem__(self, i):
        return text[:-1], text[1:]


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(TOKENS, WIDTH), nn.Embedding(ROW, WIDTH)
        self.attend = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS, bias=False)

    def forward(self, idx, targets):
        x = self.token(idx) + self.place(torch.arange(ROW))
        causal = torch.triu(torch.ones(ROW, ROW, dtype=torch.bool), 1)
        x = self.norm(x + self.attend(x, x, x, attn_mask=causal, need_weights=False)[0])
        logits = self.head(x)
        return logits, F.cross_entropy(logits.view(-1, TOKENS), targets.view(-1), ignore_index=-1)


class Trainer:
    def __init__(self, model, data, max_iters):
        self.model, self.max_iters = model, max_iters
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, eps=1e-3)
        self.loader = DataLoader(data, sampler=RandomSampler(
            data, replacement=True, num_samples=int(1e10)), shuffle=False, batch_size=32)
        self.model, self.optimizer, self.loader = evenstep.prepare(
            self.model, self.optimizer, self.loader)

    def run(self):
        iter_num, data_iter = 0, iter(self.loader)
        while True:
            try:
                batch = next(data_iter)
            except StopIteration:
                data_iter = iter(self.loader)
                batch = next(data_iter)
            _, loss = self.model(*batch)
            self.model.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            iter_num += 1
            if iter_num >= self.max_iters:
                break


model = GPT()
Trainer(model, Rows(), 9).run()
