"""PyTorch's MNIST example, made distributed by two lines (marked).

    python3 mnist.py                                       alone
    evenstep submit JOB.json     on a cluster (docs/own-program-run.md has the job)
"""
import argparse
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

import samples
import evenstep  # 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = self.dropout1(F.max_pool2d(x, 2))
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(self.dropout2(x)), dim=1)


def load(part, limit, **loader_settings):
    x, y = samples.mnist(part)
    data = TensorDataset(torch.from_numpy(x[:limit]), torch.from_numpy(y[:limit]))
    return DataLoader(data, **loader_settings)


def test(model, loader):
    model.eval()
    loss = correct = 0
    with torch.no_grad():
        for x, y in loader:
            output = model(x)
            loss += F.nll_loss(output, y, reduction="sum").item()
            correct += (output.argmax(1) == y).sum().item()
    n = len(loader.dataset)
    print(f"test loss {loss / n:.4f}, accuracy {correct / n:.4f}", flush=True)
    return loss / n, correct / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    train_loader = load("train", args.samples, batch_size=args.batch_size, shuffle=True)
    test_loader = load("test", 10000, batch_size=1000)
    model = Net()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=args.lr)
    model, optimizer, train_loader = evenstep.prepare(model, optimizer, train_loader)  # 2
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    for epoch in evenstep.epochs(args.epochs):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = F.nll_loss(model(x), y)
            loss.backward()
            optimizer.step()
        scheduler.step()
        if evenstep.is_main():
            test_loss, accuracy = test(model, test_loader)
            evenstep.log(test_loss=test_loss, test_accuracy=accuracy)
    if evenstep.is_main():
        folder = os.environ.get("EVENSTEP_OUTPUT", ".")
        torch.save(model.state_dict(), os.path.join(folder, "mnist.pt"))


if __name__ == "__main__":
    main()
