"""A ResNet of 20 layers on CIFAR-10 (He et al. 2016), made distributed by two lines (marked).

    python3 cifar_resnet.py                                    alone
    evenstep submit JOB.json     on a cluster (docs/own-program-run.md has the job)
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

import samples
import evenstep  # 1


class Cifar(Dataset):
    """CIFAR-10; training pictures are shifted by up to 4 pixels and mirrored."""

    def __init__(self, part, limit=None):
        x, y = samples.cifar10(part)
        self.x, self.y = torch.from_numpy(x[:limit]), torch.from_numpy(y[:limit])
        self.augment = part == "train"

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = self.x[i]
        if self.augment:
            top, left = torch.randint(0, 9, (2,)).tolist()
            x = F.pad(x, (4, 4, 4, 4))[:, top:top + 32, left:left + 32]
            x = x.flip(2) if torch.rand(()) < 0.5 else x
        return x, self.y[i]


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                          nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


def resnet20():
    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    inputs = 16
    for outputs, stride in ((16, 1), (32, 2), (64, 2)):
        for i in range(3):
            layers.append(Block(inputs, outputs, stride if i == 0 else 1))
            inputs = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(*layers)


def accuracy_of(model, loader):
    model.eval()
    with torch.no_grad():
        return sum((model(x).argmax(1) == y).sum().item() for x, y in loader) / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=160)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--samples", type=int, default=50000)
    parser.add_argument("--test-samples", type=int, default=10000)
    parser.add_argument("--loader-workers", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(1)

    loader = DataLoader(Cifar("train", args.samples), batch_size=args.batch_size, shuffle=True,
                        num_workers=args.loader_workers)
    test_loader = DataLoader(Cifar("test", args.test_samples), batch_size=500)
    model = resnet20()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    model, optimizer, loader = evenstep.prepare(model, optimizer, loader)  # 2
    scheduler = torch.optim.lr_scheduler.MultiStepLR(
        optimizer, [args.epochs // 2, args.epochs * 3 // 4])
    for epoch in evenstep.epochs(args.epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        scheduler.step()
        if evenstep.is_main():
            evenstep.log(test_accuracy=accuracy_of(model, test_loader))


if __name__ == "__main__":
    main()
