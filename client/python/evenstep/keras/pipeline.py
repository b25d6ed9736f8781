"""A pipeline that is given to fit() in place of arrays: a tf.data.Dataset, a PyDataset or a PyTorch
DataLoader, of batches.

The rank hands out rows by their numbers, and a pipeline has no numbers. So it is read once before
the first epoch, and its samples are arrays from then on. Each sample comes once an epoch over all
nodes, under every strategy. What the pipeline draws at random (an augmentation) is drawn in that
pass alone; the program is told so.
"""

import hashlib
import sys

import keras
import numpy as np
from keras import tree

from ..run import Error

MOST_BYTES = 2 << 30
PARTS = ("x", "y", "sample_weight")


def _kind(given):
    """What it is, and whether each epoch has an order of its own; None: it is no pipeline."""
    tensorflow, torch = sys.modules.get("tensorflow"), sys.modules.get("torch")
    if tensorflow and isinstance(given, tensorflow.data.Dataset):
        if int(given.cardinality()) == tensorflow.data.INFINITE_CARDINALITY:
            raise Error(
                "fit() was given a data set without an end, of which nobody knows an epoch: leave "
                "out repeat(), or say take(n)"
            )
        return "tf.data.Dataset", _shuffles(given)
    if isinstance(given, keras.utils.PyDataset):
        return "PyDataset", True
    if torch and isinstance(given, torch.utils.data.DataLoader):
        drawn = not isinstance(given.sampler, torch.utils.data.SequentialSampler)
        return "DataLoader", drawn
    return None


def is_pipeline(given):
    return _kind(given) is not None


def _shuffles(dataset):
    """Whether any step of the pipeline shuffles."""
    if "Shuffle" in type(dataset).__name__:
        return True
    return any(map(_shuffles, dataset._inputs()))


def _batches(given):
    if isinstance(given, keras.utils.PyDataset):
        return (given[i] for i in range(len(given)))
    return iter(given)


def _parts(batch):
    """A batch as [x], [x, y] or [x, y, weights], of arrays."""
    parts = list(batch) if isinstance(batch, (tuple, list)) else [batch]
    return [tree.map_structure(np.asarray, part) for part in parts[:3]]


def _bytes(parts):
    return sum(a.nbytes for a in tree.flatten(parts))


def _join(batches):
    try:
        return tree.map_structure(lambda *arrays: np.concatenate(arrays), *batches)
    except ValueError as e:
        raise Error(
            "fit() was given batches that do not make one array, since their samples differ in "
            "shape (%s): pad them to one length" % e
        ) from None


def _digest(rows):
    """The digest of one sample."""
    made = hashlib.blake2b(digest_size=16)
    for row in map(np.asarray, rows):
        made.update(repr(row.tolist()).encode() if row.dtype == object else row.tobytes())
    return made.digest()


def _in_one_order(parts):
    """Sorts the samples by their digests. A pipeline that shuffles has another order in each
    process, but a number must name the same sample in all of them."""
    digests = list(map(_digest, zip(*tree.flatten(parts))))
    order = np.array(sorted(range(len(digests)), key=digests.__getitem__))
    return tree.map_structure(lambda a: a[order], parts)


def arrays(told):
    """Replaces a pipeline in fit()'s arguments by its arrays. False: there is no pipeline, and the
    arguments stay as they are."""
    kind = _kind(told["x"])
    if kind is None:
        return False
    name, drawn = kind
    batches, size = [], 0
    for batch in _batches(told["x"]):
        batches.append(_parts(batch))
        size += _bytes(batches[-1])
        if size > MOST_BYTES:
            raise Error(
                "fit() was given a %s of more than %d GiB, which each node would hold in memory: "
                "give it arrays, which may be mapped files" % (name, MOST_BYTES >> 30)
            )
    if not batches:
        raise Error("fit() was given a %s without a batch" % name)
    read = _join(batches)
    told.update(zip(PARTS, _in_one_order(read) if drawn else read))
    told["batch_size"] = len(tree.flatten(batches[0])[0])
    told["shuffle"] = drawn
    print(
        "evenstep: the %s is read once, and its %d samples are handed out to the nodes in each "
        "epoch: what it draws at random is drawn once" % (name, len(tree.flatten(told["x"])[0])),
        file=sys.stderr, flush=True,
    )
    return True
