"""Accumulation by four in an epoch of seven batches: loops that count it, each in its own way."""
import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
X = torch.randn(112, 8)
Y = X[:, :2].sum(1, keepdim=True)
train_loader = DataLoader(TensorDataset(X, Y), batch_size=16)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model, optimizer, train_loader = evenstep.prepare(model, optimizer, train_loader)
accum = 4
epochs = 3
loss_fn = nn.MSELoss()
num_batches = len(train_loader)
way = os.environ.get("TEST_COUNT", "length")


def step():
    optimizer.step()
    optimizer.zero_grad()


if way == "last":  # the length is asked for in each batch
    for epoch in range(epochs):
        for i, (x, y) in enumerate(train_loader):
            (loss_fn(model(x), y) / accum).backward()
            if (i + 1) % accum == 0 or i + 1 == len(train_loader):
                step()
elif way == "length":
    for epoch in range(epochs):
        for i, (x, y) in enumerate(train_loader):
            (loss_fn(model(x), y) / accum).backward()
            if (i + 1) % accum == 0 or (i + 1) == num_batches:
                step()
elif way == "start":
    for epoch in range(epochs):
        for i, (x, y) in enumerate(train_loader, start=1):
            (loss_fn(model(x), y) / accum).backward()
            if i % accum == 0 or i == num_batches:
                step()
elif way == "range":
    for epoch in range(epochs):
        it = iter(train_loader)
        for i in range(len(train_loader)):
            x, y = next(it)
            (loss_fn(model(x), y) / accum).backward()
            if (i + 1) % accum == 0 or i + 1 == len(train_loader):
                step()
elif way == "range length":
    for epoch in range(epochs):
        it = iter(train_loader)
        for i in range(num_batches):
            x, y = next(it)
            (loss_fn(model(x), y) / accum).backward()
            if (i + 1) % accum == 0 or i + 1 == num_batches:
                step()
elif way == "over epochs":
    count = 0
    for epoch in range(epochs):
        for x, y in train_loader:
            (loss_fn(model(x), y) / accum).backward()
            count += 1
            if count % accum == 0:
                step()
elif way == "own":
    count = 0
    for epoch in range(epochs):
        for x, y in train_loader:
            (loss_fn(model(x), y) / accum).backward()
            count += 1
            if count == accum:
                step()
                count = 0
elif way == "rest":
    optimizer.zero_grad()
    for epoch in range(epochs):
        for i, (x, y) in enumerate(train_loader):
            (loss_fn(model(x), y) / accum).backward()
            if (i + 1) % accum == 0:
                step()
elif way == "drop":
    for epoch in range(epochs):
        optimizer.zero_grad()
        for i, (x, y) in enumerate(train_loader):
            (loss_fn(model(x), y) / accum).backward()
            if (i + 1) % accum == 0:
                step()
elif way == "by epoch":  # a number over all epochs, from the epoch's
    for epoch in range(epochs):
        for i, (x, y) in enumerate(train_loader):
            n = epoch * num_batches + i + 1
            (loss_fn(model(x), y) / accum).backward()
            if n % accum == 0:
                step()
elif way == "ends":
    for epoch in range(epochs):
        it = iter(train_loader)
        i = 0
        while True:
            try:
                x, y = next(it)
            except StopIteration:
                break
            i += 1
            (loss_fn(model(x), y) / accum).backward()
            if i % accum == 0 or i == num_batches:
                step()
