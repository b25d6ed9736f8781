"""Data sets from the command line and from Python: what is sent, what is not, what is refused
before a byte is sent, and how it looks on a terminal."""
import io
import json
import os
import pty
import sys
import tarfile
import threading

import pytest

from programs import ROOT
from service import Service
from test_cli import EVENSTEP, run
from test_data_upload import listed, stripes
from test_program_upload import digest_of, packed

sys.path.insert(0, str(ROOT / "client" / "python"))
from evenstep.client import Client, ServiceError  # noqa: E402
from evenstep.pack import PackError               # noqa: E402


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Service(data=tmp_path_factory.mktemp("roots")) as s:
        yield s


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def folder(tmp_path):
    """A data set with a hidden file, an empty one, one of several blocks with a long name, and a
    link."""
    files = stripes(**{"notes/" + "n" * 120 + ".txt": b"x" * 70000, "notes/none": b""})
    made = write(tmp_path / "set", files)
    write(made, {".hidden": b"1", ".git/config": b"1"})
    os.rename(made / "y.npy", tmp_path / "labels")
    (made / "y.npy").symlink_to(tmp_path / "labels")
    return made, files


def test_a_folder_is_uploaded_listed_shown_and_deleted(service, folder):
    made, files = folder
    out, err, status = run("datasets", "upload", "bars", str(made), service=service)
    assert (status, err) == (0, ""), "without a terminal there is no progress"
    assert out.startswith("bars: npy, 30 training samples\n") and "10" in out
    again = json.loads(run("datasets", "upload", "bars", str(made), "--json", service=service)[0])
    assert (again["digest"], again["files"]) == (digest_of(files), len(files))
    assert run("datasets", "-q", service=service)[0] == "bars\n"
    assert run("datasets", "show", "bars", service=service)[0] == out
    shown = json.loads(run("datasets", "show", "bars", "--json", service=service)[0])
    assert [c["samples"] for c in shown["classes"]] == [10, 10, 10]
    _, err, status = run("datasets", "show", "bar", service=service)
    assert status == 6 and "did you mean 'bars'?" in err
    _, err, status = run("datasets", "delete", "bras", service=service)
    assert status == 6 and "did you mean 'bars'?" in err
    out, err, status = run("datasets", "delete", "bars", service=service)
    assert (out, err, status) == ("bars deleted\n", "", 0) and not listed(service)


def test_an_archive_is_sent_as_it_is(service, folder, tmp_path):
    archive = tmp_path / "set.tar"
    archive.write_bytes(packed(stripes(), tarfile.PAX_FORMAT))
    out, _, status = run("datasets", "upload", "packed", str(archive), service=service)
    assert status == 0 and out.startswith("packed: npy")
    assert run("datasets", "delete", "packed", service=service)[2] == 0


def test_what_cannot_be_sent_is_told_before_anything_is(tmp_path):
    """Nothing listens: if it had asked, the status would be 3."""
    nobody = {"EVENSTEP_URL": "http://127.0.0.1:9", "EVENSTEP_TOKEN": "x"}

    def refused(path):
        out, err, status = run("datasets", "upload", "x", str(path), **nobody)
        assert (out, status) == ("", 2), err
        return err

    assert "cannot read" in refused(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    assert "no file to send" in refused(tmp_path / "empty")
    (tmp_path / "set.tar.gz").write_bytes(b"\x1f\x8b" + bytes(600))
    assert "gunzip" in refused(tmp_path / "set.tar.gz")
    (tmp_path / "x.npy").write_bytes(bytes(600))
    assert "neither a folder nor a tar archive" in refused(tmp_path / "x.npy")
    (tmp_path / "empty" / "up").symlink_to(tmp_path / "empty")
    assert "leads to a folder above it" in refused(tmp_path / "empty")
    (tmp_path / "empty" / "up").unlink()
    (tmp_path / "empty" / "gone").symlink_to(tmp_path / "nowhere")
    assert "leads nowhere" in refused(tmp_path / "empty")
    with open(tmp_path / "large", "wb") as large:
        large.write(packed({"a": b""})[:512])
        large.truncate((1 << 30) + 1)
    assert "at most 1024 MiB" in refused(tmp_path / "large")
    _, err, status = run("datasets", "uplaod", "x", "y", **nobody)
    assert status == 2 and "did you mean `evenstep datasets upload`?" in err
    _, err, status = run("datasets", "upload", "x", **nobody)
    assert status == 2 and "takes a name, and a folder or a tar archive" in err


def test_what_no_job_could_read_is_refused_and_what_it_said_is_told_once(service, tmp_path):
    made = write(tmp_path / "torn", stripes(**{"x.npy": stripes()["x.npy"][:-9]}))
    out, err, status = run("datasets", "upload", "torn", str(made), service=service)
    assert (out, status) == ("", 7) and err.count("x.npy") == 1 and "docs/data.md" in err


def test_a_terminal_shows_how_much_was_sent_and_then_nothing(service, folder):
    ours, theirs = pty.openpty()
    pid = os.fork()
    if pid == 0:
        os.dup2(theirs, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.environ.update(EVENSTEP_URL=service.url, EVENSTEP_TOKEN=service.token)
        os.execv(EVENSTEP, [EVENSTEP, "datasets", "upload", "seen", str(folder[0])])
    os.close(theirs)
    seen = io.BytesIO()
    reader = threading.Thread(target=drain, args=(ours, seen))
    reader.start()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    reader.join()
    text = seen.getvalue().decode()
    assert "MB sent; the service reads them" in text and text.endswith("\r\x1b[K")
    assert run("datasets", "delete", "seen", service=service)[2] == 0


def drain(fd, into):
    try:
        while data := os.read(fd, 4096):
            into.write(data)
    except OSError:     # the other end was closed
        os.close(fd)


def test_python_sends_the_same(service, folder):
    made, files = folder
    client, told = Client(service.url, service.token), []
    kept = client.upload_dataset("bars", str(made), sent=lambda n, of: told.append((n, of)))
    assert kept["digest"] == digest_of(files) and told[-1][0] == told[-1][1]
    assert [d["path"] for d in client.datasets()] == ["bars"]
    assert client.dataset("bars")["samples"] == 30
    client.delete_dataset("bars")
    with pytest.raises(ServiceError) as gone:
        client.dataset("bars")
    assert gone.value.status == 404
    os.truncate(made / "x.npy", 0)
    with pytest.raises(ServiceError) as torn:
        client.upload_dataset("torn", str(made))
    assert torn.value.status == 422 and "x.npy" in str(torn.value)
    (made / "up").symlink_to(made)
    with pytest.raises(PackError, match="above it"):
        client.upload_dataset("round", str(made))
