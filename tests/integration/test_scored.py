"""What a job's model takes for what: counted once by the service, the same as an evaluation of its
file and as the job's own last evaluation, and kept."""
import base64
import json
import pathlib
import subprocess

import pytest

np = pytest.importorskip("numpy", reason="python3-numpy is not installed")
from programs import BUILD  # noqa: E402
from service import Service, spec  # noqa: E402


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Service(nodes=["a=cpu:1", "b=cpu:1"], data=tmp_path_factory.mktemp("data")) as s:
        yield s


def test_the_confusion_of_a_job_is_exact_and_kept(service):
    id = service.submit(spec(data={"format": "glyphs", "samples": 600, "test_samples": 100},
                             workers=2, epochs=1))
    done = service.wait(id, "succeeded")
    told = service.get(f"jobs/{id}/confusion").json()
    model = service.dir / "jobs" / id / "artifacts" / "model.safetensors"
    own = json.loads(subprocess.run([BUILD / "evenstep", "evaluate", model, "--json"],
                                    capture_output=True, text=True, check=True).stdout)
    assert told["confusion"] == own["confusion"] and told["model"] == "model.safetensors"
    assert sum(map(sum, told["confusion"])) == told["samples"] == 100
    assert told["right"] / 100 == pytest.approx(done["metrics"]["test_accuracy"])
    losses = [w["loss"] for w in told["worst"]]
    assert len(losses) == 16 and losses == sorted(losses, reverse=True)
    for w in told["worst"]:
        assert told["confusion"][w["label"]][w["answer"]] > 0
        picture = w["picture"]
        assert len(base64.b64decode(picture["values"])) == 28 * 28 == (
            picture["height"] * picture["width"] * picture["channels"])
    kept = service.dir / "jobs" / id / "scored.json"
    before = kept.stat().st_mtime_ns
    assert service.get(f"jobs/{id}/confusion").json() == told
    assert kept.stat().st_mtime_ns == before


def test_a_model_that_cannot_be_evaluated_says_why(service, tmp_path):
    """Its data disappear, and come back."""
    folder = pathlib.Path(service.data) / "lines"
    folder.mkdir(parents=True)
    for prefix, n in (("", 64), ("test_", 16)):
        np.save(folder / (prefix + "x.npy"), np.arange(n * 4, dtype=np.float32).reshape(n, 4) % 7)
        np.save(folder / (prefix + "y.npy"), np.arange(n) % 2)
    id = service.submit(spec(model={"input": [4], "layers": [{"type": "dense", "units": 2}]},
                             data={"format": "npy", "path": "lines"}, workers=2, epochs=1,
                             batching={"global_batch": 16, "policy": "equal"}))
    service.wait(id, "succeeded")
    folder.rename(tmp_path / "lines")
    answer = service.get(f"jobs/{id}/confusion")
    assert answer.status_code == 422 and "cannot find 'lines'" in answer.text, answer.text
    (tmp_path / "lines").rename(folder)
    told = service.get(f"jobs/{id}/confusion").json()
    assert told["samples"] == 16 and "picture" not in told["worst"][0]


def test_a_data_set_is_shown_with_counts_and_samples(service):
    folder = pathlib.Path(service.data) / "shades"
    folder.mkdir()
    for prefix, n in (("", 40), ("test_", 4)):
        y = np.arange(n) % 4 % 3
        np.save(folder / (prefix + "x.npy"),
                np.repeat(np.uint8(80 * y), 6 * 5).reshape(n, 6, 5))
        np.save(folder / (prefix + "y.npy"), y)
    (folder / "classes.txt").write_text("black\ndark\nlight\n")
    shown = service.get("datasets/samples", params={"path": "shades"}).json()
    assert [(c["name"], c["samples"]) for c in shown["classes"]] == [
        ("black", 20), ("dark", 10), ("light", 10)]
    assert len(shown["examples"]) == 16 and shown["format"] == "npy"
    for x in shown["examples"]:
        assert base64.b64decode(x["picture"]["values"]) == bytes([80 * x["label"]]) * 30
    for path in ("nowhere", "../etc", "--help", ""):
        assert service.get("datasets/samples", params={"path": path}).status_code == 404, path


def test_folders_of_the_host_are_named_to_who_may_put_data_there(service):
    def asked(role):
        token = service.post("tokens", {"name": role, "role": role}).json()["token"]
        return service.get("datasets/samples", params={"path": "nowhere"},
                           headers={"Authorization": "Bearer " + token})
    viewer, operator = asked("viewer"), asked("operator")
    assert viewer.json()["detail"] == "cannot find 'nowhere' beneath the data folders"
    assert str(service.data) not in viewer.text and str(service.dir) not in viewer.text
    assert f"are {service.data}:{service.dir}/datasets; EVENSTEP_DATA" in operator.json()["hint"]
    told = service.post("jobs", spec(data={"format": "idx", "path": "nowhere"})).json()["errors"]
    assert f"folders; the data folders are {service.data}:" in told[0]["message"]


def test_a_job_without_a_model_says_so(service):
    id = service.submit(spec(workers=2, epochs=10_000))
    answer = service.get(f"jobs/{id}/confusion")
    service.post(f"jobs/{id}/cancel", {})
    service.wait(id, "cancelled")
    assert answer.status_code == 404 and "no 'model.safetensors'" in answer.text
    assert service.get("jobs/0000000000000000/confusion").status_code == 404


def test_a_job_that_failed_has_no_model_and_none_is_promised(service):
    """The page promised it for "when the job ends"."""
    id = service.submit(spec(name="slow", epochs=5000, max_seconds=1))
    service.wait(id, "failed")
    told = service.get(f"jobs/{id}/confusion").json()
    assert told["hint"] == "it is written when a job ends well", told
