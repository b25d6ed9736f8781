"""Slow machines for tests and benches: control groups with a share of a core, of version 1 or 2,
made and removed by root.

A group is given the greatest weight too: what it may have it gets, however busy the machine is, so
that its quota is what slows it."""
import itertools
import os
import pathlib

from service import until

V2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
ROOT = pathlib.Path("/sys/fs/cgroup" if V2 else "/sys/fs/cgroup/cpu")
NUMBERS = itertools.count()  # two racks of one process may have a host of the same name
PERIOD_US = 20000  # short beside a step, so that a step does not notice when in a period it began


def reason_against():
    if os.geteuid() != 0:
        return "control groups are made by root only"
    if V2 and "cpu" not in (ROOT / "cgroup.subtree_control").read_text():
        return "the cpu controller is not offered here"
    return None if os.access(ROOT, os.W_OK) else f"{ROOT} cannot be written"


class Quota:
    def __init__(self, name, cores):
        self.path = ROOT / f"evenstep-{os.getpid()}-{next(NUMBERS)}-{name}"
        self.path.mkdir()
        (self.path / ("cpu.weight" if V2 else "cpu.shares")).write_text("10000" if V2 else "262144")
        self.set(cores)

    def set(self, cores):
        quota = int(cores * PERIOD_US)
        if V2:
            (self.path / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            for name, value in (("quota", -1), ("period", PERIOD_US), ("quota", quota)):
                (self.path / f"cpu.cfs_{name}_us").write_text(str(value))

    def command(self, *command):
        """The command, run inside."""
        return ["sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh",
                *map(str, command)]

    def remove(self):
        until("the group is empty", lambda: not (self.path / "cgroup.procs").read_text().strip(),
              30)
        self.path.rmdir()
