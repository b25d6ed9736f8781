"""Every collective that is offered under --ddp, as programs call it: nothing in it knows Evenstep.
What each rank gets is the same under torchrun and under `evenstep run --ddp`."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn


def _of_autograd(rank, size):
    """A contrastive loss over the samples of all ranks has gradients through their gathering."""
    leaf = torch.ones(2, requires_grad=True)
    gathered = torch.cat(dist.nn.all_gather(leaf * (rank + 1)))
    (gathered * (torch.arange(2.0 * size) + rank)).sum().backward()
    yield "autograd's all_gather", leaf.grad.tolist()
    leaf = torch.ones(2, requires_grad=True)
    (dist.nn.all_reduce(leaf * (rank + 1)) ** 2).sum().backward()
    yield "autograd's all_reduce", leaf.grad.tolist()


def _functional(mine, size):
    world = dist.group.WORLD
    yield "functional all_reduce", functional.all_reduce(mine, "sum", world).tolist()
    yield "functional gather", functional.all_gather_tensor(mine, 0, world).tolist()
    both = functional.all_gather_into_tensor_coalesced([mine, 2 * mine], world)
    yield "functional gather of two", [t.tolist() for t in both]
    whole = torch.arange(2.0 * size)
    yield "functional scatter", functional.reduce_scatter_tensor(whole, "sum", 0, world).tolist()


def calls(rank, size):
    """(name, what this rank has afterwards)"""
    mine = torch.arange(4.0) + 10 * rank
    for op in ("SUM", "PRODUCT", "MIN", "MAX", "AVG"):
        if op == "AVG" and dist.get_backend() == "gloo":  # which has none
            yield op, (sum(torch.arange(4.0) + 10 * r for r in range(size)) / size).tolist()
            continue
        tensor = mine.clone()
        dist.all_reduce(tensor, getattr(dist.ReduceOp, op))
        yield op, tensor.tolist()
    counts = torch.tensor([rank + 1, 3], dtype=torch.int64)
    work = dist.all_reduce(counts, async_op=True)
    work.wait()
    yield "async", counts.tolist()
    strided = torch.zeros(3, 4)[:, ::2] + rank
    dist.all_reduce(strided)
    yield "strided", strided.tolist()
    tensor = mine.clone()
    dist.broadcast(tensor, src=1)
    yield "broadcast", tensor.tolist()
    tensor = mine.clone()
    dist.reduce(tensor, dst=1)
    yield "reduce", tensor.tolist() if rank == 1 else None
    parts = [torch.empty(4) for _ in range(size)]
    dist.all_gather(parts, mine)
    yield "all_gather", torch.stack(parts).tolist()
    whole = torch.empty(4 * size)
    dist.all_gather_into_tensor(whole, mine)
    yield "all_gather_into_tensor", whole.tolist()
    parts = [torch.empty(4) for _ in range(size)] if rank == 0 else None
    dist.gather(mine, parts, dst=0)
    yield "gather", torch.stack(parts).tolist() if parts else None
    parts = [mine + 100 * r for r in range(size)] if rank == 1 else None
    tensor = torch.empty(4)
    dist.scatter(tensor, parts, src=1)
    yield "scatter", tensor.tolist()
    tensor = torch.empty(4)
    dist.reduce_scatter(tensor, [mine + 100 * r for r in range(size)])
    yield "reduce_scatter", tensor.tolist()
    whole = torch.empty(2 * size)
    dist.all_to_all_single(whole, torch.arange(2.0 * size) + 10 * rank)
    yield "all_to_all_single", whole.tolist()
    sizes = [r + 1 for r in range(size)]
    uneven = torch.empty(sum(sizes))
    dist.all_to_all_single(uneven, mine[:1].repeat((rank + 1) * size), sizes, [rank + 1] * size)
    yield "all_to_all_single of sizes", uneven.tolist()
    yield from _of_autograd(rank, size)
    yield from _functional(mine, size)
    objects = [{"rank": rank}, "a" * rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(objects, src=0)
    yield "broadcast_object_list", objects
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "name": "x" * (5 * rank)})
    yield "all_gather_object", objects
    objects = [None] * size if rank == 0 else None
    dist.gather_object((rank, "y"), objects, dst=0)
    yield "gather_object", objects
    objects = [None]
    dist.scatter_object_list(objects, ["for %d" % r for r in range(size)], src=0)
    yield "scatter_object_list", objects
    empty = torch.empty(0)
    dist.all_reduce(empty)
    yield "nothing", empty.tolist()
    everybody = dist.new_group(list(range(size)))
    dist.barrier(group=everybody)
    flag = torch.tensor(rank == size - 1, dtype=torch.int32)
    dist.all_reduce(flag, dist.ReduceOp.MAX, group=everybody)
    yield "group of all", flag.item()
