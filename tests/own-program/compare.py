"""How far apart two runs' parameters are."""

import numpy as np


def difference(a, b):
    """Largest difference of any parameter, relative to the largest parameter."""
    assert a.keys() == b.keys()
    largest = max(np.abs(v).max() for v in b.values() if v.size)
    return max(np.abs(a[k] - b[k]).max() for k in a if a[k].size) / largest


def bit_identical(results):
    return all(np.array_equal(results[0][k], r[k]) for r in results[1:] for k in r)
