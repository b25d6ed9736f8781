"""Files that every node saves. Nodes of one host share the folder $EVENSTEP_OUTPUT, so if a program
saves there without asking for its rank, several processes write one file. On a host other than the
coordinator's, only the main rank's files are kept. The program is told once."""

import functools
import os
import re

import torch

from ..run import knows_who_it_is


def _is_beneath(path, folder):
    return os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)


def _by_each(run):
    """Does each node save here, without asking for its rank? Rank 0 may have asked."""
    return run.rank > 0 or not knows_who_it_is()


def watch(run):
    """Call it after joining."""
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
