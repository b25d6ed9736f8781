"""PyTorch's side of bench-gpu: a whole training step on a GPU, as its users write it when they
care.

    torch_gpu.py MODEL PRECISION MODE
        PRECISION: fp32 (TF32 off), tf32, bf16 (autocast)
        MODE: eager, reduce-overhead, max-autotune

Reads "BATCH STEPS" and prints the seconds that so many steps took, by CUDA events. The first line
of a batch warms it up without being told. Channels last, fused SGD, minibatches that are in the
GPU's memory already."""
import sys

import torch
from torch import nn

from torch_step import NETWORKS, Block


def resnet18():
    blocks, inputs = [], 64
    for filters in (64, 128, 256, 512):
        for i in range(2):
            blocks.append(Block(inputs, filters, 2 if i == 0 and filters > 64 else 1))
            inputs = filters
    return nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
                         *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def main():
    model, precision, mode = sys.argv[1:4]
    make, shape = {**NETWORKS, "resnet18": (resnet18, (3, 32, 32))}[model]
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = True
    net = make().cuda().to(memory_format=torch.channels_last).train()
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4,
                                fused=True)

    def forward(x, y):
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            return loss_of(net(x), y)

    if mode != "eager":
        forward = torch.compile(forward, mode=mode)

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        forward(x, y).backward()
        optimizer.step()

    data = {}
    for line in sys.stdin:
        batch, steps = map(int, line.split())
        if batch not in data:
            data[batch] = torch.randn(batch, *shape, device="cuda").to(
                memory_format=torch.channels_last), torch.randint(0, 10, (batch,), device="cuda")
            for _ in range(20):
                step(*data[batch])
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(steps):
            step(*data[batch])
        end.record()
        torch.cuda.synchronize()
        print(begin.elapsed_time(end) / 1e3, flush=True)


main()
