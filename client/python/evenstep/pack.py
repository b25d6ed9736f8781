"""A program's folder as a tar archive, as the service takes it: the same files and the same bytes
as `evenstep run` packs (cli/run/files.h and cli/run/ignore.h say which files; a test compares the
two).
"""

import collections
import fnmatch
import os
import stat
import subprocess

MOST = 64 << 20
FILES_MOST, FOLDERS_MOST = 10000, 20000
GIT_SECONDS = 60
ALWAYS = (".git", "__pycache__/", "*.pyc", "evenstep-data/")
IGNORE = ".evenstepignore"


class PackError(ValueError):
    pass


# ---- which files


def _patterns(folder):
    patterns = list(ALWAYS)
    path = os.path.join(folder, IGNORE)
    if os.path.exists(path) and not os.path.isfile(path):
        raise PackError("'%s' is not a file" % path)
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="surrogateescape") as lines:
            for line in (line.rstrip(" \t\r\n") for line in lines):
                if line.startswith("!"):
                    raise PackError("%s: '%s': patterns that begin with ! are not supported"
                                    % (path, line))
                if line and not line.startswith("#"):
                    patterns.append(line)
    return patterns


def _matches_one(pattern, path, is_folder):
    if len(pattern) > 1 and pattern.endswith("/"):
        if not is_folder:
            return False
        pattern = pattern[:-1]
    if "/" not in pattern:
        return fnmatch.fnmatchcase(path.rsplit("/", 1)[-1], pattern)
    globs, names = pattern.removeprefix("/").split("/"), path.split("/")
    return len(globs) == len(names) and all(map(fnmatch.fnmatchcase, names, globs))


def _is_ignored(patterns, path, is_folder):
    names = path.split("/")
    return any(
        _matches_one(pattern, "/".join(names[:n]), n < len(names) or is_folder)
        for n in range(1, len(names) + 1)
        for pattern in patterns
    )


def _is_environment(folder):
    return os.path.exists(os.path.join(folder, "pyvenv.cfg"))


class _Search:
    def __init__(self, folder, patterns):
        self.folder, self.patterns, self.found, self.folders = folder, patterns, {}, 0

    def walk(self, below):
        """below: relative, "" for the folder itself."""
        full = os.path.join(self.folder, below)
        if below and _is_environment(full):
            return
        self.folders += 1
        self._limit(self.folders, FOLDERS_MOST, "folders")
        for name in os.listdir(full):
            self.add(below + "/" + name if below else name)

    def add(self, path):
        full = os.path.join(self.folder, path)
        try:
            about = os.lstat(full)
        except FileNotFoundError:  # git tracks it, but it was removed
            return
        if _is_ignored(self.patterns, path, stat.S_ISDIR(about.st_mode)):
            return
        if stat.S_ISLNK(about.st_mode):
            about = self._behind_link(path, full)
        if stat.S_ISDIR(about.st_mode):
            self.walk(path)
        elif stat.S_ISREG(about.st_mode):
            self.found[path] = about
            self._limit(len(self.found), FILES_MOST, "files")

    def _limit(self, n, most, what):
        if n > most:
            tops = collections.Counter(path.split("/")[0] for path in self.found if "/" in path)
            folder, there = max(tops.items(), key=lambda one: one[1], default=(".", 0))
            raise PackError(
                "the folder '%s' has more than %d %s; of the files that were found %d are in '%s'; "
                "a line of %s leaves a folder out"
                % (self.folder, most, what, there, folder, IGNORE)
            )

    def listed(self, paths, within=""):
        """What git lists in the folder `within`. A folder in that list is another repository, such
        as a submodule, which is asked itself; a submodule that was not fetched is an empty
        folder."""
        for path in (os.path.join(within, path) for path in paths):
            full = os.path.join(self.folder, path)
            if self.in_environment(path):
                continue
            if os.path.islink(full) or not os.path.isdir(full):
                self.add(path)
            elif not _is_ignored(self.patterns, path, True):
                inner = _ask_git(full) if os.path.exists(os.path.join(full, ".git")) else None
                self.walk(path) if inner is None else self.listed(inner, path)

    def _behind_link(self, path, full):
        real, why = os.path.realpath(full), None
        if not os.path.exists(real):
            why = "it leads nowhere"
        elif not real.startswith(self.folder + "/"):
            why = "it leaves the program's folder"
        elif not os.path.isfile(real):
            why = "it leads to something else than a file"
        if why:
            raise PackError(
                "the link '%s' cannot be packed: %s; a line of %s leaves it out"
                % (path, why, IGNORE)
            )
        return os.stat(real)

    def in_environment(self, path):
        names = path.split("/")[:-1]
        return any(
            _is_environment(os.path.join(self.folder, *names[: n + 1])) for n in range(len(names))
        )


def _ask_git(folder):
    """The files that git tracks, and new files that it does not ignore. None: git is not installed,
    or the folder is in no work tree. git answers for this folder whoever owns it and whatever a
    hook's GIT_ variables say, and runs no command from the folder's configuration."""
    command = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", folder]
    command += ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    kept = {k: os.environ[k] for k in ("PATH", "HOME", "XDG_CONFIG_HOME") if k in os.environ}
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, env=kept, timeout=GIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise PackError(
            "git has not listed the files of '%s' within %d s" % (folder, GIT_SECONDS)
        ) from None
    except OSError:
        return None
    if done.returncode != 0:
        return None
    return [os.fsdecode(path).rstrip("/") for path in done.stdout.split(b"\0") if path]


def find(folder, leave_out=None):
    """{path: os.stat_result} of the packed files, in the order of the paths' bytes."""
    folder = os.path.realpath(folder)
    patterns = _patterns(folder)
    out = os.path.realpath(leave_out) if leave_out else ""
    if out.startswith(folder + "/"):
        patterns.append(out[len(folder) :] + "/")
    search = _Search(folder, patterns)
    listed = _ask_git(folder)
    if listed is None:
        search.walk("")
    else:
        search.listed(listed)
    return dict(sorted(search.found.items(), key=lambda one: os.fsencode(one[0])))


# ---- the archive


def fill(size):
    """Zeros that fill the block after n bytes."""
    return bytes(-size % 512)


def _filled(data):
    return data + fill(len(data))


def _header(prefix, name, kind, executable, size):
    fields = (
        name[:100].ljust(100, b"\0"),
        b"0000755\0" if executable else b"0000644\0",
        b"0000000\0" * 2,
        b"%011o\0" % size,
        b"%011o\0" % 0,
        b" " * 8,
        kind,
        bytes(100) + b"ustar\00000" + bytes(64),
        b"0000000\0" * 2,
        prefix.ljust(155, b"\0") + bytes(12),
    )
    block = b"".join(fields)
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def head(path, executable, size):
    prefix, name, long = b"", path, b""
    if len(path) > 100:
        cut = path.find(b"/", len(path) - 101)
        if 0 < cut <= 155 and cut + 1 < len(path):
            prefix, name = path[:cut], path[cut + 1 :]
        else:
            rest = len(b" path=\n") + len(path)
            length = rest + 1
            while length != rest + len(str(length)):
                length += 1
            record = b"%d path=%s\n" % (length, path)
            long = _header(b"", b"PaxHeader", b"x", False, length) + _filled(record)
    return long + _header(prefix, name, b"0", executable, size)


def _entry(path, executable, content):
    return head(path, executable, len(content)) + _filled(content)


def pack(folder, leave_out=None):
    """The archive's bytes. leave_out: a folder for results, which is not packed."""
    folder = os.path.realpath(folder)
    files = find(folder, leave_out)
    largest = sorted(files.items(), key=lambda one: -one[1].st_size)[:5]
    too_large = PackError(
        "the folder '%s' is more than %d MiB packed; its largest files: %s; a line of %s leaves "
        "one out"
        % (
            folder,
            MOST >> 20,
            ", ".join("%s (%.1f MiB)" % (path, st.st_size / (1 << 20)) for path, st in largest),
            IGNORE,
        )
    )
    if sum(512 + st.st_size for st in files.values()) > MOST:
        raise too_large
    parts = []
    for path, about in files.items():
        with open(os.path.join(folder, path), "rb") as file:
            parts.append(
                _entry(os.fsencode(path), bool(about.st_mode & stat.S_IXUSR), file.read())
            )
    archive = b"".join(parts) + bytes(1024)
    if len(archive) > MOST:
        raise too_large
    return archive
