"""Slow machines for tests and benches: control groups with a share of a core, of version 1 or 2,
made and removed by root.

A group is given the greatest weight too: what it may have it gets, however busy the machine is, so
that its quota is what slows it."""
import contextlib
import itertools
import os
import pathlib

from service import until

V2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
ROOT = pathlib.Path("/sys/fs/cgroup" if V2 else "/sys/fs/cgroup/cpu")
NUMBERS = itertools.count()  # two racks of one process may have a host of the same name
WEIGHT, GREATEST = ("cpu.weight", "10000") if V2 else ("cpu.shares", "262144")
PERIOD_US = 20000  # short beside a step, so that a step does not notice when in a period it began
USUAL_US = 100000  # Docker's, Kubernetes', and Linux's own


def reason_against():
    if os.geteuid() != 0:
        return "control groups are made by root only"
    if V2 and "cpu" not in (ROOT / "cgroup.subtree_control").read_text():
        return "the cpu controller is not offered here"
    return None if os.access(ROOT, os.W_OK) else f"{ROOT} cannot be written"


class Quota:
    def __init__(self, name, cores, period_us=PERIOD_US):
        self.period_us = period_us
        self.path = ROOT / f"evenstep-{os.getpid()}-{next(NUMBERS)}-{name}"
        self.path.mkdir()
        (self.path / WEIGHT).write_text(GREATEST)
        self.set(cores)

    def set(self, cores):
        quota = int(cores * self.period_us)
        if V2:
            (self.path / "cpu.max").write_text(f"{quota} {self.period_us}")
        else:
            for name, value in (("quota", -1), ("period", self.period_us), ("quota", quota)):
                (self.path / f"cpu.cfs_{name}_us").write_text(str(value))

    def command(self, *command):
        """The command, run inside."""
        return ["sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh",
                *map(str, command)]

    def remove(self):
        until("the group is empty", lambda: not (self.path / "cgroup.procs").read_text().strip(),
              30)
        self.path.rmdir()


def groups_above(pid):
    """The groups that hold the group of a process, the root's aside: Docker's, for a container."""
    for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if (controllers == "") if V2 else ("cpu" in controllers.split(",")):
            return [ROOT / str(p).lstrip("/") for p in pathlib.PurePath(path).parents][:-1]
    return []


@contextlib.contextmanager
def served_first(pid):
    """Meanwhile what is in the groups above a process comes before all else on the machine, so that
    only the quotas inside say who is slow."""
    weights = {group / WEIGHT: (group / WEIGHT).read_text() for group in groups_above(pid)}
    try:
        for weight in weights:
            weight.write_text(GREATEST)
        yield
    finally:
        for weight, before in weights.items():
            weight.write_text(before)
