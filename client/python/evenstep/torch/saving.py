"""Files that every node saves. Nodes of one host have one folder $EVENSTEP_OUTPUT, so a program
that saves there without asking who it is writes one file from several processes at once; on another
host than the coordinator's only the main rank's are kept. The program is told, once."""

import functools
import os
import re

import torch

from ..run import knows_who_it_is


def _is_beneath(path, folder):
    return os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)


def _by_each(run):
    """Whether this save is no choice of the program's: the main rank's may be."""
    return run.rank > 0 or not knows_who_it_is()


def watch(run):
    """After joining."""
    folder = os.environ.get("EVENSTEP_OUTPUT")
    if not folder or run.workers == 1:
        return
    save, told = torch.save, []

    @functools.wraps(save)
    def save_and_tell(obj, f, *args, **kwargs):
        is_path = isinstance(f, (str, os.PathLike))
        if not told and is_path and _by_each(run) and _is_beneath(f, folder):
            name = os.path.basename(os.fspath(f))
            if not re.search(r"(?<!\d)%d(?!\d)" % run.rank, name):  # else a file of its own
                told.append(name)
                run.say(
                    "this node saves '%s' beneath $EVENSTEP_OUTPUT, as every node does: those of "
                    "one host write the same file at the same time, and those of other hosts are "
                    "dropped. `if evenstep.is_main():` before it leaves the main rank's" % name
                )
        return save(obj, f, *args, **kwargs)

    torch.save = save_and_tell
