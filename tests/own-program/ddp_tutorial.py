"""The shape of PyTorch's own tutorial on DistributedDataParallel, with what programs exchange
beside gradients (ddp_calls.py): nothing in it knows Evenstep.

    ddp_tutorial.py OUTPUT EPOCHS [--mismatch | --types | --fewer | --groups | --send | --mesh |
                                   --root | --own-part | --alike]
"""

import datetime
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from ddp_calls import calls

SAMPLES = 120
FEWER = "--fewer" in sys.argv


class Trainer:
    def __init__(self, model, train, optimizer, epochs):
        self.rank = int(os.environ["RANK"])
        self.model, self.train_data, self.optimizer = DDP(model), train, optimizer
        self.epochs, self.losses = epochs, []

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(source), targets)
        loss.backward()
        self.optimizer.step()
        return loss.detach() * len(source)

    def _run_epoch(self, epoch):
        if isinstance(self.train_data.sampler, DistributedSampler):
            self.train_data.sampler.set_epoch(epoch)
        total = torch.zeros(2)
        for source, targets in self.train_data:
            total[0] += self._run_batch(source, targets)
            total[1] += len(source)
        dist.all_reduce(total)  # the loss of the whole data set, on every rank
        self.losses.append((total[0] / total[1]).item())

    def train(self):
        for epoch in range(self.epochs):
            self._run_epoch(epoch)
            if self.rank == 0:
                print("epoch %d: loss %.6f" % (epoch, self.losses[-1]))
            dist.barrier()


class Alike(DistributedSampler):
    def __iter__(self):
        return iter(range(self.num_samples))


def sampler_of(data):
    if "--own-part" in sys.argv:
        return None
    return Alike(data) if "--alike" in sys.argv else DistributedSampler(data)


def main(output, epochs):
    init_process_group("gloo", timeout=datetime.timedelta(seconds=3 if FEWER else 120))
    rank, size = dist.get_rank(), dist.get_world_size()
    if "--mismatch" in sys.argv and rank == 1:
        dist.barrier()
    if "--groups" in sys.argv:
        dist.new_group([0])
    if "--send" in sys.argv:
        dist.send(torch.ones(1), 1 - rank)
    if "--mesh" in sys.argv:
        dist.init_device_mesh("cpu", (size,))
    if "--root" in sys.argv:
        dist.broadcast(torch.ones(1), 7)
    if "--types" in sys.argv:
        dist.all_reduce(torch.ones(1, dtype=torch.int32 if rank else torch.float32))
    if FEWER and rank == 0:
        time.sleep(30)
    seed = [torch.randint(1, (1,)).item() if rank == 0 else None]
    dist.broadcast_object_list(seed, src=0)
    generator = torch.Generator().manual_seed(seed[0])
    x = torch.randn(SAMPLES, 6, generator=generator)
    data = TensorDataset(x, x[:, :3].argmax(1))
    torch.manual_seed(3)
    model = torch.nn.Linear(6, 3)
    sampler = sampler_of(data)
    loader = DataLoader(data, batch_size=SAMPLES // size, shuffle=False, sampler=sampler)
    got = dict(calls(rank, size))
    trainer = Trainer(model, loader, torch.optim.Adam(model.parameters(), lr=0.05), epochs)
    trainer.train()
    with open("%s-%d.json" % (output, rank), "w") as f:
        json.dump({"calls": got, "losses": trainer.losses}, f)
    destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
