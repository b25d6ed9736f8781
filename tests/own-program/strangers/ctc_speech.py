"""A small DeepSpeech: a GRU over padded spectrograms, CTC with the labels of a batch in one row."""
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

import evenstep

torch.manual_seed(0)


class Utterances(Dataset):
    def __init__(self, n=96):
        lengths = torch.randint(12, 24, (n,))
        self.spectrograms = [torch.randn(int(t), 6) for t in lengths]
        self.labels = [torch.randint(1, 8, (int(torch.randint(2, 5, ())),)) for _ in range(n)]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.spectrograms[i], self.labels[i]


def collate(batch):
    spectrograms, labels = zip(*batch)
    input_lengths = torch.tensor([len(s) for s in spectrograms])
    label_lengths = torch.tensor([len(y) for y in labels])
    return pad_sequence(spectrograms), torch.cat(labels), input_lengths, label_lengths


class DeepSpeech(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(6, 12, 3, padding=1)
        self.gru = nn.GRU(12, 32)
        self.fc = nn.Linear(32, 8)

    def forward(self, x):  # (time, batch, feature)
        x = torch.relu(self.conv(x.permute(1, 2, 0))).permute(2, 0, 1)
        return self.fc(self.gru(x)[0]).log_softmax(dim=2)


train_loader = DataLoader(Utterances(), batch_size=32, collate_fn=collate)
model = DeepSpeech()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, eps=1e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, max_lr=1e-2, steps_per_epoch=len(train_loader), epochs=3, anneal_strategy="linear")
criterion = nn.CTCLoss(blank=0, zero_infinity=True)
model, optimizer, train_loader, scheduler = evenstep.prepare(model, optimizer, train_loader,
                                                             scheduler)
for epoch in range(3):
    model.train()
    for batch_idx, (spectrograms, labels, input_lengths, label_lengths) in enumerate(train_loader):
        optimizer.zero_grad()
        output = model(spectrograms)
        loss = criterion(output, labels, input_lengths, label_lengths)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 400)
        optimizer.step()
        scheduler.step()
    print(f"Train Epoch: {epoch}\tLoss: {loss.item():.6f}")
