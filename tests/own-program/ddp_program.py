"""A program as it is written for torchrun: nothing in it knows Evenstep.

    ddp_program.py OUTPUT EPOCHS BATCH [--reduce] [--spawned] [--sum] [--late]
"""

import os
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

SAMPLES = 240


def data():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(SAMPLES, 12, generator=generator)
    return TensorDataset(x, (x[:, :4].argmax(1) + (x[:, 4] > 0)) % 4)


def main(output, epochs, batch):
    if "--spawned" in sys.argv:
        dist.init_process_group("gloo", rank=7, world_size=8)
    dist.init_process_group("gloo")
    torch.manual_seed(100 + dist.get_rank())  # the first parameters are rank 0's
    model = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.ReLU(), torch.nn.Linear(20, 4))
    if dist.get_rank() == 0:
        torch.manual_seed(3)
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.3)
    model = DDP(model)
    how, rate = ("sum", 0.2 / batch) if "--sum" in sys.argv else ("mean", 0.2)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    train = data()
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=batch, sampler=sampler)
    test = DataLoader(train, batch_size=60, sampler=DistributedSampler(train, shuffle=False))
    seen = 0
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        model.train()
        for x, y in loader:
            seen += len(x)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y, reduction=how).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            tested = sum(len(x) for x, y in test)
        late = time.monotonic() + 9
        while "--late" in sys.argv and dist.get_rank() == 0 and time.monotonic() < late:
            model(train[0][0])  # it evaluates, and the others wait
        dist.barrier()
        print("epoch %d: %d samples, %d tested, %d steps" % (epoch, seen, tested, len(loader)))
    if "--reduce" in sys.argv:
        dist.all_reduce(torch.ones(1))
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    np.savez("%s-%d.npz" % (output, dist.get_rank()), **state)
    assert int(os.environ["LOCAL_RANK"]) < int(os.environ["LOCAL_WORLD_SIZE"])
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
