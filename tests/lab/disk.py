"""A disk that is soon full, for tests: a file system in memory, mounted by root."""
import subprocess

import pytest


class SmallDisk:
    """A disk of so many bytes at `path`."""

    def __init__(self, path, size):
        self.path = path
        path.mkdir(parents=True)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "evenstep-test", path],
                              capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")

    def grow(self, size):
        subprocess.run(["mount", "-o", f"remount,size={size}", self.path], check=True)

    def remove(self):
        subprocess.run(["umount", "-l", self.path], check=True)
