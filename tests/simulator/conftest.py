"""Makes the helpers beside this file importable, and skips everything where the program has not been built."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def pytest_collection_modifyitems(items):
    import harness
    if not os.path.exists(harness.PROGRAM):
        skip = pytest.mark.skip(reason=f"{harness.PROGRAM} is not built (make BUILD=...)")
        for item in items:
            item.add_marker(skip)
