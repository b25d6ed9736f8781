"""A data set whose items are whole batches, which a loader without a batch size hands out.

A node takes its rows of a step's item. So the loader is made anew over rows, with the items as
batches of a batch sampler (batches.py):

    DataLoader(items, batch_size=None) ─► DataLoader(Rows(items), batch_sampler=Items(…))
    item 3, of 32 rows                    [96, 97, … 127]

Each node loads the whole item and keeps its rows. All items have as many rows; the last may have
fewer.
"""

from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, SequentialSampler

from ...run import Error, Run
from .about import refuse_class

KEPT = "num_workers pin_memory timeout worker_init_fn multiprocessing_context generator".split()
KEPT += "prefetch_factor persistent_workers pin_memory_device".split()
REFUSED = (
    "the loader makes no batches (batch_size=None): give it a batch_size, which is the global "
    "batch; or let each item be a whole batch, of tensors or arrays with one row for each sample"
)


def _leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for one in value for leaf in _leaves(one)]
    return [value]


def _is_array(leaf):
    return isinstance(leaf, Tensor) or type(leaf).__module__ == "numpy" and hasattr(leaf, "shape")


def rows_of(item):
    """The rows of an item; None: it is no batch. In a batch all arrays have as many, and a number
    that stands alone belongs to a sample."""
    leaves = _leaves(item)
    arrays = [leaf for leaf in leaves if _is_array(leaf)]
    sizes = {leaf.shape[0] if leaf.ndim else None for leaf in arrays}
    alone = any(isinstance(leaf, (int, float)) for leaf in leaves)
    return sizes.pop() if len(sizes) == 1 and not alone else None


def _pick(value, rows, chosen):
    """These rows of an item."""
    if _is_array(value):
        return value[chosen]
    if isinstance(value, dict):
        return {name: _pick(one, rows, chosen) for name, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_pick(one, rows, chosen) for one in value))
    if isinstance(value, (list, tuple)):
        if len(value) == rows and not any(map(_is_array, value)):  # texts, one for each row
            return type(value)(value[i] for i in chosen)
        return type(value)(_pick(one, rows, chosen) for one in value)
    return value


class Rows(Dataset):
    """Its elements are numbers of rows, of which part() makes a batch."""

    def __init__(self, items, rows, last):
        """rows: of each item; last: of the last one."""
        self.items, self.rows, self.last = items, rows, last

    def of(self, item):
        """The numbers of the item's rows."""
        first = item * self.rows
        return range(first, first + (self.last if item == len(self.items) - 1 else self.rows))

    def __len__(self):
        return self.rows * (len(self.items) - 1) + self.last

    def __getitem__(self, row):
        return row

    def part(self, numbers):
        """These rows, of one item. A batch that is only looked at may go on in the next one."""
        at = numbers[0] // self.rows
        item, own = self.items[at], self.of(at)
        rows = rows_of(item)
        if rows != len(own):
            raise Error(
                "item %d of the data set is %s, and the first one a batch of %d rows: the nodes "
                "share each item, so all have as many rows; the last may have fewer"
                % (at, "a batch of %d" % rows if rows else "no batch", self.rows)
            )
        return _pick(item, rows, [number - own[0] for number in numbers if number in own])


class Items:
    """The batches of an epoch, each the rows of an item."""

    def __init__(self, sampler, rows):
        self.sampler, self.rows = sampler, rows
        # a smaller last item may come at any place
        self.unequal = rows.last != rows.rows and type(sampler) is not SequentialSampler

    def __len__(self):
        return len(self.sampler)

    def __iter__(self):
        for item in self.sampler:
            yield list(self.rows.of(item))

    def __getattr__(self, name):  # generator, set_epoch
        return getattr(self.__dict__["sampler"], name)


class _Collate:
    def __init__(self, rows, own):
        self.rows, self.own = rows, own

    def __call__(self, numbers):
        return self.own(self.rows.part(numbers))


def over_rows(loader):
    """The loader, or the one that takes its place where its data set gives whole batches."""
    if loader.batch_sampler is not None or isinstance(loader.dataset, IterableDataset):
        return loader
    if type(loader).__iter__ is not DataLoader.__iter__:
        refuse_class(loader)
    items = loader.dataset
    first, last = (rows_of(items[i]) if len(items) else None for i in (0, len(items) - 1))
    if not first or not last or last > first:
        raise Error(REFUSED)
    Run.say(
        "the loader has no batch_size: each of its %d items is taken for a batch of %d rows, of "
        "which each node takes its part" % (len(items), first)
    )
    rows = Rows(items, first, last)
    kept = {name: getattr(loader, name) for name in KEPT if hasattr(loader, name)}
    made = DataLoader(
        rows,
        batch_sampler=Items(loader.sampler, rows),
        collate_fn=_Collate(rows, loader.collate_fn),
        **kept,
    )
    made._evenstep_given = loader
    return made
