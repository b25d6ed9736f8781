"""Which test runs which line, and how long each test takes: every test runs once in a build with
gcc's --coverage, and gcov says which lines were executed. A mutant on a line that no test runs has
survived without a run; one on another line concerns only the tests that run it.
"""
import hashlib
import json
import subprocess

from tree import ROOMS


def fingerprint(tree):
    """Of all that the answer depends on."""
    digest = hashlib.sha256(repr(tree.only).encode())
    for path in sorted(tree.path.glob("[a-z]*/**/*")):
        rest = path.relative_to(tree.path)
        if rest.parts[0].startswith("build") or not path.is_file():
            continue
        if path.suffix in (".c", ".h", ".py", ".def", ".lua") or path.name == "Makefile":
            digest.update(str(rest).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def lines_run(tree):
    """{file: lines that ran since the counters were last removed}, of the rooms in which mutants
    are made; removes the counters."""
    counters = [str(p) for room in ROOMS
                for p in (tree.path / "build-coverage" / room).rglob("*.gcda")
                if p.stat().st_size > 0]  # else a process was killed before it had written it
    lines = {}
    if counters:
        said = subprocess.run(["gcov", "--json-format", "--stdout", *counters], cwd=tree.path,
                              text=True, capture_output=True, check=True).stdout
        for document in filter(None, said.splitlines()):
            for file in json.loads(document)["files"]:
                ran = {line["line_number"] for line in file["lines"] if line["count"]}
                lines.setdefault(file["file"], set()).update(ran)
    for path in (tree.path / "build-coverage").rglob("*.gcda"):
        path.unlink()
    return lines


def measure(tree, say):
    """{"seconds": {test: seconds}, "lines": {file: {line: [tests]}}}; a test that fails or is
    skipped as it is takes no part."""
    build, found = tree.path / "build-coverage", {"seconds": {}, "lines": {}}
    lines_run(tree)
    for test in tree.tests():
        status, seconds = tree.run(test, build, 600)
        lines = lines_run(tree)
        if status != 0:
            say(f"{test.name} does not pass as it is (status {status}): it is left out")
            continue
        say(f"{test.name}: {seconds:.1f} s")
        found["seconds"][test.name] = seconds
        for file, numbers in lines.items():
            for n in numbers:
                found["lines"].setdefault(file, {}).setdefault(str(n), []).append(test.name)
    return found


def load(tree, say):
    """What was measured of the same sources before, or measured now."""
    cache, key = tree.work / "coverage.json", fingerprint(tree)
    if cache.exists():
        kept = json.loads(cache.read_text())
        if kept["key"] == key:
            return kept
    found = {"key": key, **measure(tree, say)}
    cache.write_text(json.dumps(found))
    return found
