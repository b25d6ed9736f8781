"""deploy/fetch-data against a local server: it checks what arrives, and a wrong file never replaces
a right one."""
import functools
import gzip
import hashlib
import http.server
import os
import pathlib
import subprocess
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
         "t10k-labels-idx1-ubyte"]


@pytest.fixture
def project(tmp_path):
    """A copy of the script with checksums of small files, next to a folder that a server on
    loopback serves."""
    (tmp_path / "deploy").mkdir()
    (tmp_path / "mirror").mkdir()
    script = tmp_path / "deploy/fetch-data"
    script.write_bytes((ROOT / "deploy/fetch-data").read_bytes())
    script.chmod(0o755)
    sums = []
    for name in NAMES:
        content = name.encode() * 100
        (tmp_path / "mirror" / f"{name}.gz").write_bytes(gzip.compress(content))
        sums.append(f"mnist {hashlib.sha256(content).hexdigest()} {name}\n")
    (tmp_path / "deploy/data.sha256").write_text("".join(sums))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler,
                                directory=str(tmp_path / "mirror"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield tmp_path, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def fetch(project):
    folder, mirror = project
    return subprocess.run([folder / "deploy/fetch-data", "mnist"],
                          env={**os.environ, "EVENSTEP_MIRROR": mirror}, capture_output=True,
                          text=True, timeout=60)


def test_all_files_arrive_and_are_not_fetched_twice(project):
    assert fetch(project).returncode == 0
    for name in NAMES:
        assert gzip.decompress(
            (project[0] / "data/mnist" / f"{name}.gz").read_bytes()) == name.encode() * 100
    (project[0] / "mirror" / f"{NAMES[0]}.gz").unlink()
    again = fetch(project)
    assert again.returncode == 0 and again.stdout.count("is there already") == 4


def test_an_altered_file_is_refused_with_both_sums_and_leaves_nothing(project):
    (project[0] / "mirror" / f"{NAMES[1]}.gz").write_bytes(gzip.compress(b"something else"))
    result = fetch(project)
    assert result.returncode == 1
    assert hashlib.sha256(
        b"something else").hexdigest() in result.stderr and "was expected" in result.stderr
    assert sorted(p.name for p in (project[0] / "data/mnist").iterdir()) == [f"{NAMES[0]}.gz"]


def test_a_missing_file_is_an_error(project):
    (project[0] / "mirror" / f"{NAMES[2]}.gz").unlink()
    result = fetch(project)
    assert result.returncode == 1 and "could not be downloaded" in result.stderr


def test_the_sums_of_the_project_are_those_of_the_real_files():
    for root in filter(None, os.environ.get("EVENSTEP_DATA", "").split(":")):
        folder = pathlib.Path(root) / "mnist"
        if folder.is_dir():
            lines = [line.split() for line in (ROOT / "deploy/data.sha256").read_text()
                     .splitlines()]
            for name, digest in ((f, s) for d, s, f in lines if d == "mnist"):
                data = gzip.decompress((folder / f"{name}.gz").read_bytes())
                assert hashlib.sha256(data).hexdigest() == digest
            return
    pytest.skip("EVENSTEP_DATA has no mnist")
