"""What the service reports is on disk: files that are written and renamed are synced with their
folders, and a job before its submission is answered. strace shows every system call that matters;
this test makes no real power cut."""
import os
import pathlib
import re
import shutil
import time

import pytest

from service import Service, spec, until

CALLS = "fsync,fdatasync,rename,renameat,renameat2,mkdir,mkdirat"
CALL = re.compile(r"(\d+\.\d+) (\w+)\((.*)\) += 0$")


class Traced(Service):
    """Traces with a file of calls per process and thread, so that no line is cut in two."""

    def wrap(self, command):
        return ["strace", "-D", "-ff", "-y", "-ttt", "-e", "trace=" + CALLS, "-o",
                str(self.dir / "calls"), *command]

    def calls(self):
        """(time, kind, path, new path) of the calls below the service's folder."""
        found = []
        for file in self.dir.glob("calls.*"):
            for line in file.read_text(errors="replace").splitlines():
                call = CALL.match(line)
                paths = call and re.findall(r'["<](/[^">]*)[">]', call.group(3))
                if paths and f"{paths[-1]}/".startswith(f"{self.dir}/"):
                    kind = re.sub("(at2?|fdata)", "", call.group(2)).replace("fsync", "sync")
                    found.append((float(call.group(1)), kind, paths[0], paths[-1]))
        return sorted(found)


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """A service that has run a job with checkpoints, and the times when the job was submitted and
    answered."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    with Traced(folder=tmp_path_factory.mktemp("synced")) as service:
        asked = time.time()
        id = service.submit(spec(checkpoint={"every_steps": 20}))
        answered = time.time()
        service.wait(id, "succeeded")
        norms = service.dir / "jobs" / id / "history/norms.bin"
        until("its history is kept", lambda: with_folder(service.calls(), norms))  # the last
    yield service.dir, id, service.calls(), asked, answered


def with_folder(calls, path, since=0):
    """Was the file synced, and its folder after it?"""
    kept = synced(calls, path, since)
    return kept and synced(calls, path.parent, kept[0])


def synced(calls, path, since, until_=float("inf")):
    return [t for t, kind, at, _ in calls if kind == "sync" and at == str(path)
            and since <= t <= until_]


def test_a_submission_is_answered_when_the_store_has_synced_it(traced):
    folder, _, calls, asked, answered = traced
    files = {at for _, kind, at, _ in calls if kind == "sync" and "appendonly" in at}
    assert any(synced(calls, file, asked, answered) for file in files), files


def test_what_is_renamed_was_synced_and_its_folder_is(traced):
    folder, id, calls, *_ = traced
    renamed = [c for c in calls if c[1] == "rename" and f"/jobs/{id}/" in c[3]]
    names = {pathlib.Path(new).parent.name for _, _, _, new in renamed}
    assert names >= {"checkpoints", "artifacts", "history", "seals"}, names
    for when, _, old, new in renamed:
        assert synced(calls, old, 0, when), f"{old} was renamed before it was on the disk"
        assert synced(calls, pathlib.Path(new).parent, when), f"{new}: its folder was not synced"


def test_a_folder_that_is_made_is_synced_with_the_one_above(traced):
    folder, id, calls, *_ = traced
    made = [c for c in calls if c[1] == "mkdir" and c[3].startswith(f"{folder}/jobs")]
    assert {pathlib.Path(path).name for _, _, _, path in made} >= {
        "jobs", id, "history", "checkpoints", "artifacts"}
    for when, _, _, path in made:
        assert synced(calls, os.path.dirname(path), when), f"{path} may be gone after a power cut"


def test_rows_are_synced_with_their_folder(traced):
    folder, id, calls, *_ = traced
    history = folder / "jobs" / id / "history"
    for name in ("rows-0.bin", "rows-1.bin", "norms.bin"):  # made with their first contents
        assert with_folder(calls, history / name), f"{name} may be gone after a power cut"
    begun = min(t for t, kind, _, at in calls if kind == "mkdir" and at == str(history))
    assert synced(calls, history / "evaluations.bin", begun) and synced(calls, history, begun)
