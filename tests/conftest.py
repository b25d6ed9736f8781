"""Three things for tests/run. Which tests failed, since it tries them again by themselves: one name
a line in the file that EVENSTEP_FAILED names. What their services said of it, which are gone with
their fixtures, and what the machine was short of. And which tests it may hand to different
processes (pytest-xdist, --dist loadgroup): tests that share a fixture of their file stay together,
in its order, and come first; every other test goes by itself to whoever is free, so that no long
file is left at the end."""
import contextlib
import os
import pathlib
import re
import time

import pytest

failed = {}  # in their order
BEGIN = pytest.StashKey()  # what waited() said as a test began


def waited():
    """Seconds in which somebody waited for a CPU, the disk or memory since the machine started, and
    the seconds since then. Not the kernel's averages: where it lets nobody run, it makes none."""
    said = {"": time.monotonic()}
    for of in ("cpu", "io", "memory"):
        with contextlib.suppress(OSError):  # a kernel without pressure stall information
            some = pathlib.Path("/proc/pressure", of).read_text().splitlines()[0]
            said[of] = int(re.search(r"total=([0-9]+)", some)[1]) / 1e6
    return said


def pressure(begin):
    """For how much of the time since then, in percent."""
    more = {of: value - begin.get(of, value) for of, value in waited().items()}
    seconds = more.pop("")
    said = ", ".join(f"{of} {100 * value / max(seconds, 1e-3):.0f} %" for of, value in more.items())
    return f"of the {seconds:.0f} s of this test waited for: {said or 'unknown'}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.stash[BEGIN] = waited()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Their lines begin as those of an assertion, so that tests/run shows them first."""
    report = (yield).get_result()
    if report.failed:
        report.sections.append(("machine", f"E   {pressure(item.stash[BEGIN])}"))
    if report.failed and call.when == "call":
        used = getattr(item, "funcargs", {}).values()
        for service in (v for v in used if hasattr(v, "last_words") and not isinstance(v, type)):
            with contextlib.suppress(OSError):  # its folder is gone
                said = "\n".join(f"E   {line}" for line in service.last_words())
                report.sections.append(("service", said))


def pytest_runtest_logreport(report):
    if report.failed:  # pytest-xdist adds the test's group behind its name: test_x[1-2]@group
        failed[re.sub(r"@[^][@:]+$", "", report.nodeid)] = None


def pytest_sessionfinish(session):
    to = os.environ.get("EVENSTEP_FAILED")
    if to and not hasattr(session.config, "workerinput"):  # a process of pytest-xdist: its master
        with open(to, "w", encoding="utf-8") as out:
            out.writelines(f"{name}\n" for name in failed)


def shared(item):
    """The fixtures of its file that it uses and that are made once."""
    made = item._fixtureinfo.name2fixturedefs.values()
    return {d.argname for same in made for d in same
            if d.scope == "module" and d.baseid == item.nodeid.split("::")[0]}


def join(groups, fixtures):
    """Adds fixtures that a test uses to the groups of its file; groups of which it uses some become
    one."""
    joined = [g for g in groups if g & fixtures]
    for g in joined:
        groups.remove(g)
    groups.append(fixtures.union(*joined))


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(config, items):
    if not config.getoption("loadgroup", False):
        return
    groups = {item.path: [] for item in items}
    for item in items:
        if shared(item):
            join(groups[item.path], shared(item))
    for item in items:
        for fixtures in groups[item.path]:
            if fixtures & shared(item):
                name = f"{item.path.stem}.{min(fixtures)}"
                item.add_marker(pytest.mark.xdist_group(name))
    items.sort(key=lambda item: not shared(item))
