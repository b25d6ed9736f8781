"""PyTorch's side of bench-cpu: a whole training step of a network, as its users write it. A process
that answers lines.

    torch_step.py MODEL THREADS LAYOUT MODE
        LAYOUT: nchw or nhwc (channels last); MODE: eager or compiled

Reads "BATCH STEPS", trains so many steps and prints the seconds they took; "memory" prints the most
that the process has held, in bytes. The first line of a batch warms it up without being told."""
import resource
import sys
import time

import torch
from torch import nn


def lenet5():
    return nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, 10))


class Block(nn.Module):
    def __init__(self, inputs, filters, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, filters, 3, stride, 1, bias=False), nn.BatchNorm2d(
            filters)
        self.conv2, self.bn2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False), nn.BatchNorm2d(
            filters)
        self.shortcut = nn.Identity() if stride == 1 else nn.Sequential(
            nn.Conv2d(inputs, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def resnet20():
    blocks, inputs = [], 16
    for filters in (16, 32, 64):
        for i in range(3):
            blocks.append(Block(inputs, filters, 2 if i == 0 and filters > 16 else 1))
            inputs = filters
    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                         *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


NETWORKS = {"lenet5": (lenet5, (1, 28, 28)), "resnet20": (resnet20, (3, 32, 32))}


def main():
    make, shape = NETWORKS[sys.argv[1]]
    torch.set_num_threads(int(sys.argv[2]))
    torch.manual_seed(1)
    layout = torch.channels_last if sys.argv[3] == "nhwc" else torch.contiguous_format
    net = make().to(memory_format=layout).train()
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4,
                                foreach=True)

    def forward(x, y):
        return loss_of(net(x), y)

    if sys.argv[4] == "compiled":
        forward = torch.compile(forward, mode="max-autotune-no-cudagraphs")

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        forward(x, y).backward()
        optimizer.step()

    data = {}
    for line in sys.stdin:
        if line.strip() == "memory":
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, flush=True)
            continue
        batch, steps = map(int, line.split())
        if batch not in data:
            data[batch] = torch.randn(batch, *shape).to(memory_format=layout), torch.randint(
                0, 10, (batch,))
            for _ in range(5):
                step(*data[batch])
        begin = time.perf_counter()
        for _ in range(steps):
            step(*data[batch])
        print(time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    main()
