"""Loss and rate after the Annotated Transformer: a smoothed KL divergence that is summed, divided
by the number of tokens; a Noam schedule by LambdaLR."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
V, pad = 15, 0


class LabelSmoothing(nn.Module):
    def __init__(self, size, padding_idx, smoothing=0.0):
        super().__init__()
        self.criterion = nn.KLDivLoss(reduction="sum")
        self.padding_idx, self.size = padding_idx, size
        self.confidence, self.smoothing = 1.0 - smoothing, smoothing

    def forward(self, x, target):
        true_dist = x.data.clone()
        true_dist.fill_(self.smoothing / (self.size - 2))
        true_dist.scatter_(1, target.data.unsqueeze(1), self.confidence)
        true_dist[:, self.padding_idx] = 0
        mask = torch.nonzero(target.data == self.padding_idx)
        if mask.dim() > 0:
            true_dist.index_fill_(0, mask.squeeze(1), 0.0)
        return self.criterion(x, true_dist.clone().detach())


class Batch:
    def __init__(self, src, tgt):
        self.src, self.tgt, self.tgt_y = src, tgt[:, :-1], tgt[:, 1:]
        self.ntokens = (self.tgt_y != pad).data.sum()


class SimpleLossCompute:
    def __init__(self, generator, criterion):
        self.generator, self.criterion = generator, criterion

    def __call__(self, x, y, norm):
        x = self.generator(x)
        sloss = self.criterion(x.contiguous().view(-1, x.size(-1)), y.contiguous().view(-1)) / norm
        return sloss.data * norm, sloss


class Generator(nn.Module):
    def __init__(self, d_model, vocab):
        super().__init__()
        self.proj = nn.Linear(d_model, vocab)

    def forward(self, x):
        return torch.log_softmax(self.proj(x), dim=-1)


class Model(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.embed = nn.Embedding(V, d)
        self.attend = nn.MultiheadAttention(d, 2, batch_first=True)
        self.norm, self.generator = nn.LayerNorm(d), Generator(d, V)

    def forward(self, src, tgt):
        memory, x = self.embed(src), self.embed(tgt)
        return self.norm(x + self.attend(x, memory, memory, src == pad)[0])


def rate(step, model_size, factor, warmup):
    step = max(step, 1)
    return factor * (model_size ** (-0.5) * min(step ** (-0.5), step * warmup ** (-1.5)))


data = torch.randint(1, V, (96, 9))
for i, n in enumerate(torch.randint(4, 10, (96,))):
    data[i, int(n):] = pad
data[:, 0] = 1
loader = DataLoader(TensorDataset(data, data), batch_size=32)
model = Model(16)
optimizer = torch.optim.Adam(model.parameters(), lr=0.5, betas=(0.9, 0.98), eps=1e-3)
lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
    optimizer=optimizer, lr_lambda=lambda step: rate(step, 16, factor=1.0, warmup=8))
model, optimizer, loader, lr_scheduler = evenstep.prepare(model, optimizer, loader, lr_scheduler)
loss_compute = SimpleLossCompute(model.generator, LabelSmoothing(V, pad, 0.1))
for epoch in range(3):
    total_loss = total_tokens = 0
    for i, (src, tgt) in enumerate(loader):
        batch = Batch(src, tgt)
        out = model(batch.src, batch.tgt)
        loss, loss_node = loss_compute(out, batch.tgt_y, batch.ntokens)
        loss_node.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total_loss += loss
        total_tokens += batch.ntokens
        lr_scheduler.step()
    print("Loss: %6.2f" % (total_loss / total_tokens))
