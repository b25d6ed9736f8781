"""Programs with PyTorch: each is a training loop as a user writes it, with Evenstep's two lines.

The data are drawn from a seed; each case writes its parameters to OUTPUT.npz. Full batches (`FULL`)
make the order of samples irrelevant, so that a run alone and one on unequal ranks are comparable.
"""

import os
import random
import signal
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

import evenstep

FULL, STEPS = 1200, 60


def data(n=FULL, features=20, classes=5):
    g = torch.Generator().manual_seed(3)
    x = torch.randn(n, features, generator=g)
    y = (x @ torch.randn(features, classes, generator=g)).argmax(1)
    return TensorDataset(x, y)


def images(n=FULL):
    g = torch.Generator().manual_seed(4)
    return TensorDataset(torch.randn(n, 3, 8, 8, generator=g), torch.arange(n) % 5)


def mlp():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(),
                         nn.Linear(64, 5))


def leave(output, model, **more):
    values = {k.replace("/", "."): v.detach().float().numpy()
              for k, v in model.state_dict().items()}
    np.savez(output + ".npz", **values, **more)


def loop(output, model, opt, loader, step, epochs=STEPS, **options):
    """prepare, then `step` for each batch."""
    model, opt, loader = evenstep.prepare(model, opt, loader, **options)
    steps = 0
    for _ in evenstep.epochs(epochs):
        for x, y in loader:
            steps += 1
            crash(steps, opt)
            step(model, opt, x, y)
    leave(output, model)


def last_rank():
    return evenstep.rank() == evenstep.world_size() - 1


def crash(steps, opt):
    """TEST_CRASH=N: the last rank's first process is killed where its Nth step begins, or with
    TEST_CRASH_IN=optimizer where the optimizer's step begins."""
    first = os.environ.get("EVENSTEP_INCARNATION") == "0" and last_rank()
    if first and steps == int(os.environ.get("TEST_CRASH", 0)):
        kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        if os.environ.get("TEST_CRASH_IN") == "optimizer":
            opt.register_step_pre_hook(kill)
        else:
            kill()


def plain_step(model, opt, x, y):
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step()


def full(set_, **options):
    return DataLoader(set_, batch_size=FULL, shuffle=True, **options)


# ---- optimizers and what stands between backward and step


def sgd_momentum(output):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    loop(output, model, opt, full(data()), plain_step)


def plain_sgd(output):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    loop(output, model, opt, full(data()), plain_step)


def without_momentum(output):
    model = mlp()
    loop(output, model, torch.optim.SGD(model.parameters(), 0.05), full(data()), plain_step)


class Copies(TorchDispatchMode):
    """Counts the copies of tensors that are made within."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += "copy" in function.__name__ or "clone" in function.__name__
        return function(*args, **(kwargs or {}))


def copies(output):
    """How many tensors are copied from where a backward pass begins to the optimizer's step."""
    model, counted = mlp(), []

    def step(model, opt, x, y):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        with Copies() as seen:
            loss.backward()
        counted.append(seen.count)
        opt.step()

    opt = torch.optim.SGD(model.parameters(), 0.05)
    model, opt, loader = evenstep.prepare(model, opt, full(data()))
    for _ in evenstep.epochs(STEPS):
        for x, y in loader:
            step(model, opt, x, y)
    leave(output, model, copies=counted)


def adamw(output):
    model = mlp()
    loop(output, model, torch.optim.AdamW(model.parameters(), 1e-3, fused=True), full(data()),
         plain_step)


def clipping(output):
    def step(model, opt, x, y):
        opt.zero_grad(set_to_none=False)
        F.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        opt.step()

    model = mlp()
    loop(output, model, torch.optim.SGD(model.parameters(), 0.5, momentum=0.9), full(data()), step)


def groups_and_scheduler(output):
    model = mlp()
    opt = torch.optim.AdamW(
        [{"params": model[0].parameters(), "weight_decay": 0.0},
         {"params": model[2:].parameters()}], lr=2e-3,
        eps=1e-3,
    )
    scheduler = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=STEPS + 1)
    model, opt, loader, scheduler = evenstep.prepare(model, opt, full(data()), scheduler)
    for _ in evenstep.epochs(STEPS):
        for x, y in loader:
            plain_step(model, opt, x, y)
            scheduler.step()
    leave(output, model, rate=scheduler.get_last_lr()[0])


def scaler(output):
    grad_scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def step(model, opt, x, y):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x).float(), y)
        grad_scaler.scale(loss).backward()
        grad_scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        grad_scaler.step(opt)
        grad_scaler.update()

    model = mlp()
    loop(output, model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), full(data()), step)


# ---- modules


class Odd(nn.Module):
    """Tied, frozen and unused parameters."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b = nn.Linear(20, 20), nn.Linear(20, 20, bias=False)
        self.b.weight = self.a.weight
        self.frozen, self.unused = nn.Linear(20, 20), nn.Linear(7, 3)
        self.frozen.requires_grad_(False)
        self.out = nn.Linear(20, 5)

    def forward(self, x):
        return self.out(torch.tanh(self.b(torch.tanh(self.frozen(self.a(x))))))


def odd_parameters(output):
    model = Odd()
    opt = torch.optim.AdamW(model.parameters(), 1e-3, eps=1e-3)
    loop(output, model, opt, full(data()), plain_step)
    assert model.unused.weight.grad is None
    assert model.a.weight is model.b.weight


class Conv(nn.Module):
    def __init__(self, norm=False):
        super().__init__()
        torch.manual_seed(1)
        self.conv1, self.conv2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8) if norm else nn.Identity()
        self.out = nn.Linear(8 * 16, 5)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.norm(self.conv1(x))), 2)
        return self.out(torch.relu(self.conv2(x)).flatten(1))


def channels_last(output):
    def step(model, opt, x, y):
        plain_step(model, opt, x.contiguous(memory_format=torch.channels_last), y)

    model = Conv().to(memory_format=torch.channels_last)
    loop(output, model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), full(images()),
         step)
    assert model.conv2.weight.is_contiguous(memory_format=torch.channels_last)


def batch_norm(output):
    model = Conv(norm=True)
    opt = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
    loop(output, model, opt, full(images()), plain_step)


def compiled(output):
    model = torch.compile(mlp(), backend="aot_eager")
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    loop(output, model, opt, full(data()), plain_step)


def moved(output):
    count = 0

    def step(model, opt, x, y):
        nonlocal count
        count += 1
        if count == 20:
            model.to(torch.float64).to(torch.float32)
        plain_step(model, opt, x, y)

    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, foreach=True)
    loop(output, model, opt, full(data()), step)


def bfloat16(output):
    def step(model, opt, x, y):
        opt.zero_grad()
        F.cross_entropy(model(x.bfloat16()).float(), y).backward()
        opt.step()

    model = mlp().bfloat16()
    loop(output, model, torch.optim.SGD(model.parameters(), 0.05), full(data()), step)


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


# ---- data


def _tell_batches(output, loader, **options):
    """Sizes of batches and the samples of each epoch, with a scheduler that counts loops' turns."""
    model = nn.Linear(1, 1)
    model, opt, loader = evenstep.prepare(
        model, torch.optim.SGD(model.parameters(), 1e-4), loader, **options
    )
    sizes, seen = [], []
    for _ in evenstep.epochs(3):
        for (x,) in loader:
            sizes.append(len(x))
            seen.append(x.flatten().numpy().copy())
            opt.zero_grad()
            model(x).sum().backward()
            opt.step()
    leave(output, model, sizes=sizes, seen=np.concatenate(seen), length=len(loader))


def numbers(n=200):
    return TensorDataset(torch.arange(n, dtype=torch.float32).view(n, 1))


def shuffled_with_workers(output):
    loader = DataLoader(numbers(), batch_size=32, shuffle=True, num_workers=2, prefetch_factor=3)
    _tell_batches(output, loader)


def drop_last(output):
    _tell_batches(output, DataLoader(numbers(), batch_size=32, shuffle=True, drop_last=True))


def weighted_sampler(output):
    sampler = torch.utils.data.WeightedRandomSampler(torch.arange(200.0), 200)
    _tell_batches(output, DataLoader(numbers(), batch_size=32, sampler=sampler))


class Lines(torch.utils.data.IterableDataset):
    def __init__(self, start=0, step=1):
        self.start, self.step = start, step

    def __iter__(self):
        return iter((torch.tensor([float(i)]),) for i in range(self.start, 200, self.step))


def iterable(output):
    loader = DataLoader(Lines(), batch_size=32)
    part = lambda dataset, rank, workers: Lines(rank, workers)
    _tell_batches(output, loader, shard=part, samples=200)


def left_early(output):
    """A loop that is left after three batches goes on with the fourth."""
    model = nn.Linear(1, 1)
    loader = DataLoader(numbers(), batch_size=32, num_workers=2)
    model, opt, loader = evenstep.prepare(
        model, torch.optim.SGD(model.parameters(), 1e-4), loader
    )
    seen = []
    for _ in range(3):
        for i, (x,) in enumerate(loader):
            seen.append(x.flatten().numpy().copy())
            opt.zero_grad()
            model(x).sum().backward()
            opt.step()
            if i == 2:
                break
    leave(output, model, seen=np.concatenate(seen))


# ---- state, metrics, faults


def with_state(output):
    """Dropout's random numbers and AdamW's moments have to come back."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(20, 32), nn.Dropout(0.5), nn.BatchNorm1d(32), nn.Linear(32, 5))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(opt, 3, 0.5)
    loader = DataLoader(data(), batch_size=300)
    model, opt, loader, scheduler = evenstep.prepare(model, opt, loader, scheduler)
    batches = 0
    for _ in evenstep.epochs(2):
        for x, y in loader:
            plain_step(model, opt, x, y)
            scheduler.step()
            batches += 1
    evenstep.log(test_accuracy=0.5, batches=batches)
    torch.save(evenstep.state_dict(), output + ".pt")
    steps = float(opt.state_dict()["state"][0]["step"])
    leave(output, model, rate=opt.param_groups[0]["lr"], adam_steps=steps, draw=torch.rand(1))


def alone_is_untouched(output):
    model, loader = mlp(), full(data())
    opt = torch.optim.SGD(model.parameters(), 0.05)
    backward, parameters = torch.autograd.backward, [p.data_ptr() for p in model.parameters()]
    assert all(a is b for a, b in zip(evenstep.prepare(model, opt, loader), (model, opt, loader)))
    assert evenstep.prepare(model) is model
    assert torch.autograd.backward is backward
    assert [p.data_ptr() for p in model.parameters()] == parameters
    assert (evenstep.rank(), evenstep.world_size(), evenstep.is_main()) == (0, 1, True)
    with evenstep.no_sync():
        evenstep.weight(3)
    evenstep.log(loss=1)
    assert list(evenstep.epochs(3)) == [0, 1, 2]
    assert evenstep.state_dict()["model"]["0.weight"].shape == (64, 20)


def replaced(output):
    def step(model, opt, x, y):
        plain_step(model, opt, x, y)
        model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()}, assign=True)
        plain_step(model, torch.optim.SGD(model.parameters(), 0.1), x, y)

    model = mlp()
    loop(output, model, torch.optim.SGD(model.parameters(), 0.05), full(data()), step)


def sparse(output):
    model = nn.Sequential(nn.EmbeddingBag(10, 5, sparse=True))
    set_ = TensorDataset(torch.zeros(FULL, 2, dtype=torch.long), torch.arange(FULL) % 5)
    loop(output, model, torch.optim.SGD(model.parameters(), 0.05), full(set_), plain_step)


def unprepared_loader(output):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    mine = full(data())
    model, opt, _ = evenstep.prepare(model, opt, mine)
    for x, y in mine:
        plain_step(model, opt, x, y)


def fails_in_backward(output):
    """The second batch's backward pass raises, as where memory is short, and the program goes
    on."""

    def step(model, opt, x, y):
        step.count += 1
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        if step.count == 2 and evenstep.rank() == 0:
            model[0].weight.register_hook(raise_once)
        try:
            loss.backward()
        except MemoryError:
            step.caught = True
            return
        opt.step()

    def raise_once(grad):
        if not step.caught:
            raise MemoryError("short")

    step.count, step.caught = 0, False
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    loop(output, model, opt, full(data()), step, epochs=4)
    assert step.caught or evenstep.rank() != 0


def crashes(output):
    model = mlp()
    evenstep.prepare(model, torch.optim.SGD(model.parameters(), 0.05), full(data()))
    next(iter(evenstep.epochs(1)))
    raise ValueError("the learning rate of layer 3 is a string")


def untrained(output):
    leave(output, mlp())


# ---- killed and gone on


def _goes_on(output, model, opt, scheduler):
    """Four epochs of six steps of 200 samples; TEST_KILL=N kills the last rank, its program with
    it, in its Nth step."""
    kill, steps = int(os.environ.get("TEST_KILL", 0)), 0
    loader = DataLoader(data(), batch_size=200, shuffle=True)
    test = DataLoader(data(64), batch_size=16)
    model, opt, loader, scheduler = evenstep.prepare(model, opt, loader, scheduler)
    for epoch in evenstep.epochs(4):
        model.train()
        for x, y in loader:
            steps += 1
            if steps == kill and last_rank():
                os.kill(os.getppid(), signal.SIGKILL)
                signal.pause()
            x = x + 0.01 * float(np.random.rand()) + 0.01 * random.random()
            plain_step(model, opt, x, y)
        scheduler.step()
        model.eval()
        with torch.no_grad():
            right = sum(int((model(x).argmax(1) == y).sum()) for x, y in test)
        evenstep.log(test_accuracy=right / 64)
    leave(output, model, rate=opt.param_groups[0]["lr"], steps=steps)


def goes_on_sgd(output):
    np.random.seed(5)
    random.seed(5)
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    _goes_on(output, model, opt, torch.optim.lr_scheduler.MultiStepLR(opt, [1, 3], 0.5))


def goes_on_adamw(output):
    np.random.seed(5)
    random.seed(5)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3),
                          nn.Linear(64, 5))
    opt = torch.optim.AdamW(model.parameters(), 1e-2)
    _goes_on(output, model, opt, torch.optim.lr_scheduler.CosineAnnealingLR(opt, 4))
