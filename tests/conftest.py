"""Which tests failed, for tests/run, which tries them again by themselves: one name a line in the
file that EVENSTEP_FAILED names."""
import os
import re

failed = {}  # in their order


def pytest_runtest_logreport(report):
    if report.failed:  # pytest-xdist adds the test's group behind its name: test_x[1-2]@group
        failed[re.sub(r"@[^][@:]+$", "", report.nodeid)] = None


def pytest_sessionfinish(session):
    to = os.environ.get("EVENSTEP_FAILED")
    if to and not hasattr(session.config, "workerinput"):  # a process of pytest-xdist: its master
        with open(to, "w", encoding="utf-8") as out:
            out.writelines(f"{name}\n" for name in failed)
