"""A data set on its way to the service: a tar archive of a folder's files, which is made while it
is sent, or an existing archive. `evenstep datasets upload` does the same.
"""

import os
import stat

from .pack import PackError, fill, head

MOST = 1 << 30
CHUNK = 1 << 20


def _files(folder):
    """{path: bytes} of all plain files, without hidden ones."""
    found = {}

    def fail(error):
        raise error

    for at, folders, names in os.walk(folder, onerror=fail, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        here = os.path.realpath(at) + "/"
        for name in folders:
            if here.startswith(os.path.realpath(os.path.join(at, name)) + "/"):
                raise PackError(
                    "the link '%s' leads to a folder above it" % os.path.join(at, name)
                )
        for name in names:
            path = os.path.join(at, name)
            if name.startswith("."):
                continue
            about = os.stat(path)
            if not stat.S_ISREG(about.st_mode):
                raise PackError("'%s' is not a plain file" % path)
            found[os.path.relpath(path, folder)] = about.st_size
    return dict(sorted(found.items(), key=lambda one: os.fsencode(one[0])))


def _pieces(folder, files):
    for path, size in files.items():
        yield head(os.fsencode(path), False, size)
        with open(os.path.join(folder, path), "rb") as file:
            left = size
            while left > 0 and (data := file.read(min(left, CHUNK))):
                left -= len(data)
                yield data
            if left > 0 or file.read(1):
                raise PackError("'%s' was changed while it was sent" % path)
        yield fill(size)
    yield bytes(1024)


def _content(path):
    with open(path, "rb") as file:
        while data := file.read(CHUNK):
            yield data


def bundle(path):
    """Returns the archive's length, and its pieces."""
    if os.path.isdir(path):
        files = _files(path)
        if not files:
            raise PackError("the folder '%s' has no file to send" % path)
        size = 1024 + sum(
            len(head(os.fsencode(name), False, n)) + n + len(fill(n)) for name, n in files.items()
        )
        pieces = _pieces(path, files)
    else:
        size, pieces = os.path.getsize(path), _content(path)
    if size > MOST:
        raise PackError(
            "'%s' is %.1f MiB packed, and at most %d MiB can be sent"
            % (path, size / (1 << 20), MOST >> 20)
        )
    return size, pieces
