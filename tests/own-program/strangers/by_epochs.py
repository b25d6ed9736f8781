"""A schedule that steps after each epoch, or with TEST_LOOP=batches after each batch, or =plateau
by a figure, or =plateau range, =plateaus: by two; =range: the loop knows nothing of restarts."""
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

LOOP = os.environ.get("TEST_LOOP", "epochs")
EXIT = int(os.environ.get("TEST_EXIT", -1))  # the second node's process ends behind this epoch
PAUSE = float(os.environ.get("TEST_PAUSE", 0))  # seconds of a step
torch.manual_seed(0)
x = torch.randn(96, 10)
y = (x[:, :4].sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16)
net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
by_batch, by_figure = LOOP == "batches", LOOP.startswith("plateau")
FIGURES = [1.0, 0.9, 1.2, 0.8, 0.85, 0.9]
plans = []
if by_figure:
    plan = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=0, cooldown=1)
    if LOOP == "plateaus":
        plans = [torch.optim.lr_scheduler.ReduceLROnPlateau(opt)]
elif by_batch:
    plan = torch.optim.lr_scheduler.OneCycleLR(opt, 0.02, total_steps=6 * len(loader))
else:
    plan = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)
net, opt, loader, plan, *plans = evenstep.prepare(net, opt, loader, plan, *plans)
for epoch in range(6) if "range" in LOOP else evenstep.epochs(6):
    rates = []  # of the epoch's batches
    for inputs, labels in loader:
        opt.zero_grad()
        nn.functional.cross_entropy(net(inputs), labels).backward()
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        time.sleep(PAUSE)
        if by_batch:
            plan.step()
    if not by_batch:
        plan.step(*([FIGURES[epoch]] if by_figure else []))
    if epoch == EXIT and evenstep.rank() and os.environ["EVENSTEP_INCARNATION"] == "0":
        os._exit(3)
kept = {"rates": torch.tensor(rates).numpy(), "rate": torch.tensor(plan.get_last_lr()).numpy()}
