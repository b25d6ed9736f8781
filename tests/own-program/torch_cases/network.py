"""The network of a job of ours as a PyTorch program: ../../program/network.py and network.c."""

import os
import pathlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


def train(output):
    folder = pathlib.Path(os.environ["TEST_DATA"])
    x, y = (torch.from_numpy(np.load(folder / name)) for name in ("x.npy", "y.npy"))
    first = np.load(folder / "first.npz")
    model = Network()
    model.load_state_dict({name: torch.from_numpy(first[name]) for name in first.files})
    opt = torch.optim.SGD(model.parameters(), 0.1, momentum=float(os.environ["TEST_MOMENTUM"]))
    loader = DataLoader(TensorDataset(x, y), 64, shuffle=os.environ["TEST_IN_ORDER"] == "0")
    model, opt, loader = evenstep.prepare(model, opt, loader)
    for _ in evenstep.epochs(2):
        for a, b in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(model(a), b).backward()
            opt.step()
