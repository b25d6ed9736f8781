"""What the rank hears about the training loader, and which loaders are refused."""

from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler
from torch.utils.data.distributed import DistributedSampler

from ...run import Error
from .batches import row_of


def is_stateful(thing):
    """Whether it is torchdata's StatefulDataLoader, or a sampler that it makes. Those load the
    batches that PyTorch's would, and keep their place; here the run keeps it."""
    return type(thing).__module__.startswith("torchdata.stateful_dataloader")


def _prefetches(loader):
    return loader.num_workers * (loader.prefetch_factor or 2) if loader.num_workers else 0


def sampler_of(loader):
    """The global batch, and the sampler of its samples."""
    batches = loader.batch_sampler
    if batches is None:
        raise Error(
            "the loader makes no batches (batch_size=None): give it a batch_size, which is the "
            "global batch"
        )
    if type(batches) is not BatchSampler and not is_stateful(batches):
        row = row_of(loader)
        return row.size, row
    if isinstance(batches.sampler, DistributedSampler):
        raise Error(
            "the loader has a DistributedSampler, which shares the samples out among ranks: the "
            "service does that, so leave it out and give shuffle=True (a program that is written "
            "for DistributedDataParallel runs by `evenstep run --ddp`)"
        )
    return batches.batch_size, batches.sampler


def is_permutation(sampler):
    """Does it give each sample of the data set once, in any order? The service then draws the
    order."""
    known = type(sampler) is RandomSampler or is_stateful(sampler)
    plain = known and isinstance(sampler, RandomSampler) and not sampler.replacement
    return plain and sampler.num_samples == len(sampler.data_source)


def drops_last(loader):
    """Does it drop the last batch? Another batch sampler has already dropped it."""
    batches = loader.batch_sampler
    if batches is None or type(batches) is BatchSampler or is_stateful(batches):
        return bool(getattr(batches, "drop_last", loader.drop_last))
    return False


def refuse_class(loader):
    raise Error(
        "the loader's class %s loads batches in a way of its own, which the loader that takes its "
        "place would not: give a plain DataLoader, and do the rest in the loop or in collate_fn"
        % type(loader).__name__
    )


def about_loader(loader, shard, samples):
    """What the rank hears about the data; see evenstep.h's struct es_about."""
    about = {"ahead": _prefetches(loader) + 1}
    own = type(loader)._get_iterator is not DataLoader._get_iterator
    if own and not is_stateful(loader):
        refuse_class(loader)
    if isinstance(loader.dataset, IterableDataset):
        if shard is None:
            raise Error(
                "the data set is iterable: prepare(…, shard=function) says which part of it a rank "
                "reads: function(dataset, rank, world_size) gives an iterable"
            )
        if not loader.batch_size:
            raise Error("the loader needs a batch_size: it is the global batch")
        known = samples or (len(loader.dataset) if hasattr(loader.dataset, "__len__") else 0)
        if not known:
            raise Error(
                "the data set is iterable and has no length: prepare(…, samples=n) says how many "
                "samples an epoch has"
            )
        about.update(samples=known, global_batch=loader.batch_size, in_order=1)
    else:
        batch, sampler = sampler_of(loader)
        about.update(samples=len(sampler), global_batch=batch)
        about["in_order"] = int(not is_permutation(sampler))
    about["drop_last"] = int(drops_last(loader))
    return about
