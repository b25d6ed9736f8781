"""An epoch's batches in another number of batches, each sample once, as few of them changed as will
do."""

import heapq
from itertools import accumulate


def fit(batches, places):
    """Gives as many batches as there are numbers in `places`, each of at most so many samples. All
    numbers but the last are the same. ValueError: there are too many samples, or too few."""
    count, most, total = len(places), places[0], sum(map(len, batches))
    if not count <= total <= sum(places):
        raise ValueError
    if places[-1] < most:  # batches of one size
        samples = [sample for batch in batches for sample in batch]
        ends = [0, *(end * total // sum(places) for end in accumulate(places))]
        return [samples[at:end] for at, end in zip(ends, ends[1:])]
    cut = [batch[at : at + most] for batch in batches for at in range(0, len(batch), most)]
    return _put_together(cut, count, most) if len(cut) > count else _cut(cut, count)


def _put_together(batches, count, most):
    """The samples of the smallest batch go to the next smallest ones."""
    by_size = [(len(batch), at) for at, batch in enumerate(batches)]
    heapq.heapify(by_size)
    for _ in range(len(batches) - count):
        smallest = heapq.heappop(by_size)[1]
        samples, batches[smallest] = batches[smallest], []
        while samples:
            size, at = heapq.heappop(by_size)
            batches[at] = batches[at] + samples[: most - size]
            samples = samples[most - size :]
            heapq.heappush(by_size, (len(batches[at]), at))
    return [batch for batch in batches if batch]


def _cut(batches, count):
    """The largest batch becomes two, the second of which comes last."""
    by_size = [(-len(batch), at) for at, batch in enumerate(batches)]
    heapq.heapify(by_size)
    while len(batches) < count:
        at = heapq.heappop(by_size)[1]
        half = (len(batches[at]) + 1) // 2
        batches.append(batches[at][half:])
        batches[at] = batches[at][:half]
        for part in (at, len(batches) - 1):
            heapq.heappush(by_size, (-len(batches[part]), part))
    return batches
