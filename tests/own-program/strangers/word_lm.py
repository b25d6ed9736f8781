"""PyTorch's word language model in small: the hidden state of each row goes on in the next batch,
gradients are clipped, the rate falls where the validation loss does not, the best model is saved by
the main process."""
import math
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import evenstep

ROWS, CHUNKS, BPTT, WORDS = 32, 4, 5, 30
torch.manual_seed(1111)


class Corpus(Dataset):
    """Row b of a batch follows row b of the batch before."""

    def __init__(self, rows):
        text = torch.randint(0, WORDS, (rows * (CHUNKS * BPTT + 1),))
        self.rows, self.text = rows, text.view(rows, -1)

    def __len__(self):
        return self.rows * CHUNKS

    def __getitem__(self, i):
        chunk, row = divmod(i, self.rows)
        words = self.text[row, chunk * BPTT:(chunk + 1) * BPTT + 1]
        return words[:-1], words[1:]


class RNNModel(nn.Module):
    def __init__(self, size=12, layers=2):
        super().__init__()
        self.encoder = nn.Embedding(WORDS, size)
        self.rnn = nn.LSTM(size, size, layers, batch_first=True)
        self.decoder = nn.Linear(size, WORDS)
        self.decoder.weight = self.encoder.weight
        self.shape = layers, size

    def forward(self, words, hidden):
        output, hidden = self.rnn(self.encoder(words), hidden)
        return self.decoder(output).flatten(0, 1), hidden

    def init_hidden(self, rows):
        layers, size = self.shape
        return tuple(torch.zeros(layers, rows, size) for _ in range(2))


def repackage_hidden(hidden):
    return tuple(h.detach() for h in hidden)


def evaluate():
    model.eval()
    total, hidden = 0.0, model.init_hidden(8)
    with torch.no_grad():
        for data, targets in val_data:
            output, hidden = model(data, hidden)
            total += criterion(output, targets.flatten()).item()
    return total / len(val_data)


train_data = DataLoader(Corpus(ROWS), batch_size=ROWS, shuffle=False, drop_last=True)
val_data = DataLoader(Corpus(8), batch_size=8)
model, criterion, lr = RNNModel(), nn.CrossEntropyLoss(), 1.0
optimizer = torch.optim.SGD(model.parameters(), lr=lr)
model, optimizer, train_data = evenstep.prepare(model, optimizer, train_data)

output, best_val_loss = os.environ.get("EVENSTEP_OUTPUT", "."), None
for epoch in range(1, 4):
    model.train()
    hidden = None
    for data, targets in train_data:
        hidden = repackage_hidden(hidden) if hidden else model.init_hidden(len(data))
        model.zero_grad()
        scores, hidden = model(data, hidden)
        loss = criterion(scores, targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
    val_loss = evaluate()
    print(f"| end of epoch {epoch} | valid ppl {math.exp(val_loss):8.2f}")
    if best_val_loss is None or val_loss < best_val_loss:
        if evenstep.is_main():
            torch.save(model.state_dict(), os.path.join(output, "model.pt"))
        best_val_loss = val_loss
    else:
        lr /= 4.0
        for group in optimizer.param_groups:
            group["lr"] = lr
