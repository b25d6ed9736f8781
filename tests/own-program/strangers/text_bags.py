"""Texts of different lengths in one row, with offsets; gradients are clipped, and the rate falls
where the accuracy does."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import evenstep


class Texts(Dataset):
    def __init__(self, n, seed):
        draw = torch.Generator().manual_seed(seed)
        lengths = torch.randint(1, 9, (n,), generator=draw)
        self.texts = [torch.randint(0, 30, (int(k),), generator=draw) for k in lengths]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return int(self.texts[i].sum()) % 3, self.texts[i]


def collate_batch(batch):
    labels, texts = zip(*batch)
    offsets = torch.tensor([0, *(len(text) for text in texts[:-1])]).cumsum(0)
    return torch.tensor(labels), torch.cat(texts), offsets


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.fc = nn.EmbeddingBag(30, 8), nn.Linear(8, 3)

    def forward(self, text, offsets):
        return self.fc(self.embedding(text, offsets))


def evaluate():
    model.eval()
    right = 0
    with torch.no_grad():
        for label, text, offsets in valid_dataloader:
            right += (model(text, offsets).argmax(1) == label).sum().item()
    return right / 40


torch.manual_seed(0)
dataloader = DataLoader(Texts(96, 0), batch_size=32, collate_fn=collate_batch)
valid_dataloader = DataLoader(Texts(40, 1), batch_size=8, shuffle=True, collate_fn=collate_batch)
model = Classifier()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1)
model, optimizer, dataloader, scheduler = evenstep.prepare(model, optimizer, dataloader, scheduler)
best = None
for epoch in range(3):
    model.train()
    for label, text, offsets in dataloader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(text, offsets), label)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    accuracy = evaluate()
    if best is not None and best > accuracy:
        scheduler.step()
    else:
        best = accuracy
