"""Text classification: an Embedding and an LSTM over packed sequences, a collate_fn that pads, a
batch sampler of its own that makes buckets, loader workers."""
import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

import evenstep

PAD = 0


class Sentences(Dataset):
    def __init__(self, n=96):
        rng = random.Random(7)
        self.items = []
        for _ in range(n):
            length = rng.randint(3, 12)
            tokens = [rng.randint(1, 29) for _ in range(length)]
            self.items.append((tokens, int(sum(tokens) / length > 15)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, idx):
        tokens, label = self.items[idx]
        return torch.tensor(tokens), label


class Buckets(Sampler):
    """Batches of sentences of about one length."""

    def __init__(self, data_source, batch_size):
        self.data_source, self.batch_size = data_source, batch_size

    def __iter__(self):
        order = sorted(range(len(self.data_source)),
                       key=lambda i: -len(self.data_source.items[i][0]))
        for first in range(0, len(order), self.batch_size):
            yield order[first:first + self.batch_size]

    def __len__(self):
        return -(-len(self.data_source) // self.batch_size)


def collate(batch):
    texts, labels = zip(*batch)
    lengths = torch.tensor([len(t) for t in texts])
    return {"text": pad_sequence(texts, batch_first=True, padding_value=PAD), "lengths": lengths,
            "label": torch.tensor(labels)}


class Classifier(nn.Module):
    def __init__(self, vocab=30, dim=12, hidden=16):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.lstm = nn.LSTM(dim, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, 2)
        self.not_used_yet = nn.Linear(4, 4)

    def forward(self, text, lengths):
        packed = pack_padded_sequence(self.embedding(text), lengths.cpu(), batch_first=True,
                                      enforce_sorted=False)
        _, (hidden, _) = self.lstm(packed)
        return self.fc(torch.cat((hidden[-2], hidden[-1]), dim=1))


def main():
    torch.manual_seed(3)
    dataset = Sentences()
    loader = DataLoader(dataset, batch_sampler=Buckets(dataset, 32), collate_fn=collate,
                        num_workers=2)
    model = Classifier()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, eps=1e-3)
    model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
    for epoch in range(3):
        total, n = 0.0, 0
        model.train()
        for batch in loader:
            logits = model(batch["text"], batch["lengths"])
            loss = nn.functional.cross_entropy(logits, batch["label"])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.5)
            optimizer.step()
            total += loss.item() * len(batch["label"])
            n += len(batch["label"])
        print(f"epoch {epoch} loss {total / n:.4f}")


if __name__ == "__main__":
    main()
