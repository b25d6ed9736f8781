"""Makes the helpers beside this file importable, and skips everything where the program has not
been built.

Folders of tests lie in memory where they can: every run of the program syncs what it writes, and a
busy disk would make minutes of seconds. Those of tests that passed are removed, the others are
named in the failure's output."""
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "integration")]


def pytest_collection_modifyitems(items):
    import harness
    if not os.path.exists(harness.PROGRAM):
        skip = pytest.mark.skip(reason=f"{harness.PROGRAM} is not built (make BUILD=...)")
        for item in items:
            item.add_marker(skip)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    item.went_wrong = getattr(item, "went_wrong", False) or report.failed


@pytest.fixture
def tmp_path(request):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="evenstep-simulator-"))
    yield folder
    if getattr(request.node, "went_wrong", False):
        print(f"the files of {request.node.name} are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
