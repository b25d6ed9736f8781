"""The client of the REST API against a real service."""

import json
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tree import ROOT

sys.path[:0] = [os.path.join(ROOT, "client/python"), os.path.join(ROOT, "tests/integration")]

from evenstep.client import Client, ServiceError  # noqa: E402
from evenstep.pack import PackError  # noqa: E402
from service import Service, free_port, spec, until  # noqa: E402


@pytest.fixture(scope="module")
def client():
    with Service() as service:
        yield Client(service.url, service.token)


def test_a_job_is_submitted_awaited_and_its_series_read(client):
    job = client.submit(spec())
    states = []
    ended = client.wait(job["id"], timeout=120, shown=lambda job: states.append(job["state"]))
    assert ended["state"] == states[-1] == "succeeded"
    curves = client.series(job["id"], "train_loss", "batch")
    loss = curves["train_loss"]
    assert len(loss["x"]) == len(loss["mean"]) > 1
    assert all(loss["min"] <= loss["mean"]) and all(loss["mean"] <= loss["max"])
    assert {name for name in curves if name.startswith("batch@")} == {"batch@a", "batch@b"}


def test_waiting_goes_on_where_the_service_is_away_for_a_while():
    with Service() as service:
        client, asked, refused = Client(service.url, service.token), [], []
        ask = client.job

        def ask_and_note(id):
            try:
                return ask(id)
            except OSError:
                refused.append(id)
                raise

        client.job = ask_and_note
        job = client.submit(spec(epochs=500))
        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(client.wait, job["id"], every=0.1, shown=asked.append)
            until("the job was asked for", lambda: asked)
            address = service.url
            service.kill()
            until("nobody answered", lambda: refused)
            port = address.rpartition(":")[2]
            service.options = [*service.options, "--listen", f"127.0.0.1:{port}"]
            service.start()
            assert service.url == address and not ended.done()
            client.cancel(job["id"])
            assert ended.result(timeout=60)["state"] == "cancelled"


def test_waiting_at_a_wrong_address_ends_at_once():
    begun = time.monotonic()
    with pytest.raises(OSError, match="refused"):
        Client("http://127.0.0.1:%d" % free_port(), "none").wait("0123456789abcdef")
    assert time.monotonic() - begun < 20


def test_an_error_has_the_sentences_of_the_service(client):
    with pytest.raises(ServiceError) as raised:
        client.submit(spec(strategy={"type": "sinc"}))
    assert raised.value.status == 422
    assert "/strategy/type: " in str(raised.value)
    with pytest.raises(ServiceError):
        client.job("none")


def test_waiting_ends_with_its_timeout(client):
    job = client.submit(spec(epochs=500))
    with pytest.raises(TimeoutError):
        client.wait(job["id"], timeout=0.5, every=0.1)
    client.cancel(job["id"])
    assert client.wait(job["id"], timeout=60)["state"] == "cancelled"


# ---- programs


@pytest.fixture(scope="module")
def programs():
    with Service(options=["--allow-programs"]) as service:
        yield Client(service.url, service.token)


@pytest.fixture
def folder(tmp_path):
    """A program that needs only NumPy, and files that are not packed."""
    made = tmp_path / "program"
    made.mkdir()
    for name in ("wire.py", "counting.py"):
        shutil.copy(os.path.join(ROOT, "tests/program", name), made)
    (made / "model.ckpt").write_text("left out")
    (made / ".evenstepignore").write_text("*.ckpt\n")
    return made


def counting(programs, folder, *args, **spec):
    spec = {"workers": 2, "strategy": {"type": "sync"}, **spec}
    return programs.run(str(folder / "counting.py"), *args, python="/usr/bin/python3", **spec)


def test_a_program_is_run_and_its_artifacts_are_fetched(programs, folder, tmp_path):
    results = folder / "results"
    results.mkdir()
    (results / "old.bin").write_bytes(b"not to be uploaded")
    job = counting(programs, folder, "--epochs", 2, "--rate", 0.25, output=str(results))
    assert job["name"] == "counting" and job["spec"]["program"]["args"][-1] == "0.25"
    ended = programs.wait(job["id"], timeout=120)
    assert ended["state"] == "succeeded" and ended["progress"]["samples"] == 2 * 256
    paths = programs.fetch(job["id"], str(results))
    names = {os.path.basename(path) for path in paths}
    assert {"model.safetensors", "rank-0.json"} <= names
    seen = [json.load(open(results / ("rank-%d.json" % rank)))["seen"]["1"] for rank in (0, 1)]
    assert sorted(seen[0] + seen[1]) == list(range(256))
    told = programs.ask("GET", "/jobs/%s/artifacts" % job["id"])["artifacts"]
    sizes = {os.path.basename(path): os.path.getsize(path) for path in paths}
    assert sizes == {artifact["name"]: artifact["bytes"] for artifact in told}
    assert programs.series(job["id"])["train_loss"]["x"][-1] == 8


def test_an_upload_is_named_by_what_is_in_it(programs, folder, tmp_path):
    first = programs.upload(str(folder))
    assert first["files"] == 3, "the two files and .evenstepignore"
    (folder / "model.ckpt").write_text("another one")
    assert programs.upload(str(folder))["digest"] == first["digest"]
    (folder / "wire.py").write_text("# changed")
    assert programs.upload(str(folder))["digest"] != first["digest"]


def test_a_folder_above_the_program_may_be_uploaded_and_no_other(programs, folder):
    (folder / "main").mkdir()
    (folder / "main/train.py").write_text(
        "import runpy, sys\nsys.path[0] = '.'\nrunpy.run_path('counting.py', run_name='__main__')\n"
    )
    job = programs.run(
        str(folder / "main/train.py"), "--epochs", 1, folder=str(folder), python="/usr/bin/python3",
        workers=1, strategy={"type": "sync"},
    )
    assert job["spec"]["program"]["command"] == ["/usr/bin/python3", "main/train.py"]
    assert programs.wait(job["id"], timeout=120)["state"] == "succeeded"
    with pytest.raises(ValueError, match="is not in the folder"):
        programs.run(str(folder / "counting.py"), folder=str(folder / "main"))


def test_a_program_beneath_the_root_folder_is_in_it(monkeypatch):
    """Its name begins with the folder's name, which ends in a slash."""
    monkeypatch.setattr("evenstep.client.pack", lambda *of: b"evenstep")
    monkeypatch.setattr("os.path.isfile", lambda path: True)
    client = Client("http://127.0.0.1:1", "token")
    client._upload, client.submit = lambda data: {"digest": "d"}, lambda spec: spec
    assert client.run("/train.py", folder="/")["program"]["command"] == ["python3", "train.py"]


def test_what_cannot_run_is_a_sentence(programs, client, folder):
    with pytest.raises(ServiceError) as raised:
        client.upload(str(folder))
    assert raised.value.status == 403 and "--allow-programs" in str(raised.value)
    job = counting(programs, folder, "--epochs", 2, "--fault", "exit", max_restarts=0)
    ended = programs.wait(job["id"], timeout=120)
    assert ended["state"] == "failed" and "about to exit" in ended["error"]["message"]
    with open(folder / "large.bin", "wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(PackError, match="large.bin"):
        programs.upload(str(folder))


def test_a_program_that_is_not_there_is_not_uploaded(programs, tmp_path):
    """Its folder went to the nodes, and the job failed there."""
    (tmp_path / "train.py").write_text("import evenstep\n")
    with pytest.raises(FileNotFoundError, match="cannot find the program '.*/trian.py'"):
        programs.run(str(tmp_path / "trian.py"))


def test_a_program_that_does_not_take_part_is_refused_before_it_is_sent(programs, tmp_path):
    alone = tmp_path / "plain"
    alone.mkdir()
    (alone / "train.py").write_text("import torch\n")
    with pytest.raises(PackError, match="no file .* calls evenstep: .* whole of train.py"):
        programs.run(str(alone / "train.py"))
    (alone / "steps.py").write_text("import Evenstep\n")  # a module of its does, as far as is seen
    assert programs.run(str(alone / "train.py"), max_restarts=0)["id"]
