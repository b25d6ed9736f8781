"""A Transformer's encoder and decoder that learn to turn a sequence round: teacher forcing, padded
targets, smoothed labels, and the schedule of "Attention is all you need", which steps with every
batch."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import evenstep

PAD, BOS, WORDS, LENGTH, WIDTH, WARM_UP = 0, 1, 12, 6, 16, 4


class Turned(Dataset):
    def __init__(self, n):
        draw = torch.Generator().manual_seed(5)
        self.rows = [torch.randint(2, WORDS, (int(k),), generator=draw)
                     for k in torch.randint(2, LENGTH + 1, (n,), generator=draw)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i], torch.cat([torch.tensor([BOS]), self.rows[i].flip(0)])


def collate(pairs):
    def pad(rows, length):
        return torch.stack([nn.functional.pad(r, (0, length - len(r)), value=PAD) for r in rows])

    return pad([s for s, _ in pairs], LENGTH), pad([t for _, t in pairs], LENGTH + 1)


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=PAD)
        self.places = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.1)
        self.net = nn.Transformer(WIDTH, 2, 1, 1, 32, dropout=0.0, batch_first=True)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, source, target):
        mask = self.net.generate_square_subsequent_mask(target.shape[1])
        h = self.net(self.words(source) + self.places, self.words(target) + self.places,
                     tgt_mask=mask, src_key_padding_mask=source == PAD)
        return self.out(h)


def noam(step):
    step = max(step, 1)
    return WIDTH**-0.5 * min(step**-0.5, step * WARM_UP**-1.5)


torch.manual_seed(4)
model = Seq2Seq()
criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.5, betas=(0.9, 0.98), eps=1e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, noam)
loader = DataLoader(Turned(96), batch_size=32, collate_fn=collate)
model, optimizer, schedule, loader = evenstep.prepare(model, optimizer, schedule, loader)

for epoch in range(3):
    model.train()
    for source, target in loader:
        logits = model(source, target[:, :-1])
        loss = criterion(logits.reshape(-1, WORDS), target[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    print("epoch", epoch, "loss", loss.item(), "rate", schedule.get_last_lr()[0])
