"""A program as it is written for torchrun, whose result depends on which samples each rank has:
batch norm, a shuffling sampler, gradients of several batches, a head that some of them leave out.
Nothing in it knows Evenstep.

    ddp_shared.py OUTPUT [--own-sampler]
"""

import contextlib
import datetime
import sys

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, TensorDataset

SAMPLES, BATCH, HELD = 133, 8, 3  # ranks repeat a sample; the last batch is smaller


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        first = torch.nn.Linear(6, 12, bias=False)  # which the norm would take away
        self.body = torch.nn.Sequential(first, torch.nn.BatchNorm1d(12))
        self.head, self.other = torch.nn.Linear(12, 3), torch.nn.Linear(12, 3)

    def forward(self, x, both):
        x = torch.relu(self.body(x))
        return self.head(x) + self.other(x) if both else self.head(x)


class Weighted(DistributedSampler):
    """Draws samples again, by a weight."""

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        weights = 1 + torch.arange(len(self.dataset)) % 4
        drawn = torch.multinomial(weights.float(), self.total_size, True, generator=generator)
        return iter(drawn[self.rank :: self.num_replicas].tolist())


def loader_of(data):
    if "--own-sampler" in sys.argv:
        batches = BatchSampler(Weighted(data, seed=5), BATCH, drop_last=True)
        return DataLoader(data, batch_sampler=batches), batches.sampler
    sampler = DistributedSampler(data)
    return DataLoader(data, BATCH, sampler=sampler), sampler


def main(output):
    dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=2))
    torch.manual_seed(3)
    x = torch.randn(SAMPLES, 6)
    loader, sampler = loader_of(TensorDataset(x, x[:, :3].argmax(1)))
    model = DDP(Model(), find_unused_parameters=True)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.02)
    losses = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        with Join([model]):
            for i, (x, y) in enumerate(loader):
                last = i % HELD == HELD - 1 or i + 1 == len(loader)
                with contextlib.nullcontext() if last else model.no_sync():
                    loss = F.cross_entropy(model(x, both=not last), y) / HELD
                    loss.backward()
                losses.append(loss.item())
                if last:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
        dist.monitored_barrier()
    optimizer.consolidate_state_dict(to=0)
    values = {name: p.detach().numpy() for name, p in model.named_parameters()}
    np.savez("%s-%d.npz" % (output, dist.get_rank()), losses=losses, **values)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
