"""Masked words and a label of each text, as BERT is pretrained: two means, of words and of texts.
A backward pass of each weighs its own number; TEST_ADDED: one of their sum weighs none."""
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class Encoder(nn.Module):
    def __init__(self, words=40, width=16):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True)
        self.word, self.text = nn.Linear(width, words), nn.Linear(width, 2)

    def forward(self, x):
        h = self.layer(self.embed(x))
        return self.word(h), self.text(h[:, 0])


torch.manual_seed(17)
texts, kinds = torch.randint(1, 40, (96, 8)), torch.randint(0, 2, (96,))
masked = torch.rand(96, 8) < torch.linspace(0.05, 0.6, 96)[:, None]
words = texts.masked_fill(~masked, -100)
data = TensorDataset(texts.masked_fill(masked, 0), words, kinds)
loader = DataLoader(data, batch_size=32)
model = Encoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-3)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in evenstep.epochs(3):
    for x, word, kind in loader:
        of_words, of_texts = model(x)
        of_word = F.cross_entropy(of_words.flatten(0, 1), word.flatten())
        of_text = F.cross_entropy(of_texts, kind)
        optimizer.zero_grad()
        if os.environ.get("TEST_ADDED"):
            (of_word + of_text).backward()
        else:
            of_word.backward(retain_graph=True)
            of_text.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
