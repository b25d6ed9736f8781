"""Stops one thread of a process, as if it did not return from a call: by ptrace(2), which the
kernel may refuse."""
import contextlib
import ctypes
import os
import pathlib

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
ALL = 0x40000000  # __WALL: also of a thread
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def thread_of(pid, name):
    return next(int(t.name) for t in pathlib.Path(f"/proc/{pid}/task").iterdir()
                if (t / "comm").read_text().strip() == name)


def ask(request, tid):
    if libc.ptrace(request, tid, None, None) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))  # its class by errno


@contextlib.contextmanager
def standing(pid, name):
    """That thread stands still meanwhile, or until its process is killed, of which nobody hears
    before the end. PermissionError: the kernel does not allow it."""
    tid = thread_of(pid, name)
    ask(SEIZE, tid)
    ask(INTERRUPT, tid)
    try:
        yield
    finally:
        try:
            ask(DETACH, tid)
        except ProcessLookupError:  # it was killed
            os.waitpid(tid, ALL)
