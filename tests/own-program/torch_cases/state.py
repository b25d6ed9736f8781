"""Cases of the program's own state: metrics, faults, processes that are killed and go on."""

import itertools
import math
import os
import random
import signal

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import evenstep

from .parts import FULL, crash, data, full, last_rank, leave, loop, mlp, plain_step


def with_state(output):
    """Dropout's random numbers and AdamW's moments have to come back."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(20, 32), nn.Dropout(0.5), nn.BatchNorm1d(32), nn.Linear(32, 5))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(opt, 3, 0.5)
    loader, counts = DataLoader(data(), batch_size=300), {"batches": 0}
    model, opt, loader, scheduler, counts = evenstep.prepare(model, opt, loader, scheduler, counts)
    batches = 0
    for _ in evenstep.epochs(2):
        for x, y in loader:
            plain_step(model, opt, x, y)
            scheduler.step()
            batches += 1
            counts["batches"] += 1
    evenstep.log(test_accuracy=0.5, batches=batches)
    torch.save(evenstep.state_dict(), output + ".pt")
    steps = float(opt.state_dict()["state"][0]["step"])
    leave(output, model, rate=opt.param_groups[0]["lr"], adam_steps=steps, draw=torch.rand(1),
          batches=counts["batches"])


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
    """Bags of words; each node's batch has rows of its own of the embedding."""
    torch.manual_seed(1)
    bags = nn.EmbeddingBag(400, 16, sparse=True)
    words = nn.Sequential(bags, nn.Linear(16, 5))
    set_ = TensorDataset(torch.randint(0, 400, (FULL, 4)), torch.arange(FULL) % 5)
    loop(output, words, torch.optim.SGD(words.parameters(), 0.1), full(set_), plain_step)


def unprepared_loader(output):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    mine = full(data())
    model, opt, _ = evenstep.prepare(model, opt, mine)
    for x, y in mine:
        plain_step(model, opt, x, y)


def shares_out(output):
    """As for DistributedDataParallel, by rank() and world_size()."""
    model, set_ = mlp(), data()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    sampler = DistributedSampler(set_, evenstep.world_size(), evenstep.rank())
    evenstep.prepare(model, opt, DataLoader(set_, batch_size=100, sampler=sampler))


def keeps_batches(output):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    loader = DataLoader(data(), batch_size=600)
    model, opt, loader = evenstep.prepare(model, opt, loader)
    for _, (x, y) in zip(range(5), itertools.cycle(loader)):
        plain_step(model, opt, x, y)


def no_backward(output):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    loop(output, model, opt, full(data()), lambda model, opt, x, y: F.cross_entropy(model(x), y))


def gives_gradients(output):
    """By torch.autograd.grad, which sums nothing."""

    def step(model, opt, x, y):
        params = list(model.parameters())
        for p, g in zip(params, torch.autograd.grad(F.cross_entropy(model(x), y), params)):
            p.grad = g
        opt.step()

    model = mlp()
    loop(output, model, torch.optim.SGD(model.parameters(), 0.05), full(data()), step)


def _takes_ahead(output, each, steps):
    """steps(batches, step): a loop over an iterator of batches that makes steps by step(batch)."""
    model, loader = mlp(), DataLoader(data(), batch_size=300)
    opt = torch.optim.SGD(model.parameters(), 0.05)
    model, opt, loader = evenstep.prepare(model, opt, loader)
    for _ in evenstep.epochs(2):
        steps(each(loader), lambda batch: plain_step(model, opt, *batch))
    leave(output, model)


def takes_two_ahead(output):
    """Three are in hand at the first step."""

    def steps(batches, step):
        ahead = [next(batches), next(batches)]
        for batch in batches:
            ahead.append(batch)
            step(ahead.pop(0))

    _takes_ahead(output, iter, steps)


def takes_pairs(output):
    """A pass over two batches at once."""

    def steps(batches, step):
        for x, y in batches:
            other_x, other_y = next(batches)
            step((torch.cat([x, other_x]), torch.cat([y, other_y])))

    _takes_ahead(output, iter, steps)


def drops_its_last(output):
    """A prefetcher that forgets the batch that it has in hand as the loop ends."""

    def steps(batches, step):
        ahead = next(batches)
        for batch in batches:
            step(ahead)
            ahead = batch

    _takes_ahead(output, iter, steps)


def passes_over_one_in_hand(output):
    """One whose loss looks bad, say, where the next one is taken already."""

    def steps(batches, step):
        ahead = next(batches)
        for i, batch in enumerate(batches):
            if i != 1:
                step(ahead)
            ahead = batch
        step(ahead)

    _takes_ahead(output, iter, steps)


def takes_ahead_in_its_second_loop(output):
    """Of which the first one tells nothing."""
    loops = []

    def steps(batches, step):
        loops.append(1)
        if len(loops) == 1:
            for batch in batches:
                step(batch)
            return
        ahead = next(batches)
        for batch in batches:
            step(ahead)
            ahead = batch
        step(ahead)

    _takes_ahead(output, iter, steps)


def passes_over_batches(output):
    """The first of each epoch, for a reason of its own."""
    model = mlp()
    steps = iter(range(10**6))

    def step(model, opt, x, y):
        if next(steps) % 4:
            plain_step(model, opt, x, y)

    opt = torch.optim.SGD(model.parameters(), 0.05)
    loop(output, model, opt, DataLoader(data(), batch_size=300), step, epochs=2)


def bare_parameter(output):
    model, scale = mlp(), nn.Parameter(torch.ones(()))
    opt = torch.optim.SGD([*model.parameters(), scale], 0.05)
    step = lambda model, opt, x, y: (F.cross_entropy(scale * model(x), y).backward(), opt.step())
    loop(output, model, opt, full(data()), step)


def wraps_what_is_prepared(output):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    model, opt, loader = evenstep.prepare(model, opt, full(data()))
    nn.parallel.DistributedDataParallel(model)


def evaluates_with_gradients(output):
    """One epoch of training, then loops over the training data that only look."""
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    steps = []

    def step(model, opt, x, y):
        if not steps:
            plain_step(model, opt, x, y)
        steps.append(F.cross_entropy(model(x), y).item())

    loop(output, model, opt, full(data()), step, epochs=200)


def diverges(output):
    """Alone with its fault: the other ranks' samples are as they should be."""
    seen = []

    def step(model, opt, x, y):
        seen.append(1)
        plain_step(model, opt, x * math.nan if last_rank() and len(seen) == 3 else x, y)

    model = mlp()
    loop(output, model, torch.optim.SGD(model.parameters(), 0.05), full(data()), step)


def two_loaders(output):
    """As with other libraries, where the loader of the test data is prepared too."""
    model = mlp()
    evenstep.prepare(model, torch.optim.SGD(model.parameters(), 0.05), full(data()), full(data()))


def without_loader(output):
    model = mlp()
    evenstep.prepare(model, torch.optim.SGD(model.parameters(), 0.05))


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


def two_phases(output):
    """Three epochs of six steps with a frozen layer; then all layers, other data, another optimizer
    and a schedule. Dies as `crash` and `_goes_on` say."""
    kill, steps = int(os.environ.get("TEST_KILL", 0)), 0
    model = mlp()
    for phase in range(2):
        for p in model[0].parameters():
            p.requires_grad = phase == 1
        mine = [p for p in model.parameters() if p.requires_grad]
        opt = torch.optim.AdamW(mine, 1e-3) if phase else torch.optim.SGD(mine, 0.05, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
        x, y = data().tensors
        loader = DataLoader(TensorDataset(x + phase, y), batch_size=200)
        model, opt, loader, scheduler = evenstep.prepare(model, opt, loader, scheduler)
        for _ in evenstep.epochs(3):
            for x, y in loader:
                steps += 1
                crash(steps, opt)
                if steps == kill and last_rank():
                    os.kill(os.getppid(), signal.SIGKILL)
                    signal.pause()
                plain_step(model, opt, x, y)
            scheduler.step()
    leave(output, model, rate=opt.param_groups[0]["lr"], steps=steps)


def second_phase_with_less(output):
    model = mlp()
    for n in FULL, 600:
        loader = DataLoader(data(n), batch_size=200)
        opt = torch.optim.SGD(model.parameters(), 0.05)
        _, _, loader = evenstep.prepare(model, opt, loader)
        for _ in evenstep.epochs(1):
            for x, y in loader:
                plain_step(model, opt, x, y)


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
