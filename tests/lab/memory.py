"""Control groups with a limit of memory, of version 1 or 2, made and removed by root. The limit
counts the page cache of the files that the group reads, not only its own memory."""
import os
import pathlib

from service import until

V2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
ROOT = pathlib.Path("/sys/fs/cgroup" if V2 else "/sys/fs/cgroup/memory")
LIMIT, USED, PEAK = (("memory.max", "memory.current", "memory.peak") if V2 else
                     ("memory.limit_in_bytes", "memory.usage_in_bytes",
                      "memory.max_usage_in_bytes"))


def reason_against():
    if os.geteuid() != 0:
        return "control groups are made by root only"
    if V2 and "memory" not in (ROOT / "cgroup.subtree_control").read_text():
        return "the memory controller is not offered here"
    return None if os.access(ROOT, os.W_OK) else f"{ROOT} cannot be written"


class MemoryLimit:
    def __init__(self, name, limit_bytes):
        self.path = ROOT / f"evenstep-{os.getpid()}-{name}"
        self.path.mkdir()
        (self.path / LIMIT).write_text(str(limit_bytes))

    def command(self, *command):
        """The command, run inside."""
        return ["sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh",
                *map(str, command)]

    def peak(self):
        return int((self.path / PEAK).read_text())

    def remove(self):
        until("the group is empty", lambda: not (self.path / "cgroup.procs").read_text().strip(),
              30)
        self.path.rmdir()


def drop_from_cache(path):
    """The file's pages leave the page cache, so that whoever reads them next is charged for them.
    """
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
