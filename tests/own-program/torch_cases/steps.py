"""Cases of a step: optimizers, what stands between backward and step, modules."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import evenstep

from .parts import STEPS, data, full, images, leave, loop, mlp, plain_step


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


def _one_cycle(output, prepared):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.95)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(opt, 0.05, total_steps=5)
    more = [scheduler] if prepared else []
    model, opt, loader, *_ = evenstep.prepare(model, opt, full(data()), *more)
    for _ in evenstep.epochs(4):
        for x, y in loader:
            plain_step(model, opt, x, y)
            scheduler.step()
    leave(output, model)


def one_cycle(output):
    """It moves the momentum, too."""
    _one_cycle(output, True)


def one_cycle_of_its_own(output):
    """It stands in the optimizer's groups all the same."""
    _one_cycle(output, False)


def momentum_by_hand(output):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.95)
    model, opt, loader = evenstep.prepare(model, opt, full(data()))
    for epoch in evenstep.epochs(4):
        for x, y in loader:
            plain_step(model, opt, x, y)
            opt.param_groups[0]["momentum"] = 0.9 - 0.1 * epoch
    leave(output, model)


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


def unfrozen_within_a_step(output):
    """When the batch is there, as a loop over batches that counts them does."""
    count = 0

    def step(model, opt, x, y):
        nonlocal count
        count += 1
        if count == 20:
            model[0].requires_grad_(True)
            opt.add_param_group({"params": model[0].parameters(), "lr": 0.02})
        plain_step(model, opt, x, y)

    model = mlp()
    model[0].requires_grad_(False)
    opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.05, momentum=0.9)
    loop(output, model, opt, full(data()), step)


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


def paced_schedules(output):
    """Schedules by batches under a server, of a fast node and of a slow one: two epochs of 64
    samples, in global batches of 32. Prints where each schedule is after every call."""
    from types import SimpleNamespace

    from evenstep.torch.restart import schedules

    param = nn.Parameter(torch.zeros(1))
    passes = SimpleNamespace(slice=None, batches=0, spare=SimpleNamespace(at_hand=False))
    passes.blocks = SimpleNamespace(by_id={id(param): 0})
    passes.run = SimpleNamespace(workers=2, global_batch=32)
    passes.place = SimpleNamespace(passed=lambda: 0)
    habits = SimpleNamespace(note=lambda scheduler, count: 0)  # no state is older than the run
    schedules.watch(passes, habits, None, 2)

    def told(starts, every=1, count=16, made=None):
        opt = torch.optim.SGD([param], 0.1)
        make = made or (lambda: torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=4))
        schedule, at = make() if made is None else made(opt), []
        for n, (epoch, start) in enumerate(starts):
            passes.slice = SimpleNamespace(epoch=epoch, start=start, count=count, step_count=0)
            passes.batches += 1
            if (n + 1) % every == 0:
                opt.step()
                schedule.step()
                at.append(schedule.last_epoch)
        passes.slice = None
        return at, schedule

    fast = [(epoch, start) for epoch in (0, 1) for start in (0, 16, 32, 48)]
    print("fast", told(fast)[0])
    print("slow", told([(0, 48), (1, 48)])[0])
    print("every second", told(fast, every=2)[0])
    warm = lambda opt: torch.optim.lr_scheduler.SequentialLR(opt, [
        torch.optim.lr_scheduler.LinearLR(opt, 0.1, total_iters=2),
        torch.optim.lr_scheduler.CosineAnnealingLR(opt, 2)], [2])
    at, schedule = told(fast, made=warm)
    print("one after the other", at)
    schedule.step()
    print("after the loop", schedule.last_epoch)
    opt, at = torch.optim.SGD([param], 0.1), []
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 4)
    for epoch in 0, 1:
        for i in range(4):
            passes.slice = SimpleNamespace(epoch=epoch, start=16 * i, count=16, step_count=0)
            passes.batches += 1
            schedule.step(epoch + (i + epoch) / 2)
            at.append(schedule.T_cur)
    print("by fractions", at)
