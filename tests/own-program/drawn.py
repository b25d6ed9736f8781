"""Programs that nobody wrote: training loops drawn from a seed, of the parts that people put
together. What a part does alone the strangers show; here parts meet that no one has thought of.

    python3 drawn.py 17        # prints the program of a seed
"""

import random
import sys

# what a sample is, and the network
NETWORKS = {
    "layers": ("torch.randn(N, 12)",
               "nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.LayerNorm(24), nn.Linear(24, 5))"),
    "shared": ("torch.randn(N, 12)", "nn.Sequential(Twice(12), nn.Linear(12, 5))"),
    "pictures": ("torch.randn(N, 1, 8, 8)",
                 "nn.Sequential(nn.Conv2d(1, 4, 3), nn.SiLU(), nn.AvgPool2d(2), nn.Flatten(), "
                 "nn.Linear(36, 5))"),
    "recurrent": ("torch.randn(N, 6, 8)",
                  "nn.Sequential(nn.GRU(8, 10, batch_first=True), Last(), nn.Linear(10, 5))"),
    "attention": ("torch.randn(N, 6, 8)",
                  "nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, "
                  "batch_first=True), Mean(), nn.Linear(8, 5))"),
    "words": ("torch.randint(0, 40, (N, 7))",
              "nn.Sequential(nn.Embedding(40, 8, padding_idx=0), Mean(), nn.Linear(8, 5))"),
}

EACH = "F.cross_entropy(out, y, reduction='none')"
LOSSES = {
    "mean": "F.cross_entropy(out, y)",
    "smoothed": "F.cross_entropy(out, y, label_smoothing=0.1)",
    "of classes": "F.cross_entropy(out, y, weight=torch.arange(1.0, 6.0).to(out.dtype))",
    "ignored": "F.cross_entropy(out, torch.where(m > 0, y, -100))",
    "squares": "((out - F.one_hot(y, 5).to(out.dtype)) ** 2).mean()",
    "binary": "F.binary_cross_entropy_with_logits(out, F.one_hot(y, 5).to(out.dtype))",
    "each": f"{EACH}.mean()",
    "focal": f"((1 - torch.exp(-{EACH})) ** 2 * {EACH}).mean()",
    "masked": f"({EACH} * m).sum() / m.sum()",
    "divided": "F.cross_entropy(out, y, reduction='sum') / len(y)",
    "penalty": "F.cross_entropy(out, y) + 0.01 * sum((p * p).sum() for p in model.parameters())",
    "sum": "F.cross_entropy(out, y, reduction='sum') * 0.03",
}

# the class, the rate, and what else it is made with; eps keeps small differences of gradients small
OPTIMIZERS = [
    ("SGD", 0.1, ""),
    ("SGD", 0.05, "momentum=0.9"),
    ("SGD", 0.05, "momentum=0.9, nesterov=True"),
    ("Adam", 0.01, "eps=1e-3"),
    ("AdamW", 0.01, "eps=1e-3, weight_decay=0.05"),
    ("RMSprop", 0.003, "eps=1e-2"),
    ("Adagrad", 0.05, "eps=1e-2"),
    ("NAdam", 0.005, "eps=1e-3"),
    ("RAdam", 0.01, "eps=1e-2"),
    ("Adamax", 0.01, "eps=1e-2"),
    ("Adadelta", 1.0, "eps=1e-3"),
    ("ASGD", 0.05, "t0=3"),
    ("Adam", 0.01, "eps=1e-3, amsgrad=True, foreach=True"),
    ("AdamW", 0.01, "eps=1e-3, fused=True"),
]
GROUPS = [
    "model.parameters()",
    "[{'params': list(model.parameters())[:1], 'lr': 0.01},"
    " {'params': list(model.parameters())[1:]}]",
    "[{'params': [p for p in model.parameters() if p.dim() > 1], 'weight_decay': 0.01},"
    " {'params': [p for p in model.parameters() if p.dim() < 2], 'weight_decay': 0.0}]",
]

# how it is made, and whether it steps behind an optimizer's step or behind an epoch
SCHEDULES = {
    "cosine": ("CosineAnnealingLR(optimizer, T_max=12)", "step"),
    "cycle": ("OneCycleLR(optimizer, RATE, total_steps=40, cycle_momentum=False)", "step"),
    "warm": ("LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 6))", "step"),
    "both": ("SequentialLR(optimizer, [lr_scheduler.LinearLR(optimizer, 0.2, total_iters=4), "
             "lr_scheduler.ExponentialLR(optimizer, 0.9)], milestones=[4])", "step"),
    "stairs": ("StepLR(optimizer, 1, gamma=0.5)", "epoch"),
    "epochs": ("CosineAnnealingLR(optimizer, T_max=3)", "epoch"),
    "plateau": ("ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.05)", "figure"),
}

HEAD = """\
import contextlib

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, Dataset, TensorDataset

import evenstep

torch.manual_seed(%d)
N = %d


class Twice(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.inner = nn.Linear(n, n)

    def forward(self, x):
        return torch.tanh(self.inner(torch.tanh(self.inner(x))))


class Last(nn.Module):
    def forward(self, both):
        return both[0][:, -1]


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(1)


class Rows(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, i):
        return {"x": X[i], "y": Y[i], "m": M[i]}


Y = torch.randint(0, 5, (N,))
M = (torch.arange(N) %% 4 < 3).float()
"""

TAIL = """

def loss_of(x, y, m):
    %s
    return %s


def figure():
    model.eval()
    with torch.no_grad():
        found = loss_of(X[:32], Y[:32], M[:32]).item()
    model.train()
    return found


"""


class Drawn:
    """The program of a seed. text; batch: what its nodes take together; samples: of an epoch;
    coarse: it computes in 16 bits."""

    def __init__(self, seed):
        draw = self.draw = random.Random(f"{seed} program")
        self.batch, self.coarse = draw.choice([16, 24, 32]), draw.random() < 0.08
        network = draw.choice(list(NETWORKS))
        self.wide = not self.coarse and network != "words" and draw.random() < 0.15
        self.loss, self.schedule = draw.choice(list(LOSSES)), draw.choice([None, None, *SCHEDULES])
        self.each = draw.choice([1, 1, 1, 2, 2, 3])  # batches of an optimizer's step
        self.by_steps = draw.random() < 0.15  # a loop over steps, and not over epochs
        self.two = draw.random() < 0.2  # the head has an optimizer of its own
        rows = self.loss in ("mean", "smoothed", "squares", "binary", "each", "focal", "divided")
        # a node of one sample has no two parts
        self.how = draw.choice([None] * 6 + ["parts", "two"]) if rows else None
        if self.by_steps and self.schedule and SCHEDULES[self.schedule][1] != "step":
            self.schedule = None
        self.samples = draw.choice([72, 88, 96, 100, 104])
        self.text = "".join([HEAD % (seed, self.samples),
                             self.made(*NETWORKS[network]), TAIL % self.computed(),
                             "\n".join(self.loop()), "\n"])

    def made(self, samples, network):
        """Samples, network, optimizer, schedule; and prepare()."""
        draw = self.draw
        kind, rate, more = draw.choice(OPTIMIZERS)
        self.data = draw.choice(["TensorDataset(X, Y, M)", "Rows()", "list(zip(X, Y, M))"])
        given = "model, optimizer, loader"
        lines = [
            f"X = {samples}",
            f"loader = DataLoader({self.data}, batch_size={self.batch},"
            f" drop_last={draw.random() < 0.25 or self.how == 'parts'})",
            f"model = {network}{'.double()' if self.wide else ''}",
            f"optimizer = torch.optim.{kind}({draw.choice(GROUPS)}, lr={rate}, {more})",
        ]
        if self.two:
            lines[-1] = (f"optimizer = torch.optim.{kind}(model[:-1].parameters(), lr={rate}, "
                         f"{more})")
            lines.append("other = torch.optim.SGD(model[-1].parameters(), lr=0.05, momentum=0.9)")
            given = "model, optimizer, other, loader"
        if self.schedule:
            how = SCHEDULES[self.schedule][0].replace("RATE", str(rate))
            lines.append(f"schedule = lr_scheduler.{how}")
            given += draw.choice(["", ", schedule"])
        lines.append(f"{given} = evenstep.prepare({given}"
                     + (", reduction='sum')" if self.loss == "sum" else ")"))
        return "\n".join(lines) + "\n"

    def computed(self):
        """The network's output, and the loss."""
        out = "out = model(x.double())" if self.wide else "out = model(x)"
        if self.coarse:
            out = ("with torch.autocast('cpu', dtype=torch.bfloat16):\n"
                   "        out = model(x)\n    out = out.float()")
        return out, LOSSES[self.loss]

    def loop(self):
        draw = self.draw
        rest = draw.choice(["used", "dropped", "kept"])  # batches behind an epoch's last whole step
        if self.by_steps:
            yield from self.over_steps()
            rest = "kept"
        else:
            yield f"for epoch in {draw.choice(['range(3)', 'range(3)', 'evenstep.epochs(3)'])}:"
            if draw.random() < 0.15:
                yield "    next(model.parameters()).requires_grad_(epoch != 1)"
            if self.each > 1 and rest == "dropped":
                yield from self.cleared("    ")
            yield "    for i, batch in enumerate(loader):"
        yield f"        x, y, m = {'batch.values()' if self.data == 'Rows()' else 'batch'}"
        yield from self.passes(rest == "used")
        yield from self.steps()
        when = self.schedule and SCHEDULES[self.schedule][1]
        if not self.by_steps:
            yield {"epoch": "    schedule.step()", "figure": "    schedule.step(figure())"}.get(
                when, draw.choice(["", "    evenstep.log(test_loss=figure())"]))

    def over_steps(self):
        """As language models are trained; it may end within an epoch."""
        steps = self.draw.choice([8, 9, 10]) // self.each * self.each
        yield from (
            "batches = iter(loader)",
            f"for i in range({steps}):",
            "    try:",
            "        batch = next(batches)",
            "    except StopIteration:",
            "        batches = iter(loader)",
            "        batch = next(batches)",
            "    if True:",
        )

    def cleared(self, indent, how=""):
        yield f"{indent}optimizer.zero_grad({how})"
        if self.two:
            yield f"{indent}other.zero_grad({how})"

    def passes(self, rest_is_used):
        if self.each == 1:
            yield from self.draw.choice([
                list(self.cleared(" " * 8)), [],
                list(self.cleared(" " * 8, "set_to_none=False"))])
            yield from self.backward(" " * 8, "")
            yield "        last = True"
            return
        last = f"(i + 1) % {self.each} == 0" + " or i + 1 == len(loader)" * rest_is_used
        yield f"        last = {last}"
        if self.draw.random() < 0.4:
            yield "        with contextlib.nullcontext() if last else evenstep.no_sync():"
            yield from self.backward(" " * 12, f" / {self.each}")
        else:
            yield from self.backward(" " * 8, f" / {self.each}")

    def backward(self, indent, divided):
        """One pass over a batch; or one over each half of it, or one of each of two losses."""
        if self.how == "parts":
            yield f"{indent}for a, b, c in zip(x.chunk(2), y.chunk(2), m.chunk(2)):"
            yield f"{indent}    (loss_of(a, b, c) * (len(a) / len(x)){divided}).backward()"
        elif self.how == "two" and not self.wide and not self.coarse:
            yield f"{indent}more = 0.1 * model(x).square().mean()"
            yield f"{indent}(loss_of(x, y, m){divided}).backward()"
            yield f"{indent}(more{divided}).backward()"
        else:
            yield f"{indent}(loss_of(x, y, m){divided}).backward()"

    def steps(self):
        yield "        if last:"
        yield from self.draw.choice([
            [], [], ["            nn.utils.clip_grad_norm_(model.parameters(), 0.5)"],
            ["            nn.utils.clip_grad_value_(model.parameters(), 0.02)"]])
        yield "            optimizer.step()"
        if self.two:
            yield "            other.step()"
        yield from self.cleared(" " * 12)
        if self.draw.random() < 0.15:
            yield "            with torch.no_grad():"
            yield "                for p in model.parameters():"
            yield f"                    p.{self.draw.choice(['mul_(0.995)', 'clamp_(-0.4, 0.4)'])}"
        if self.schedule and SCHEDULES[self.schedule][1] == "step":
            yield "            schedule.step()"


if __name__ == "__main__":
    print(Drawn(int(sys.argv[1])).text)
