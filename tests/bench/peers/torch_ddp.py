"""PyTorch's side of bench-unequal: DistributedDataParallel over gloo, every rank the same
minibatch, as its users start it.

    torch_ddp.py RANK RANKS PORT BATCH steps STEPS
        prints, on rank 0, the seconds from step 20 to the last one
    torch_ddp.py RANK RANKS PORT BATCH reach ACCURACY MNIST
        trains on MNIST (its folder) until an evaluation, every 50 steps and outside the clock,
        finds the accuracy; prints seconds and steps"""
import gzip
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

from torch_step import NETWORKS

EVERY, MOST = 50, 3000
rank, ranks, port, batch = map(int, sys.argv[1:5])


def make(learning_rate):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    net = nn.parallel.DistributedDataParallel(
        NETWORKS["lenet5"][0]().to(memory_format=torch.channels_last))
    return net, torch.optim.SGD(net.parameters(), lr=learning_rate, momentum=0.9, foreach=True)


def step(net, optimizer, x, y):
    optimizer.zero_grad(set_to_none=True)
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()


def seconds_of(steps):
    net, optimizer = make(0.001)
    x, y = torch.randn(batch, *NETWORKS["lenet5"][1]).to(
        memory_format=torch.channels_last), torch.randint(0, 10, (batch,))
    for i in range(steps):
        if i == 20:
            begin = time.perf_counter()
        step(net, optimizer, x, y)
    return time.perf_counter() - begin


def mnist(folder, part):
    def read(name, header):
        return torch.frombuffer(
            bytearray(gzip.open(pathlib.Path(folder) / f"{part}-{name}-ubyte.gz").read()[header:]),
            dtype=torch.uint8)
    return (read("images-idx3", 16).view(-1, 1, 28, 28).float() / 255).to(
        memory_format=torch.channels_last), read("labels-idx1", 8).long()


def accuracy(net, x, y):
    """Of the whole test set; every rank looks at its part."""
    right = torch.zeros(1)
    with torch.no_grad():
        for i in range(rank * 500, len(x), ranks * 500):
            right += (net.module(x[i:i + 500]).argmax(1) == y[i:i + 500]).sum()
    dist.all_reduce(right)
    return right.item() / len(x)


def reach(wanted, folder):
    net, optimizer = make(0.05)
    train, test = mnist(folder, "train"), mnist(folder, "t10k")
    seconds = 0
    for i in range(0, MOST, EVERY):
        dist.barrier()
        begin = time.perf_counter()
        for k in range(i, i + EVERY):
            epoch, at = divmod(k, len(train[0]) // (batch * ranks))
            if at == 0:
                order = torch.randperm(len(train[0]),
                                       generator=torch.Generator().manual_seed(epoch))
            mine = order[(at * ranks + rank) * batch:][:batch]
            step(net, optimizer, train[0][mine], train[1][mine])
        dist.barrier()
        seconds += time.perf_counter() - begin
        if accuracy(net, *test) >= wanted:
            return f"{seconds} {i + EVERY}"
    return f"nan {MOST}"


answer = seconds_of(int(sys.argv[6])) if sys.argv[5] == "steps" else reach(
    float(sys.argv[6]), sys.argv[7])
if rank == 0:
    print(answer, flush=True)
dist.destroy_process_group()
