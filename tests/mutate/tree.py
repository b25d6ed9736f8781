"""The scratch copy of the sources, how it is built, and how a test runs in it.

    build-mutants/tree/       what git tracks, copied; make builds it twice
        build/                plain: objects and libraries that mutants are linked with
        build-coverage/       gcc --coverage: which test runs which line
    build-mutants/one/        the mutant at hand: its object, and the tests linked with it

What a mutant does is not to be trusted: it may loop, fill a disk, or leave a redis-server behind. A
test runs with a /tmp and process numbers of its own (unshare), so that the end of its first process
ends all others and its files are gone with them.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# where mutants are made
ROOMS = ("agent", "cli", "client/lib", "common", "coordinator", "http", "job", "simulator", "store",
         "worker/exchange", "worker/program")
COVERAGE = ["BUILD=build-coverage", "SAN=--coverage", "OPT=-O0"]
SANDBOX = ["unshare", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child",
           "--mount-proc", "sh", "-c",
           'mount -t tmpfs -o size=1g tmpfs /tmp && "$@"; exit $?', "sh"]
LINKER = ["-fuse-ld=lld", "-Wl,-S"] if shutil.which("ld.lld") else []  # quick, and no debug info
MEMORY_KB = 8 << 20  # a test may map so much
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none",
          "--mca", "btl_vader_single_copy_mechanism", "none"]


def environment(tree, build):
    env = dict(os.environ, EVENSTEP_BUILD=str(build), BUILD=str(build), OMP_WAIT_POLICY="passive",
               OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               CCACHE_NOHASHDIR="1")
    data = ROOT.parent / "shared" / "data"
    if data.is_dir():
        env.setdefault("EVENSTEP_DATA", str(data))
    return env


class Test:
    """A test program, or a file of tests that drives one. `programs` are what make builds: the
    test itself, and what it starts."""

    def __init__(self, name, programs, command):
        self.name, self.programs, self._command = name, programs, command

    def command(self, build):
        return [str(word).replace("BUILD", str(build)) for word in self._command]


def tests_of(tree, only=""):
    """Every test that links one of the rooms and starts no service, if its name begins so."""
    found = []
    for c in sorted(tree.glob("tests/unit/*/test_*.c")):
        name = str(c.relative_to(tree))[:-2]
        starts = ["evenstep-simulate"] if "evenstep-simulate" in c.read_text() else []
        found.append(Test(name, [name, *starts], ["BUILD/" + name]))
    for py in sorted(tree.glob("tests/simulator/test_*.py")):
        name = str(py.relative_to(tree))
        pytest = ["/usr/bin/python3", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", name]
        found.append(Test(name, ["evenstep-simulate"], pytest))
    for c in sorted(tree.glob("tests/mpi/test_*.c")):
        name = str(c.relative_to(tree))[:-2]
        for ranks in re.search(r"ranks: *([\d ]+)", c.read_text()).group(1).split():
            command = [*MPIRUN, "-np", ranks, "BUILD/" + name]
            found.append(Test(f"{name} on {ranks}", [name], command))
    return [test for test in found if test.name.startswith(only)]


class Tree:
    def __init__(self, work, only):
        self.work, self.path, self.only = work, work / "tree", only
        self.one = work / "one"
        self.one.mkdir(parents=True, exist_ok=True)

    def refresh(self):
        """Copies what differs, so that make builds no more than that."""
        names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, text=True,
                               capture_output=True).stdout.split("\0")
        for name in filter(None, names):
            source, copy = ROOT / name, self.path / name
            if source.is_file() and not (copy.exists()
                                         and copy.read_bytes() == source.read_bytes()):
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, copy)
        for copy in self.path.glob("[a-z]*/**/*.[ch]"):
            name = str(copy.relative_to(self.path))
            if name not in names and not name.startswith("build"):
                copy.unlink()

    def make(self, *words):
        command = ["make", "-s", "-j2", "CUDA=0", *words]
        subprocess.run(command, cwd=self.path, check=True, env=environment(self.path, "build"))

    def tests(self):
        return tests_of(self.path, self.only)

    def programs(self):
        return sorted({program for t in self.tests() for program in t.programs})

    def build(self):
        programs = self.programs()
        self.make("BUILD=build", *[f"build/{p}" for p in programs])
        self.make(*COVERAGE, *[f"build-coverage/{p}" for p in programs])

    def commands(self):
        """{output: words}: every compiler and linker call that make would make for the tests. They
        are asked of make, so that flags are never said twice."""
        programs = [f"build/{p}" for p in self.programs()]
        said = subprocess.run(["make", "-n", "-B", "CUDA=0", *programs], cwd=self.path, check=True,
                              text=True, capture_output=True,
                              env=environment(self.path, "build")).stdout
        found = {}
        for line in said.replace("\\\n", " ").splitlines():
            if line.startswith(("gcc ", "mpicc ")) and " -o " in line:
                words = shlex.split(line)
                found[words[words.index("-o") + 1]] = words
        return found

    def run(self, test, build, seconds):
        """(exit status, seconds); status None: it was ended at its time limit. A test program of
        many cases is ended at the first that fails."""
        begun = time.monotonic()
        limits = ["prlimit", f"--as={MEMORY_KB << 10}", "--core=0", *SANDBOX]
        path = self.work / "last-test.log"
        with open(path, "wb") as log:
            process = subprocess.Popen([*limits, *test.command(build)], cwd=self.path,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       env=environment(self.path, build))
            try:
                status = wait(process, path, begun + seconds)
            finally:
                process.kill()  # the end of unshare ends all that the test started
                process.wait()
        return status, time.monotonic() - begun


def wait(process, log, deadline):
    """The exit status, 1 as soon as the log says that a case failed, None at the deadline."""
    pause = 0.02
    while time.monotonic() < deadline:
        try:
            return process.wait(pause)
        except subprocess.TimeoutExpired:
            if b"[  FAILED  ]" in log.read_bytes():
                return 1
            pause = min(2 * pause, 0.5)
    return None


class Builder:
    """Compiles one file and links the tests that have it, with the object and the programs in `one`
    instead of where make puts them."""

    def __init__(self, tree, path, commands):
        self.tree, self.path, self.commands = tree, path, commands
        self.object = "build/" + path[:-2] + ".o"
        self.plain = self._compile((tree.path / path).read_text())

    def _run(self, words):
        return subprocess.run(words, cwd=self.tree.path, capture_output=True).returncode == 0

    def _compile(self, text):
        """The object's bytes, or None where it does not compile. The original is compiled from the
        same place, since messages name the file."""
        source, out = self.tree.one / self.path, self.tree.one / "mutant.o"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        words = [w for w in self.commands[self.object] if w not in ("-MMD", "-MP", "-g")]
        words[words.index("-c") + 1] = str(source)
        words[words.index("-o") + 1] = str(out)
        return out.read_bytes() if self._run([*words, "-w"]) else None

    def compile(self, text):
        """'not compiled', 'same code' (the compiler sees no difference), or 'other code'."""
        code = self._compile(text)
        if code is None:
            return "not compiled"
        return "same code" if code == self.plain else "other code"

    def link(self, program):
        """False: it cannot be linked. The mutant's object comes before the libraries, so that the
        linker does not take the original from its library, and in place of the original where a
        program has it for itself. A program that does not have the file stays as it is."""
        words, out = list(self.commands["build/" + program]), self.tree.one / program
        out.parent.mkdir(parents=True, exist_ok=True)
        library = f"build/lib{self.path.split('/')[0]}.a"
        if self.object not in words and library not in words:
            shutil.copy2(self.tree.path / "build" / program, out)
            return True
        words = [w for w in words if w != self.object]
        words[words.index("-o") + 1] = str(out)
        first = next(i for i, w in enumerate(words) if w.endswith(".a"))
        mutant = [*LINKER, str(self.tree.one / "mutant.o")]
        return self._run(words[:first] + mutant + words[first:])
