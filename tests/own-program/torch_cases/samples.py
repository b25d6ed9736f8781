"""Cases of the data: loaders, samplers, workers, loops that are left early."""

import random
from itertools import accumulate, chain

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep
from evenstep.torch.samples.fitted import fit
from evenstep.torch.samples.order import WINDOW, order_of

from .parts import data, leave


def _tell_batches(output, loader, **options):
    """Sizes of batches and the samples of each epoch, with a scheduler that counts loops' turns."""
    model = nn.Linear(1, 1)
    model, opt, loader = evenstep.prepare(
        model, torch.optim.SGD(model.parameters(), 1e-4), loader, **options
    )
    sizes, seen = [], []
    for _ in evenstep.epochs(3):
        for (x,) in loader:
            sizes.append(len(x))
            seen.append(x.flatten().numpy().copy())
            opt.zero_grad()
            model(x).mean().backward()
            opt.step()
    leave(output, model, sizes=sizes, seen=np.concatenate(seen), length=len(loader))
    return loader


def numbers(n=200):
    return TensorDataset(torch.arange(n, dtype=torch.float32).view(n, 1))


def shuffled_with_workers(output):
    loader = DataLoader(numbers(), batch_size=32, shuffle=True, num_workers=2, prefetch_factor=3)
    _tell_batches(output, loader)


class Scales(DataLoader):
    """What many programs do in a class of their own: move batches, normalize them."""

    def __iter__(self):
        for (x,) in super().__iter__():
            yield (x / 200,)


def own_iteration(output):
    _tell_batches(output, Scales(numbers(), batch_size=32, shuffle=True, num_workers=2,
                                 persistent_workers=True))


class Alone(DataLoader):
    """It never asks for a DataLoader's batches."""

    def __iter__(self):
        for i in range(len(self)):
            yield self.collate_fn([self.dataset[i]])


def iteration_of_others(output):
    _tell_batches(output, Alone(numbers(), batch_size=32))


def drop_last(output):
    _tell_batches(output, DataLoader(numbers(), batch_size=32, shuffle=True, drop_last=True))


def weighted_sampler(output):
    sampler = torch.utils.data.WeightedRandomSampler(torch.arange(200.0), 200)
    _tell_batches(output, DataLoader(numbers(), batch_size=32, sampler=sampler))


class Lines(torch.utils.data.IterableDataset):
    def __init__(self, start=0, step=1):
        self.start, self.step = start, step

    def __iter__(self):
        return iter((torch.tensor([float(i)]),) for i in range(self.start, 200, self.step))


def iterable(output):
    loader = DataLoader(Lines(), batch_size=32)
    part = lambda dataset, rank, workers: Lines(rank, workers)
    _tell_batches(output, loader, shard=part, samples=200)


def left_early(output):
    """A loop that is left after three batches goes on with the fourth."""
    model = nn.Linear(1, 1)
    loader = DataLoader(numbers(), batch_size=32, num_workers=2)
    model, opt, loader = evenstep.prepare(
        model, torch.optim.SGD(model.parameters(), 1e-4), loader
    )
    seen = []
    for _ in range(3):
        for i, (x,) in enumerate(loader):
            seen.append(x.flatten().numpy().copy())
            opt.zero_grad()
            model(x).mean().backward()
            opt.step()
            if i == 2:
                break
    leave(output, model, seen=np.concatenate(seen))


def part_of_the_set(output):
    """A RandomSampler that takes 64 of 200 samples an epoch, others in each."""
    sampler = torch.utils.data.RandomSampler(numbers(), num_samples=64)
    _tell_batches(output, DataLoader(numbers(), batch_size=32, sampler=sampler))


def long_order(output):
    """What positions of an order too long for a list lead to, with random numbers of the program's
    own in between, by a generator of the sampler's own too; the first ones once more at the end."""
    _tell_batches(output, DataLoader(numbers(), batch_size=32))
    found, kept = [], 0
    for generator in None, torch.Generator():
        sampler = torch.utils.data.RandomSampler(
            range(10**6), replacement=True, num_samples=10**10, generator=generator
        )
        order = order_of(sampler, 7, 1)
        for position in [*range(0, 3 * WINDOW, 4099), 0, 4099]:
            torch.rand(1 + evenstep.rank(), generator=generator)
            found.append(order[position])
            kept = max(kept, len(order.window))
    np.savez(output + ".npz", order=found, kept=kept)


def batches_given(output):
    """PyTorch's own BatchSampler, which drops the last batch; the loader does not say so."""
    sampler = torch.utils.data.RandomSampler(numbers())
    batches = torch.utils.data.BatchSampler(sampler, 32, drop_last=True)
    _tell_batches(output, DataLoader(numbers(), batch_sampler=batches))


def batch_norm_of_one(output):
    """A batch norm over features refuses one sample, which is all that a node has of the last
    batch: samples, weights told by the program."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(1, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    opt, sizes = torch.optim.SGD(model.parameters(), 1e-3), []
    loader = DataLoader(numbers(34), batch_size=32)
    model, opt, loader = evenstep.prepare(model, opt, loader)
    for _ in evenstep.epochs(2):
        for (x,) in loader:
            opt.zero_grad()
            evenstep.weight(3 * len(x))
            model(x).mean().backward()
            opt.step()
            sizes.append(len(x))
    leave(output, model, sizes=sizes)


class Gathers(DataLoader):
    def _get_iterator(self):
        return ((x / 200,) for (x,) in super()._get_iterator())


class OfTorchdata:
    __module__ = "torchdata.stateful_dataloader.stand_in"


class RandomSampler(OfTorchdata, torch.utils.data.RandomSampler):
    __module__ = OfTorchdata.__module__


class BatchSampler(OfTorchdata, torch.utils.data.BatchSampler):
    __module__ = OfTorchdata.__module__


class StatefulDataLoader(OfTorchdata, DataLoader):
    """As torchdata's: it makes its samplers and iterators itself, and knows its place."""

    __module__ = OfTorchdata.__module__

    def __init__(self, dataset, batch_size, **options):
        batches = BatchSampler(RandomSampler(dataset), batch_size, False)
        super().__init__(dataset, batch_sampler=batches, **options)

    def _get_iterator(self):
        return super()._get_iterator()

    def __iter__(self):
        return self._get_iterator()

    def state_dict(self):
        raise NotImplementedError

    load_state_dict = state_dict


def stateful(output):
    loader = _tell_batches(output, StatefulDataLoader(numbers(), 32, num_workers=2))
    loader.load_state_dict(loader.state_dict())


class ShortSampler(torch.utils.data.Sampler):
    def __len__(self):
        return 200

    def __iter__(self):
        return iter(range(150))


class Buckets(torch.utils.data.Sampler):
    """Shuffled batches of neighbours; `size` of each, and fewer in one that comes last."""

    def __init__(self, samples, size, uneven=False):
        numbers, self.uneven = list(range(samples)), uneven
        self.all = [numbers[at:at + size] for at in range(0, samples, size)]

    def __len__(self):
        return len(self.all)

    def __iter__(self):
        whole = self.all[:-1]
        order = torch.randperm(len(whole)).tolist()
        yield from [self.all[-1]] * self.uneven
        yield from (whole[i] for i in order)
        yield from [self.all[-1]] * (not self.uneven)


def own_batches(output):
    _tell_batches(output, DataLoader(numbers(), batch_sampler=Buckets(200, 32), num_workers=2))


def uneven_batches(output):
    _tell_batches(output, DataLoader(numbers(), batch_sampler=Buckets(100, 32, uneven=True)))


class Mixed(torch.utils.data.Sampler):
    """Batches of these sizes, others in each epoch: what is left of 100 samples comes last."""

    def __init__(self, sizes, samples=100):
        self.sizes, self.samples, self.epoch = sizes, samples, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        order = torch.randperm(self.samples).tolist()
        for size in self.sizes[self.epoch]:
            yield order[:size]
            order = order[size:]
        yield order


def mixed_batches(output):
    """More batches, fewer and larger ones, without a length."""
    sizes = [[32, 20, 30], [20, 20, 20, 20], [50]]
    _tell_batches(output, DataLoader(numbers(), batch_sampler=Mixed(sizes)))


def mixed_equal_batches(output):
    """The first epoch's are equal but for the last."""
    sizes = [[32, 32, 32], [20, 20, 20, 20], [25, 25, 25]]
    _tell_batches(output, DataLoader(numbers(), batch_sampler=Mixed(sizes)))


class Larger(Mixed):
    def set_epoch(self, epoch):
        self.samples = 100 + 30 * epoch


def larger_epochs(output):
    _tell_batches(output, DataLoader(numbers(), batch_sampler=Larger([[32, 20, 30]])))


class Endless(Mixed):
    def __iter__(self):
        while True:
            yield from super().__iter__()


def fits(output):
    """fit() of batches of all sizes to places of all kinds."""
    draw, refused = random.Random(1), 0
    for _ in range(3000):
        most = draw.randint(1, 7)
        last = most if draw.random() < 0.6 else draw.randint(1, most)
        places = [most] * draw.randint(0, 7) + [last]
        ends = [0, *accumulate(draw.randint(1, 9) for _ in range(draw.randint(1, 10)))]
        batches = [list(range(a, b)) for a, b in zip(ends, ends[1:])]
        try:
            fitted = fit([list(batch) for batch in batches], places)
        except ValueError:
            assert not len(places) <= ends[-1] <= sum(places)
            refused += 1
            continue
        assert [len(b) <= n for b, n in zip(fitted, places, strict=True)] == [True] * len(places)
        assert sorted(chain(*fitted)) == list(range(ends[-1]))
        assert fitted == batches or [len(b) for b in batches] != places
    np.savez(output + ".npz", refused=refused)


def short_sampler(output):
    _tell_batches(output, DataLoader(numbers(), batch_size=32, sampler=ShortSampler()))


class Growing(torch.utils.data.Dataset):
    """Of which more samples are there in each epoch."""

    def __init__(self):
        self.samples = 64

    def __len__(self):
        return self.samples

    def __getitem__(self, i):
        return (torch.full((1,), float(i)),)


def growing(output):
    data = Growing()
    loader = DataLoader(data, batch_size=32, shuffle=True)
    model = nn.Linear(1, 1)
    model, opt, loader = evenstep.prepare(model, torch.optim.SGD(model.parameters(), 1e-4), loader)
    for _ in range(3):
        for (x,) in loader:
            opt.zero_grad()
            model(x).mean().backward()
            opt.step()
        data.samples += 32


def refused_loaders(output):
    """What the rank would be told of each; the sentences go to the log."""
    from evenstep.torch.samples.about import about_loader

    own = [
        Gathers(numbers(), batch_size=32),
        DataLoader(numbers(), batch_size=None),
        DataLoader(Lines(), batch_size=32),
        DataLoader(numbers(), batch_sampler=Endless([[32, 32, 32]])),
        DataLoader(numbers(), batch_sampler=Mixed([[0, 32]])),
        DataLoader(Lines(), batch_size=32),
    ]
    for loader in own:
        try:
            about_loader(loader, None if loader is not own[-1] else list, None)
        except evenstep.Error as e:
            print(e)


def _of(package, name, *bases):
    return type(name, bases, {"__module__": package})


def of_other_packages(output):
    """The sentences go to the log."""
    from evenstep.torch.given import sort

    class Data(_of("lightning.pytorch.core.datamodule", "LightningDataModule")):
        pass

    model, loader = nn.Linear(1, 1), DataLoader(numbers(), batch_size=32)
    trainer = _of("transformers.trainer", "Trainer")
    shard = _of("accelerate.data_loader", "DataLoaderShard", DataLoader)
    engine = _of("deepspeed.runtime.engine", "DeepSpeedEngine")
    sharded = _of("torch.distributed.fsdp", "FullyShardedDataParallel", nn.Linear)

    class Learner(_of("fastai.learner", "Learner")):
        def __getattr__(self, name):  # as fastai's does
            return getattr(model, name)

    net = _of("skorch.classifier", "NeuralNetClassifier")
    for objects in [(model, Data()), (model, trainer()), (model, shard(numbers(), batch_size=32)),
                    (engine(), loader), (sharded(1, 1), loader), (net(),), (Learner(),)]:
        try:
            sort(objects)
        except evenstep.Error as e:
            print(e)


def is_a_loader(output):
    """What programs and their libraries ask of a loader."""
    loader = DataLoader(numbers(), batch_size=32)
    model = nn.Linear(1, 1)
    model, opt, loader = evenstep.prepare(
        model, torch.optim.SGD(model.parameters(), 1e-4), loader
    )
    assert isinstance(loader, DataLoader) and len(loader.dataset) == 200
    first = next(iter(loader))[0]
    for _ in evenstep.epochs(1):
        for i, (x,) in enumerate(loader):
            assert i or torch.equal(first, x)
            opt.zero_grad()
            model(x).mean().backward()
            opt.step()
    shown = next(iter(loader))[0]  # to look at, when the run is over
    model(shown).mean().backward()
    before = model.weight.clone()
    opt.step()
    assert torch.equal(before, model.weight)
    leave(output, model, shown=len(shown))


def steps_behind_the_end(output):
    """A loop over steps that goes on when the job has no more epochs."""
    model = nn.Linear(1, 1)
    loader = DataLoader(numbers(), batch_size=100)
    model, opt, loader = evenstep.prepare(
        model, torch.optim.SGD(model.parameters(), 1e-4), loader
    )
    it = iter(loader)
    for step in range(100_000):
        try:
            (x,) = next(it)
        except StopIteration:
            it = iter(loader)
            (x,) = next(it)
        opt.zero_grad()
        model(x).mean().backward()
        opt.step()
    raise AssertionError("the loop went on behind the end")


def same_loader_again(output):
    """A second phase with the loader that the first one got back."""
    model, seen = nn.Linear(1, 1), []
    loader = DataLoader(numbers(), batch_size=32)
    for rate in 1e-4, 1e-5:
        opt = torch.optim.SGD(model.parameters(), rate)
        model, opt, loader = evenstep.prepare(model, opt, loader)
        for _ in evenstep.epochs(1):
            for (x,) in loader:
                seen.append(x.flatten().numpy().copy())
                opt.zero_grad()
                model(x).mean().backward()
                opt.step()
    leave(output, model, seen=np.concatenate(seen))


def synchronized_norms(output):
    model = nn.SyncBatchNorm.convert_sync_batchnorm(
        nn.Sequential(nn.Linear(1, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)))
    model, opt, loader = evenstep.prepare(
        model, torch.optim.SGD(model.parameters(), 1e-4), DataLoader(numbers(), batch_size=32)
    )
    for (x,) in loader:
        opt.zero_grad()
        model(x).mean().backward()
        opt.step()
    leave(output, model)
