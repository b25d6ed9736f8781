"""Uploaded data sets: which are accepted or refused, who may upload, what is kept, and that a job
trains on one, which cannot be deleted until then."""
import io
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
from disk import SmallDisk  # noqa: E402
from service import Service  # noqa: E402
from test_fetch import png  # noqa: E402
from test_program_upload import MIB, TOKENS, digest_of, errors, packed  # noqa: E402

np = pytest.importorskip("numpy", reason="python3-numpy is not installed")


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def stripes(samples=30, **more):
    """A data set whose label is the bright row."""
    files = {}
    for prefix, n in (("", samples), ("test_", 6)):
        y = np.arange(n) % 3
        x = np.zeros((n, 8, 8), np.uint8)
        x[np.arange(n), 2 * y] = 255
        files |= {prefix + "x.npy": npy(x), prefix + "y.npy": npy(y)}
    return files | more


def upload(service, name, archive, role="operator", kind="application/x-tar"):
    return service.http.post(
        f"{service.url}/api/v1/datasets", params={"name": name}, data=archive, timeout=120,
        headers={"Content-Type": kind, "Authorization": "Bearer " + TOKENS[role]})


def delete(service, name):
    return service.http.delete(f"{service.url}/api/v1/datasets/{name}", timeout=60)


def listed(service):
    return {d["path"]: d for d in service.get("datasets").json()["datasets"]}


def left_behind(service):
    return sorted(p.name for p in (service.dir / "datasets").glob(".part-*"))


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    root = tmp_path_factory.mktemp("roots")
    (root / "ours").mkdir()
    (folder / "token").write_text("admin-0123456789abcdef\n"
                                  + "".join(f"{token} {role} {role}-name\n"
                                            for role, token in TOKENS.items()))
    (folder / "token").chmod(0o600)
    with Service(folder=folder, data=root, options=["--data-uploads", "8M"]) as s:
        s.http.headers["Authorization"] = "Bearer admin-0123456789abcdef"
        yield s


def test_an_upload_is_read_listed_trained_on_and_deleted(service):
    files = stripes()
    answer = upload(service, "stripes", packed(files))
    assert answer.status_code == 201, answer.text
    kept = answer.json()
    assert (kept["path"], kept["format"], kept["samples"]) == ("stripes", "npy", 30)
    assert (kept["digest"], kept["by"], kept["files"]) == (digest_of(files), "operator-name", 4)
    assert [c["samples"] for c in kept["classes"]] == [10, 10, 10] and len(kept["examples"]) == 16
    assert service.http.get(service.url + answer.headers["Location"]).json()["samples"] == 30
    assert listed(service)["stripes"]["samples"] == 30
    again = upload(service, "stripes", packed(dict(reversed(files.items()))))
    assert (again.status_code, again.json()["uploaded"]) == (200, kept["uploaded"])
    other = upload(service, "stripes", packed(stripes(33)))
    assert other.status_code == 409 and "another data set" in other.json()["detail"]

    network = {"input": [8, 8, 1], "layers": [{"type": "flatten"}, {"type": "dense", "units": 3}]}
    job = service.submit({"model": network, "data": {"format": "npy", "path": "stripes"},
                          "workers": 1, "epochs": 20, "batching": {"global_batch": 10},
                          "optimizer": {"type": "sgd", "learning_rate": 0.5}})
    service.wait(job, "succeeded")
    assert service.job(job)["metrics"]["test_accuracy"] == 1.0
    assert delete(service, "stripes").status_code == 204
    assert "stripes" not in listed(service)
    assert delete(service, "stripes").status_code == 404
    assert left_behind(service) == []


def test_a_data_set_may_have_more_files_than_a_program(service):
    many = {f"notes/{i}": b"" for i in range(10001)}
    answer = upload(service, "many", packed(stripes(**many)))
    assert answer.status_code == 201 and answer.json()["files"] == 10005, answer.text
    assert delete(service, "many").status_code == 204


def test_what_no_job_could_read_is_refused_by_name_and_leaves_nothing(service):
    torn = stripes()
    torn["x.npy"] = torn["x.npy"][:-9]
    answer = upload(service, "torn", packed(torn))
    assert answer.status_code == 422 and "x.npy" in answer.json()["detail"], answer.text
    answer = upload(service, "notes", packed({"notes.txt": "nothing"}))
    assert answer.status_code == 422 and "not a data set" in answer.json()["detail"], answer.text
    assert "docs/data.md" in answer.json()["hint"]
    answer = upload(service, "cut", packed(stripes())[:700])
    assert answer.status_code == 400 and "byte 700" in answer.json()["detail"], answer.text
    answer = upload(service, "outside", packed({"../x.npy": b"1", **stripes()}))
    assert answer.status_code == 422 and any("'../x.npy'" in m for m in errors(answer).values())
    answer = upload(service, "within", packed(stripes(**{"x.npy/y": "1"})))
    assert answer.status_code == 422 and list(errors(answer)) == ["/x.npy~1y"], answer.text
    for name in ("", "..", "a/b", ".hidden", "-x", "x" * 65, "a:b", "é"):
        answer = upload(service, name, packed(stripes()))
        assert answer.status_code == 422, (name, answer.text)
    assert set(listed(service)) & {"torn", "notes", "cut", "outside", "within"} == set()
    assert left_behind(service) == [] and not list((service.dir / "datasets").glob("[a-z]*"))


def test_a_sample_that_no_job_could_read_is_found_wherever_it_is(service):
    """A NaN value and half a picture were accepted, and each job on them failed."""
    x = np.zeros((300, 8), np.float32)
    x[217, 3] = np.nan
    y = np.arange(300) % 3
    odd = {"x.npy": npy(x), "y.npy": npy(y), "test_x.npy": npy(x[:9]), "test_y.npy": npy(y[:9])}
    answer = upload(service, "odd", packed(odd))
    assert answer.status_code == 422, answer.text
    assert "'x.npy' has the value nan in sample 217" in answer.json()["detail"], answer.text
    pictures = {f"{c}/{i:02}.png": png(8, 40 * i) for c in ("cat", "dog") for i in range(6)}
    assert upload(service, "pictures", packed(pictures)).status_code == 201
    pictures["dog/03.png"] = pictures["dog/03.png"][:-30]
    answer = upload(service, "half", packed(pictures))
    assert answer.status_code == 422 and "'dog/03.png'" in answer.json()["detail"], answer.text
    assert delete(service, "pictures").status_code == 204 and left_behind(service) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted as root only")
def test_an_upload_that_fills_the_disk_is_told_so_however_long_it_is(tmp_path):
    """Its connection was closed without an answer once 256 MiB more had come."""
    with open(tmp_path / "long", "wb") as f:
        f.truncate(320 << 20)
    disk = SmallDisk(tmp_path / "small", 24 << 20)
    try:
        with Service(folder=disk.path) as s, open(tmp_path / "long", "rb") as long:
            answer = s.http.post(s.url + "/api/v1/datasets?name=long", data=long, timeout=120,
                                 headers={"Content-Type": "application/x-tar"})
            assert answer.status_code == 500 and "No space left" in answer.json()["detail"]
            assert "make room there" in answer.json()["hint"]
            assert "an upload was not kept" in s.text()
    finally:
        disk.remove()


def test_a_refusal_names_the_file_and_no_folder_of_the_service(service):
    whole = stripes()
    lacks = upload(service, "lacks", packed({k: v for k, v in whole.items() if k != "test_x.npy"}))
    empty = upload(service, "empty", packed(whole | {"x.npy": b""}))
    assert "cannot read data set 'lacks': there is no file 'test_x.npy'" in lacks.json()["detail"]
    assert "'x.npy' is not a .npy file: it has fewer than 10 bytes" in empty.json()["detail"]
    wrong = upload(service, "wrong", packed(whole | {"y.npy": npy(np.full(30, -1, np.int32))}))
    assert "label -1 at sample 0, at byte 128; labels are 0 to 16777215" in wrong.json()["detail"]
    assert str(service.dir) not in lacks.text + empty.text + wrong.text


def test_the_word_of_an_address_is_no_name(service):
    answer = upload(service, "samples", packed(stripes()))
    assert answer.status_code == 422 and "cannot be called 'samples'" in answer.text
    answer = delete(service, "samples")
    assert answer.status_code == 404 and "samples" in answer.json()["detail"]
    answer = service.ask("PUT", "datasets/samples")
    assert answer.status_code == 405 and answer.headers["Allow"] == "GET, HEAD, OPTIONS"


def test_a_name_that_the_operator_gave_is_refused(service):
    answer = upload(service, "ours", packed(stripes()))
    assert answer.status_code == 409 and "operator" in answer.json()["detail"]
    assert delete(service, "ours").status_code == 404


def test_what_is_kept_has_a_limit_and_the_role_operator(service):
    assert upload(service, "viewed", packed(stripes()), "viewer").status_code == 403
    noise = os.urandom(9 * MIB)
    answer = upload(service, "large", packed(stripes(**{"noise.bin": noise})))
    assert answer.status_code == 413 and "--data-uploads" in answer.json()["hint"]
    assert upload(service, "text", b"x", kind="text/plain").status_code == 415
    assert left_behind(service) == []


def test_a_data_set_that_a_waiting_job_needs_is_not_deleted(service):
    assert upload(service, "needed", packed(stripes())).status_code == 201
    network = {"input": [8, 8, 1], "layers": [{"type": "flatten"}, {"type": "dense", "units": 3}]}
    job = service.submit({"model": network, "data": {"format": "npy", "path": "needed"},
                          "workers": 1, "epochs": 100000, "batching": {"global_batch": 10}})
    answer = delete(service, "needed")
    assert answer.status_code == 409 and job in answer.json()["detail"]
    service.http.post(f"{service.url}/api/v1/jobs/{job}/cancel", timeout=60)
    service.wait(job, "cancelled")
    assert delete(service, "needed").status_code == 204
