"""What the benches share: processes that answer lines, turns between ours and a peer's, tables.

A figure is a ratio of things measured in one run. Ours and the peers take turns, so that a machine
that slows down slows all of them; the ratio is taken turn by turn, its median is the figure and its
smallest and largest are the spread. A peer that is not installed (deploy/setup bench) is said to be
missing, and our side is measured all the same."""
import datetime
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
# what this and every bench import from them
sys.path[:0] = [str(TESTS / "integration"), str(TESTS / "lab")]
from programs import AT_ROOT, BUILD, ROOT  # noqa: E402, F401  (AT_ROOT for those who start mpirun)

PEERS = ROOT / "tests" / "bench" / "peers"
TORCH = pathlib.Path(os.environ.get("EVENSTEP_TORCH", ROOT / "run" / "venv" / "bin" / "python"))
TURNS = int(os.environ.get("TURNS") or (3 if os.environ.get("QUICK") else 7))


def settings():
    return "".join(f"{name}={os.environ[name]} " for name in ("QUICK", "TURNS")
                   if os.environ.get(name))


def have_torch():
    return TORCH.exists()


class Process:
    """A program that answers every line with a line."""

    def __init__(self, *command, env=None):
        self.command = [str(c) for c in command]
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(env or {})})

    def ask(self, line):
        return [float(x) for x in self.say(line).split()]

    def say(self, line):
        try:
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(
                f"{' '.join(self.command)} ended: {self.process.stderr.read()[-2000:]}")
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    __enter__ = lambda self: self  # noqa: E731

    def __exit__(self, *_):
        self.close()


def median(values):
    return statistics.median(values)


def spread(values, form="{:.2f}"):
    """A median with the smallest and largest."""
    return (
        f"{form.format(median(values))} ({form.format(min(values))} to {form.format(max(values))})")


def output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60,
                              check=False).stdout
    except OSError:
        return ""


def machine():
    cpu = re.search(r"Model name:\s*(.*)", output("lscpu"))
    wide = [w for w in ("avx512_bf16", "avx512f", "avx2") if w in pathlib.Path("/proc/cpuinfo")
            .read_text()]
    memory = re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return (
        f"{cpu.group(1) if cpu else platform.processor()}, {os.cpu_count()} cores "
        f"({wide[0] if wide else 'no AVX'}), {int(memory.group(1)) >> 20} GiB")


def versions():
    parts = [output(str(BUILD / "evenstep"), "--version").strip() + " ("
             + output("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD").strip() + ")"]
    for package, name in (("libdnnl2", "oneDNN"), ("openmpi-bin", "Open MPI"),
                          ("redis-server", "Redis")):
        found = output("dpkg-query", "-W", "-f=${Version}", package)
        parts += [f"{name} {found}"] if found else []
    if have_torch():
        parts.append(
            "PyTorch " + output(str(TORCH), "-W", "ignore", "-c",
                                "import torch; print(torch.__version__)").strip())
    return ", ".join(parts)


class Report:
    """A page of tables, printed as it grows and written to docs/results/NAME.md at the end."""

    def __init__(self, name, title, text):
        self.path = ROOT / "docs" / "results" / f"{name}.md"
        self.lines = []
        load = os.getloadavg()[0]
        self.add(f"# {title}", "", text, "", f"- Command: `{settings()}make {name}`",
                 f"- Machine: {machine()}", f"- Versions: {versions()}",
                 f"- When: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC, "
                 f"load average at the start {load:.1f}",
                 f"- A figure is the median of {TURNS} turns; in brackets the smallest and "
                 "largest.")
        if not have_torch():
            self.add("- PyTorch is not installed (`deploy/setup bench`): our side only.")

    def add(self, *lines):
        self.lines += lines
        print("\n".join(lines), flush=True)

    def table(self, title, columns, rows):
        """Rows may be made one by one, so that a long bench shows how far it is."""
        self.add("", f"## {title}", "", "| " + " | ".join(columns) + " |",
                 "|" + "---|" * len(columns))
        for row in rows:
            self.add("| " + " | ".join(str(c) for c in row) + " |")

    def close(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("\n".join(self.lines) + "\n")
        print(f"\nwritten to {self.path.relative_to(ROOT)}", file=sys.stderr)
