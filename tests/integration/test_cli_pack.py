"""What `evenstep run` packs and sends, and that the Python client packs the same."""
import http.server
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import threading

import pytest

from command import ended, program, run  # noqa: F401
from programs import ROOT

sys.path.insert(0, str(ROOT / "client/python"))
from evenstep.pack import PackError, pack  # noqa: E402


class Taker(http.server.BaseHTTPRequestHandler):
    """Keeps what is uploaded, and refuses it."""

    def do_POST(self):
        self.server.taken = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def taker():
    with http.server.HTTPServer(("127.0.0.1", 0), Taker) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def packed_by_both(taker, folder, main):
    url = "http://127.0.0.1:%d" % taker.server_port
    _, err, status = run(folder / main, "--url", "of the program", EVENSTEP_URL=url,
                         EVENSTEP_TOKEN="x")
    assert status == 7, err
    assert taker.taken == pack(folder)
    return tarfile.open(fileobj=io.BytesIO(taker.taken))


@pytest.mark.parametrize("git", [False, True])
def test_the_command_and_the_client_in_python_pack_the_same_bytes(taker, program, git):
    long = program / ("d" * 90) / ("e" * 90)
    long.mkdir(parents=True)
    for name in ("a.txt", "f" * 200, "ü"):
        (long / name).write_text(name)
    (program / "run.sh").write_text("#!/bin/sh\n")
    (program / "run.sh").chmod(0o755)
    (program / "Z").write_bytes(bytes(511))
    (program / "y").write_bytes(bytes(512))
    (program / "linked").symlink_to("Z")
    (program / ".gitignore").write_text("y\n")
    if git:
        subprocess.run(["git", "init", "-q", str(program)], check=True)
    archive = packed_by_both(taker, program, "counting.py")
    names = archive.getnames()
    assert names == sorted(names, key=str.encode) and ("y" in names) != git
    assert "model.ckpt" not in names and "linked" in names and not any(".git/" in n for n in names)
    assert all(m.isfile() and m.uid == m.gid == m.mtime == 0 for m in archive.getmembers())
    assert archive.getmember("run.sh").mode == 0o755 and archive.getmember("Z").mode == 0o644
    assert archive.extractfile("d" * 90 + "/" + "e" * 90 + "/" + "f"
                               * 200).read().decode() == "f" * 200


def test_both_leave_out_what_a_repository_within_ignores(taker, program):
    inner = program / "lib/a b"
    inner.mkdir(parents=True)
    for name in ("ü.py", "left.out", ".gitignore"):
        (inner / name).write_text("*.out\n")
    for folder in (program, inner):
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
    names = packed_by_both(taker, program, "counting.py").getnames()
    assert names == [".evenstepignore", "counting.py", "lib/a b/.gitignore", "lib/a b/ü.py",
                     "wire.py"]


def test_pipes_files_and_folders_that_are_no_program_are_told_and_nothing_hangs(program):
    nobody = {"EVENSTEP_URL": "http://127.0.0.1:9", "EVENSTEP_TOKEN": "x"}
    os.mkfifo(program / "pipe.py")
    (program / "data").write_text("1 2 3")
    (program / "data").chmod(0o755)
    for name, said in (("pipe.py", "is not a file"), (".", "is a folder"),
                       ("data", "is not a program: it is neither a script")):
        _, err, status = run(program / name, **nobody)
        assert status == 2 and said in err, err
    (program / ".evenstepignore").unlink()
    os.mkfifo(program / ".evenstepignore")
    _, err, status = run(program / "counting.py", **nobody)
    assert status == 2 and ".evenstepignore' is not a file" in err
    with pytest.raises(PackError, match="is not a file"):
        pack(program)


def test_over_64_mib_nothing_is_sent_and_the_largest_files_are_named(taker, program):
    with open(program / "weights.bin", "wb") as f:
        f.truncate(70 << 20)
    out, err, status = run(program / "counting.py", "--url", "x", EVENSTEP_URL="http://127.0.0.1:9",
                           EVENSTEP_TOKEN="x")
    assert status == 2 and not out and "weights.bin (70.0 MiB)" in err and ".evenstepignore" in err
    with pytest.raises(PackError, match=r"weights.bin \(70.0 MiB\)"):
        pack(program)


def test_a_link_that_leaves_the_folder_is_refused_by_both(program):
    (program / "data").symlink_to("/usr/share")
    out, err, status = run(program / "counting.py", EVENSTEP_URL="http://127.0.0.1:9",
                           EVENSTEP_TOKEN="x")
    assert (status == 2 and not out
            and "the link 'data' cannot be packed: it leaves the program's folder" in err)
    with pytest.raises(PackError, match="leaves the program's folder"):
        pack(program)


def test_a_file_in_a_folder_that_is_no_project_goes_alone(taker, program):
    def packed(*more, **variables):
        out, err, _ = run(*more, program / "counting.py", EVENSTEP_TOKEN="x", **variables,
                          EVENSTEP_URL="http://127.0.0.1:%d" % taker.server_port)
        return err, sorted(tarfile.open(fileobj=io.BytesIO(taker.taken)).getnames())

    whole = [".evenstepignore", "counting.py", "wire.py"]
    assert packed()[1] == whole
    for variables in ({"HOME": str(program)}, {"PATH": f"/usr/bin:{program}"}):
        err, names = packed(**variables)
        assert names == ["counting.py"] and "packed counting.py alone" in err, err
        assert packed("--folder", program, **variables)[1] == whole
    program.chmod(0o1777)
    err, names = packed()
    assert names == ["counting.py"] and "everybody may write there" in err


@pytest.mark.skipif(not os.access("/", os.W_OK), reason="files beneath / are written by root only")
def test_a_file_beneath_the_root_goes_alone(taker, program):
    """A container's shell starts there: "the program 't.py' is not in the folder '/'"."""
    file = pathlib.Path(f"/evenstep-test-{os.getpid()}.py")
    shutil.copy(program / "counting.py", file)
    try:
        _, err, _ = run(file, EVENSTEP_TOKEN="x",
                        EVENSTEP_URL="http://127.0.0.1:%d" % taker.server_port)
        assert f"packed {file.name} alone" in err, err
        assert tarfile.open(fileobj=io.BytesIO(taker.taken)).getnames() == [file.name]
        _, err, status = run("--folder", "/", file, EVENSTEP_TOKEN="x")
        assert status == 2 and "is not in the folder '/'" in err
    finally:
        file.unlink()
