#!/usr/bin/python3
"""What tests cost: a plugin of pytest, which is asked for by name (docs/testing.md).

    PYTHONPATH=tests EVENSTEP_COSTS=/tmp/costs.tsv python3 -m pytest -p costs tests/integration
    tests/costs.py /tmp/costs.tsv [test | file | fixture]

The first writes a line for each phase of each test and for each fixture of a file: wall time, CPU
time of user and of system, processes and threads begun. CPU time is that of the whole tree, also of
daemons and of what was killed, by a control group that each process of pytest-xdist makes for
itself (root). Other work on the machine changes it little, and wall time much. Processes are the
machine's, so that they say something only where nothing else runs. The second sums the lines up and
sorts them by CPU time."""
import collections
import os
import pathlib
import sys
import time

import pytest

GROUPS = pathlib.Path("/sys/fs/cgroup")
COLUMNS = ("wall", "user", "system", "begun")


class Meter:
    """Seconds of this process and of all that descend from it."""

    def __init__(self):
        accounts = GROUPS / "cpuacct" if (GROUPS / "cpuacct").exists() else GROUPS
        self.group = accounts / f"evenstep-costs-{os.getpid()}"
        self.parent = accounts
        self.group.mkdir()
        (self.group / "cgroup.procs").write_text(str(os.getpid()))

    def cpu(self):
        if (self.group / "cpu.stat").exists():
            stat = dict(line.split() for line in (self.group / "cpu.stat").read_text().splitlines())
            return int(stat["user_usec"]) / 1e6, int(stat["system_usec"]) / 1e6
        return tuple(int((self.group / f"cpuacct.usage_{kind}").read_text()) / 1e9
                     for kind in ("user", "sys"))

    def now(self):
        begun = pathlib.Path("/proc/stat").read_text().partition("\nprocesses ")[2].split()[0]
        return (time.monotonic(), *self.cpu(), int(begun))

    def close(self):
        for pid in (self.group / "cgroup.procs").read_text().split():
            (self.parent / "cgroup.procs").write_text(pid)
        self.group.rmdir()


class Costs:
    def __init__(self, to):
        self.meter, self.out = Meter(), open(to, "a", encoding="utf-8", buffering=1)

    def measured(self, kind, name):
        before = self.meter.now()
        yield
        spent = [b - a for a, b in zip(before, self.meter.now())]
        self.out.write("\t".join([kind, name, *(f"{s:.3f}" for s in spent)]) + "\n")

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item):
        yield from self.measured("setup", item.nodeid)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item):
        yield from self.measured("call", item.nodeid)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item):
        yield from self.measured("teardown", item.nodeid)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef):
        if fixturedef.scope == "function":
            yield
        else:
            yield from self.measured("fixture", f"{fixturedef.baseid}::{fixturedef.argname}")

    def pytest_sessionfinish(self):
        self.out.close()
        self.meter.close()


def pytest_configure(config):
    if os.environ.get("EVENSTEP_COSTS"):
        config.pluginmanager.register(Costs(os.environ["EVENSTEP_COSTS"]))


def table(path, by):
    sums = collections.defaultdict(lambda: [0.0] * len(COLUMNS))
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        kind, name, *spent = line.split("\t")
        if (kind == "fixture") == (by == "fixture"):
            name = name.partition("::")[0] if by == "file" else name
            sums[name] = [a + float(b) for a, b in zip(sums[name], spent)]
    sums["all"] = [sum(column) for column in zip(*sums.values())]
    print(" ".join(f"{c:>9}" for c in COLUMNS))
    for name, spent in sorted(sums.items(), key=lambda s: -s[1][1] - s[1][2]):
        print(" ".join(f"{s:9.2f}" for s in spent), name)


if __name__ == "__main__":
    table(sys.argv[1], (sys.argv[2:] or ["file"])[0])
