"""A machine that loses its power: all of its processes end at one moment, so that none of them sees
another's end and does something about it."""
import contextlib
import os
import pathlib
import signal

from service import proc_file, until


def processes_in(kind, namespace):
    """Pids of the processes in this namespace, a file of /proc or an open one; without our own, of
    which a thread may be there."""
    inode, found = os.stat(namespace).st_ino, []
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended, or is about to
            if os.stat(p / "ns" / kind).st_ino == inode and int(p.name) != os.getpid():
                found.append(int(p.name))
    return found


def lose_power(kind, namespace, stays=()):
    """Ends all that is in there, but for these."""
    def left():
        return [p for p in processes_in(kind, namespace) if p not in stays and not _is_over(p)]

    ended = set()
    while pids := set(left()) - ended:  # one that was started meanwhile is in the next turn
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        ended |= pids
    for pid in ended:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until("all have ended", lambda: not left(), 30)
    return len(ended)


def _is_over(pid):
    """It waits to be reaped, or is gone."""
    state = proc_file(pid, "stat").rpartition(b")")[2].split()[:1]
    return not state or state[0] in (b"Z", b"X")
