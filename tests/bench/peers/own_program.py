"""The program of bench-own-program, as its user writes it, three ways.

    own_program.py alone|evenstep|ddp NETWORK BATCH STEPS OUTPUT [SLOWDOWN]

BATCH is of all ranks together. OUTPUT-RANK.json gets the time (monotonic, seconds) and the samples
of every step, and in `evenstep` the memory of the rank that started the program. `ddp` reads RANK,
WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets them. Its SLOWDOWN is emulated as a rank
emulates ours: the pass lasts so many times its CPU time (of a sample, learned from the passes
before), and sleeps before its backward pass, so that the all-reduce overlaps as it does at full
speed.
"""
import json
import os
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, 10))


def tiny():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 96), nn.ReLU(), nn.Linear(96, 10))


class Pictures(Dataset):
    """Drawn numbers; a batch is one look-up, so that what is timed is the training."""

    def __init__(self, samples):
        self.samples = samples
        self.x, self.y = torch.randn(4096, 1, 28, 28), torch.randint(0, 10, (4096,))

    def __len__(self):
        return self.samples

    def __getitems__(self, indices):
        at = torch.tensor(indices) % len(self.x)
        return self.x[at], self.y[at]


class Slow:
    """Emulates a node that is slower by this factor."""

    def __init__(self, factor):
        self.factor, self.each, self.backward_each = factor, 0.0, 0.0
        self.began, self.cpu = time.perf_counter(), time.thread_time()

    def before_backward(self, samples):
        self.forward_cpu = time.thread_time()
        left = self.factor * self.each * samples - self.backward_each * samples
        left -= time.perf_counter() - self.began
        if self.factor > 1 and left > 0:
            time.sleep(left)
        self.backward_cpu = time.thread_time()

    def after_backward(self, samples):
        now = time.thread_time()
        backward = (now - self.backward_cpu) / samples
        each = (self.forward_cpu - self.cpu) / samples + backward
        known = self.each > 0
        self.each += (each - self.each) * (0.1 if known and each > self.each else 1)
        self.backward_each = backward
        self.began, self.cpu = time.perf_counter(), now


def memory_of(pid):
    """Bytes: (proportional share, resident), both without the block that it shares with us."""
    pss = rss = 0
    block = False
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as f:
        for line in f:
            word = line.split()
            if not word[0].endswith(":"):
                block = "memfd:" in line
            elif not block and word[0] in ("Pss:", "Rss:"):
                pss += int(word[1]) * 1024 * (word[0] == "Pss:")
                rss += int(word[1]) * 1024 * (word[0] == "Rss:")
    return pss, rss


def main():
    how, network, batch, steps, output = sys.argv[1:6]
    batch, steps = int(batch), int(steps)
    slow = Slow(float(sys.argv[6]) if len(sys.argv) > 6 else 1)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    data, rank = Pictures(batch * steps), 0
    model = {"lenet": lenet, "tiny": tiny}[network]()
    if how == "ddp":
        torch.distributed.init_process_group("gloo")
        rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
        model = nn.parallel.DistributedDataParallel(model)
        loader = DataLoader(data, batch // ranks, sampler=DistributedSampler(data),
                            collate_fn=lambda both: both)
    else:
        loader = DataLoader(data, batch, shuffle=True, collate_fn=lambda both: both)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    if how == "evenstep":
        import evenstep

        model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
        rank = evenstep.rank()
    told = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        slow.before_backward(len(y))
        loss.backward()
        slow.after_backward(len(y))
        optimizer.step()
        told.append((time.monotonic(), len(y)))
    memory = memory_of(os.getppid()) if how == "evenstep" else None
    with open(f"{output}-{rank}.json", "w", encoding="utf-8") as f:
        json.dump({"steps": told, "memory": memory}, f)
    if how == "ddp":
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
