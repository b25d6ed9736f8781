"""Texts of different lengths: a collate_fn that pads, a loss that is a mean over tokens, workers
that persist, two loaders side by side, a Subset drawn by SubsetRandomSampler."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, SubsetRandomSampler

import evenstep

PAD = 0


class Texts(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        lengths = torch.randint(2, 12, (n,), generator=g)
        self.texts = [torch.randint(1, 20, (int(k),), generator=g) for k in lengths]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return self.texts[i], self.texts[i].roll(1)


def collate(batch):
    texts, tags = zip(*batch)
    return (pad_sequence(texts, batch_first=True, padding_value=PAD),
            pad_sequence(tags, batch_first=True, padding_value=PAD))


torch.manual_seed(2)
data = Texts(120, 2)
train = DataLoader(data, batch_size=96, sampler=SubsetRandomSampler(range(0, 96)),
                   collate_fn=collate, num_workers=2, prefetch_factor=2, persistent_workers=True)
unlabelled = DataLoader(Texts(24, 3), batch_size=24, collate_fn=collate)
model = nn.Sequential(nn.Embedding(20, 8, padding_idx=PAD), nn.Tanh(), nn.Linear(8, 20))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2, eps=1e-2)
model, optimizer, train = evenstep.prepare(model, optimizer, train)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
for epoch in range(4):
    for (texts, tags), (more, _) in zip(train, unlabelled):
        optimizer.zero_grad()
        evenstep.weight((tags != PAD).sum())
        loss = criterion(model(texts).transpose(1, 2), tags)
        loss = loss + 0.01 * model(more).pow(2).mean()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item())
