"""Cases of backward passes: several of one step, and what each counts: tokens, sums, gradients that
are accumulated."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

import evenstep

from .parts import FULL, STEPS, data, full, leave, loop, mlp, plain_step


# ---- passes


def two_backwards(output):
    def step(model, opt, x, y):
        opt.zero_grad()
        out = model(x)
        F.cross_entropy(out, y).backward(retain_graph=True)
        (0.1 * out.pow(2).mean()).backward()
        opt.step()

    model = mlp()
    loop(output, model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), full(data()), step)


def two_heads(output):
    """The second pass reaches a part of the parameters; zero_grad never comes between."""

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.a, self.b = nn.Linear(20, 32), nn.Linear(32, 5), nn.Linear(32, 1)

        def forward(self, x):
            hidden = torch.tanh(self.body(x))
            return self.a(hidden), self.b(hidden.detach())

    def step(model, opt, x, y):
        opt.zero_grad()
        a, b = model(x)
        F.cross_entropy(a, y).backward()
        (b.squeeze(1) - y).pow(2).mean().backward()
        opt.step()

    torch.manual_seed(1)
    model = Heads()
    loop(output, model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), full(data()), step)


def two_optimizers(output):
    """Generator against discriminator: three passes and two steps of each batch."""
    torch.manual_seed(1)
    pair = nn.ModuleDict({"g": nn.Linear(8, 12), "d": nn.Sequential(nn.Linear(12, 16), nn.Tanh(),
                                                                     nn.Linear(16, 1))})
    betas = (0.5, 0.999)
    of_g, of_d = (torch.optim.Adam(pair[k].parameters(), 2e-3, betas=betas) for k in "gd")
    _, of_g, of_d, loader = evenstep.prepare(pair, of_g, of_d, full(data()))
    for _ in evenstep.epochs(STEPS):
        for x, _ in loader:
            fake, ones = pair["g"](x[:, 12:]), torch.ones(len(x), 1)
            of_d.zero_grad()
            F.binary_cross_entropy_with_logits(pair["d"](x[:, :12]), ones).backward()
            F.binary_cross_entropy_with_logits(pair["d"](fake.detach()), 0 * ones).backward()
            of_d.step()
            of_g.zero_grad()
            F.binary_cross_entropy_with_logits(pair["d"](fake), ones).backward()
            of_g.step()
    leave(output, pair)


# ---- weights


def _tokens(y):
    return (y % 3 + 1).float()


def token_weighted(output):
    """A mean over tokens: samples have one to three of them."""

    def step(model, opt, x, y):
        opt.zero_grad()
        tokens = _tokens(y)
        loss = (tokens * F.cross_entropy(model(x), y, reduction="none")).sum() / tokens.sum()
        evenstep.weight(tokens.sum())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        opt.step()

    model = mlp()
    loop(output, model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), full(data()), step)


def token_weighted_twice(output):
    def step(model, opt, x, y):
        opt.zero_grad()
        tokens, out = _tokens(y), model(x)
        evenstep.weight(tokens.sum())
        (tokens * F.cross_entropy(out, y, reduction="none")).sum().div(tokens.sum()).backward(
            retain_graph=True
        )
        (tokens * out.pow(2).mean(1)).sum().div(10 * tokens.sum()).backward()
        opt.step()

    model = mlp()
    loop(output, model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), full(data()), step)


def _sum_step(model, opt, x, y):
    opt.zero_grad()
    out = model(x)
    F.cross_entropy(out, y, reduction="sum").backward(retain_graph=True)
    (0.1 * out.pow(2).sum()).backward()
    opt.step()


def sum_loss(output):
    def step(model, opt, x, y):
        opt.zero_grad()
        F.cross_entropy(model(x), y, reduction="sum").backward()
        opt.step()

    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05 / FULL, momentum=0.9)
    loop(output, model, opt, full(data()), step, reduction="sum")


def sum_reduction(output):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05 / FULL, momentum=0.9)
    loop(output, model, opt, full(data()), _sum_step, reduction="sum")


def checkpointed(output):
    from torch.utils.checkpoint import checkpoint

    def step(model, opt, x, y):
        opt.zero_grad()
        hidden = checkpoint(model[:3], x.requires_grad_(), use_reentrant=True)
        F.cross_entropy(checkpoint(model[3:], hidden, use_reentrant=True), y).backward()
        opt.step()

    model = mlp()
    loop(output, model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), full(data()), step)


def double_backward(output):
    def step(model, opt, x, y):
        opt.zero_grad()
        x.requires_grad_()
        loss = F.cross_entropy(model(x), y)
        slope = torch.autograd.grad(loss * len(x), x, create_graph=True)[0]
        (loss + 0.1 * slope.pow(2).sum(1).mean()).backward()
        opt.step()

    model = mlp()
    loop(output, model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), full(data()), step)


def _accumulate(output, held):
    """Four batches a step; the order of samples is fixed, so that alone and ranks are
    comparable."""
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    loader = DataLoader(data(), batch_size=100)
    model, opt, loader = evenstep.prepare(model, opt, loader)
    for _ in evenstep.epochs(10):
        for i, (x, y) in enumerate(loader):
            last = i % 4 == 3
            with evenstep.no_sync() if held and not last else torch.enable_grad():
                (F.cross_entropy(model(x), y) / 4).backward()
            if last:
                opt.step()
                opt.zero_grad()
    leave(output, model)


def accumulation(output):
    _accumulate(output, held=False)


def accumulation_no_sync(output):
    _accumulate(output, held=True)


def accumulation_unused(output):
    """The last of four batches of a step does not reach a layer that those before did."""
    model = mlp()
    model.append(nn.Linear(5, 5))
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    model, opt, loader = evenstep.prepare(model, opt, DataLoader(data(), batch_size=100))
    for _ in evenstep.epochs(10):
        for i, (x, y) in enumerate(loader):
            last = i % 4 == 3
            with evenstep.no_sync() if not last else torch.enable_grad():
                (F.cross_entropy(model[:-1](x) if last else model(x), y) / 4).backward()
            if last:
                opt.step()
                opt.zero_grad()
    leave(output, model)


def minibatches(output):
    """Epochs whose last batch is smaller, prefetched by workers; no shuffling, so comparable."""
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    loader = DataLoader(data(), batch_size=64, num_workers=2, prefetch_factor=2)
    loop(output, model, opt, loader, plain_step, epochs=3)


def sum_reduced(output):
    def step(model, opt, x, y):
        opt.zero_grad()
        F.cross_entropy(model(x), y, reduction="sum").backward()
        opt.step()

    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05 / 1200, momentum=0.9)
    loop(output, model, opt, full(data()), step, reduction="sum")


def token_weights(output):
    def step(model, opt, x, y):
        opt.zero_grad()
        counted = y != 0
        evenstep.weight(int(counted.sum()))
        F.cross_entropy(model(x)[counted], y[counted]).backward()
        opt.step()

    model = mlp()
    loop(output, model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), full(data()), step)
