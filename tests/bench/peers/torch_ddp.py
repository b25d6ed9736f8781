"""PyTorch's side of bench-unequal: DistributedDataParallel over gloo, every rank the same minibatch, as its users start it.

    torch_ddp.py RANK RANKS PORT BATCH STEPS         prints, on rank 0, the seconds from step 20 to the last one"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

from torch_step import NETWORKS

rank, ranks, port, batch, steps = map(int, sys.argv[1:])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
torch.set_num_threads(1)
torch.manual_seed(1)
dist.init_process_group("gloo", rank=rank, world_size=ranks)
make, shape = NETWORKS["lenet5"]
net = nn.parallel.DistributedDataParallel(make().to(memory_format=torch.channels_last))
optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9, foreach=True)
x, y = torch.randn(batch, *shape).to(memory_format=torch.channels_last), torch.randint(0, 10, (batch,))
for i in range(steps):
    if i == 20:
        begin = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
if rank == 0:
    print(time.perf_counter() - begin, flush=True)
dist.destroy_process_group()
