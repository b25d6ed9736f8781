"""A PyTorch program whose worker is killed, once: what it ends with is left for the test.

    torch_returns.py OPTIMIZER RANK STEP GATE HOLD [WHERE]

Steps wait for HOLD, a file, 0.3 s at most; or the next rank's program waits for it, in the first
epoch's last "step" or in its "evaluation", and the steps do not.
"""
import os
import signal
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

KIND, RANK, STEP, GATE, HOLD = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:6]
WHERE = sys.argv[6] if len(sys.argv) > 6 else ""
EPOCH = 20  # steps
OPTIMIZERS = {"momentum": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
              "adam": lambda p: torch.optim.Adam(p, 0.005)}
FIRST = os.environ.get("EVENSTEP_INCARNATION") == "0"


def die(step):
    if evenstep.rank() == RANK and step == STEP and FIRST:
        while not os.path.exists(GATE):
            time.sleep(0.01)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(1000)


def linger(step):
    until = time.monotonic() + (0 if WHERE else 0.3)
    while step > STEP and not os.path.exists(HOLD) and time.monotonic() < until:
        time.sleep(0.01)


def wait(where, step):
    if where == WHERE and evenstep.rank() == (RANK + 1) % 4 and step == EPOCH:
        while not os.path.exists(HOLD):
            time.sleep(0.01)


def tensors(opt):
    return {f"{i}.{name}": value for i, state in opt.state_dict()["state"].items()
            for name, value in state.items() if torch.is_tensor(value)}


def main():
    torch.manual_seed(3)
    x = torch.randn(1280, 20)
    data = TensorDataset(x, (x[:, :10].sum(1) > 0).long())
    model = nn.Sequential(nn.Linear(20, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1),
                          nn.Linear(32, 2))
    opt = OPTIMIZERS[KIND](model.parameters())
    plan = torch.optim.lr_scheduler.StepLR(opt, 1, 0.8)
    loader = DataLoader(data, 64, shuffle=True)
    model, opt, plan, loader = evenstep.prepare(model, opt, plan, loader)
    step = 0 if FIRST else STEP + 1
    for _ in evenstep.epochs(4):
        for inputs, labels in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            die(step)
            wait("step", step + 1)
            loss.backward()
            opt.step()
            linger(step)
            step += 1
        plan.step()
        wait("evaluation", step)
        evenstep.log(test_loss=float(loss))
    ended = {**model.state_dict(), **tensors(opt), "rate": torch.tensor(opt.param_groups[0]["lr"])}
    np.savez(os.path.join(os.environ["EVENSTEP_OUTPUT"], f"rank-{evenstep.rank()}.npz"),
             **{name: value.numpy() for name, value in ended.items()})


main()
