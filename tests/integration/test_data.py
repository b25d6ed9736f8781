"""Data sets through the service: what is listed, what trains, and what is refused before it is
queued, with file and byte."""
import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import sys
import tarfile

import pytest

np = pytest.importorskip("numpy", reason="python3-numpy is not installed")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import plain  # noqa: E402
from service import Service, spec, until  # noqa: E402

TRAIN, TEST = 600, 200
NAMES = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]


def drawn(n, seed, side=32, channels=3, classes=10):
    """Patterns with noise, one per class."""
    patterns = np.random.default_rng(5).integers(0, 256, (classes, side, side, channels))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return np.clip(patterns[y] * 0.6 + rng.integers(0, 102, (n, side, side, channels)), 0,
                   255).astype(np.uint8), y


def cifar_files():
    x, y = drawn(TRAIN + TEST, 1)
    records = [bytes([label]) + p.transpose(2, 0, 1).tobytes() for p, label in zip(x, y)]
    parts = [records[i * TRAIN // 5:(i + 1) * TRAIN // 5] for i in range(5)] + [records[TRAIN:]]
    return {name: b"".join(part) for name, part in zip(NAMES, parts)}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    (root / "files").mkdir()
    for name, blob in cifar_files().items():
        (root / "files" / name).write_bytes(blob)
    (root / "archive").mkdir()
    with tarfile.open(root / "archive/cifar-10-binary.tar.gz", "w:gz") as tar:
        for name, blob in reversed(cifar_files().items()):
            member = tarfile.TarInfo("cifar-10-batches-bin/" + name)
            member.size = len(blob)
            tar.addfile(member, io.BytesIO(blob))
    for part, n in (("train", TRAIN), ("t10k", TEST)):
        x, y = drawn(n, n, 28, 1)
        plain.write_idx(root / "digits", part, x, y)
    (root / "vectors").mkdir()
    rng = np.random.default_rng(2)
    for prefix, n in (("", TRAIN), ("test_", TEST)):
        x = rng.normal(0, 1, (n, 6)).astype(np.float32)
        np.save(root / "vectors" / (prefix + "x.npy"), x)
        np.save(root / "vectors" / (prefix + "y.npy"),
                (x[:, :1] * 2 - x[:, 1:2]).astype(np.float32))
    return root


@pytest.fixture(scope="module")
def service(root):
    with Service(data=root) as s:
        yield s


SMALL = {"input": [32, 32, 3],
         "layers": [{"type": "conv2d", "filters": 8, "kernel": 5, "stride": 2, "name": "conv"},
                    {"type": "batch_norm"},
                    {"type": "relu"}, {"type": "global_average_pool"},
                    {"type": "dense", "units": 10, "name": "head"}]}
LINEAR = {"input": [32, 32, 3], "layers": [{"type": "dense", "units": 10}]}


def cifar(path="files", **changes):
    job = spec(model=LINEAR, data={"format": "cifar-10", "path": path}, epochs=3,
               optimizer={"type": "sgd", "learning_rate": 0.01})
    job.update(changes)
    return job


def weights(service, id):
    return plain.load(service.dir / "jobs" / id / "artifacts" / "model.safetensors")


def test_the_service_lists_data_sets_with_shape_classes_samples_and_digest(service, root):
    def complete():
        found = {d["path"]: d for d in service.get("datasets").json()["datasets"]}
        return found if all(d["digest"] for d in found.values()) else None
    found = until("every digest is known", complete, 60)
    assert set(found) == {"files", "archive", "digits", "vectors"}
    assert found["files"] == {"path": "files", "format": "cifar-10", "shape": [32, 32, 3],
                              "classes": 10, "samples": TRAIN, "test_samples": TEST,
                              "digest": found["files"]["digest"]}
    assert found["archive"]["digest"] == found["files"]["digest"] and found["digits"]["shape"] == [
        28, 28, 1]
    x, y = drawn(TRAIN + TEST, 1)
    sha = hashlib.sha256(f"3 32 32 3 1 1 0 {TRAIN} {TEST}\n".encode())
    for part in (slice(0, TRAIN), slice(TRAIN, None)):
        sha.update(x[part].tobytes() + y[part].astype("<i4").tobytes())
    assert found["files"]["digest"] == sha.hexdigest()


def test_an_array_is_the_same_however_numpy_saved_it(tmp_path):
    """Byte order, Fortran order, width, compression: the digest covers the values. Truncated and
    altered files are reported."""
    rng = np.random.default_rng(3)
    values = {"x": rng.normal(0, 1, (60, 5, 4, 3)).astype(np.float16), "y": rng.integers(0, 3, 60),
              "test_x": rng.normal(0, 1, (20, 5, 4, 3)).astype(np.float16),
              "test_y": rng.integers(0, 3, 20)}
    ways = {"plain": lambda a: a.astype("<f4"), "half": lambda a: a,
            "big": lambda a: a.astype(">f8"),
            "fortran": lambda a: np.asfortranarray(a.astype(">f4"))}
    for way, change in ways.items():
        (tmp_path / way).mkdir()
        for name, a in values.items():
            np.save(tmp_path / way / (name + ".npy"),
                    change(a) if a.ndim > 1 else a.astype(">i2" if way == "big" else "<i8"))
    for folder, order in (("packed", "big"), ("torn", "big"), ("altered", "plain"), ("bytes", None),
                          ("bytes-fortran", None)):
        (tmp_path / folder).mkdir()
        for name, a in values.items():
            if order:
                blob = gzip.compress((tmp_path / order / (name + ".npy")).read_bytes())
                blob = blob[:-20] if (folder, name) == ("torn", "x") else blob[:-6] + bytes(
                    [blob[-6] ^ 1]) + blob[-5:] if (folder, name) == ("altered", "x") else blob
                (tmp_path / folder / (name + ".npy.gz")).write_bytes(blob)
            else:
                a = (np.abs(a) * 50).astype(np.uint8) if a.ndim > 1 else a
                np.save(tmp_path / folder / (name + ".npy"),
                        np.asfortranarray(a) if folder == "bytes-fortran" else a)
    with Service(data=tmp_path, nodes=("a=cpu:1",)) as s:
        found = until("every digest is known",
                      lambda: (f := {d["path"]: d["digest"]
                                     for d in s.get("datasets").json()["datasets"]})
                      and all(f.get(k) for k in (*ways, "packed", "bytes", "bytes-fortran")) and f,
                      60)
        assert {found[way] for way in (*ways, "packed")} == {found["plain"]}
        assert found["bytes"] == found["bytes-fortran"] != found["plain"]
        model = {"input": [5, 4, 3], "layers": [{"type": "dense", "units": 3}]}
        for folder, words in (("torn", "'x.npy' ends after value"),
                              ("altered", "'x.npy': incorrect data check")):
            answer = s.post("jobs",
                            spec(model=model, data={"format": "npy", "path": folder}, workers=1,
                                 batching={"global_batch": 20}))
            told = answer.text if answer.status_code == 422 else s.wait(
                answer.json()["id"], "failed")["error"]["message"]
            assert words in told, told


def test_files_and_archive_train_to_the_same_bits(service):
    ids = [service.submit(cifar(path)) for path in ("files", "archive")]
    done = [service.wait(id, "succeeded") for id in ids]
    assert done[0]["metrics"]["test_accuracy"] > 0.5
    blobs = [service.artifact(id) for id in ids]
    assert all(np.array_equal(a, b) for a, b in zip(*[plain.load(b)[1].values() for b in blobs]))


def test_numpy_finds_the_accuracy_of_a_job_with_windows_and_normalisation(service, root):
    """The artifact's metadata say what evaluation does to a picture."""
    model = {"input": [24, 24, 3], "layers": [{"type": "dense", "units": 10}]}
    x, y = drawn(TRAIN + TEST, 1)
    for normalize in ({"mean": [0.5, 0.4, 0.3], "deviation": [0.2, 0.25, 0.3]}, "picture", "unit"):
        job = cifar(model=model,
                    augment={"crop": {}, "flip": {"probability": 0.1}, "shift": {"pixels": 1}})
        job["data"]["normalize"] = normalize
        id = service.submit(job)
        done = service.wait(id, "succeeded")
        meta, tensors = weights(service, id)
        assert json.loads(meta["crop"]) == [24, 24]
        right, ties = plain.count_right(
            plain.forward(json.loads(meta["network"]), tensors, plain.normalise(x[TRAIN:], meta)),
            y[TRAIN:])
        assert abs(right - done["metrics"]["test_accuracy"] * TEST) <= ties + 1e-6, normalize


def test_augmented_training_is_the_same_however_it_is_divided(service):
    """Three workers with unequal minibatches against one: the pictures are the same, so the weights
    agree within rounding."""
    recipe = {"crop": {"padding": 4}, "flip": {}, "shift": {"pixels": 2, "fill": "edge"}}
    one = service.submit(cifar(augment=recipe, workers=1, batching={"global_batch": 60}))
    two = service.submit(
        cifar(augment=recipe, workers=2,
              batching={"global_batch": 60, "policy": "static", "sizes": [47, 13]}))
    other = service.submit(cifar(workers=1, batching={"global_batch": 60}))
    for id in (one, two, other):
        service.wait(id, "succeeded")
    a, b, c = (weights(service, id)[1]["dense1.weight"] for id in (one, two, other))
    assert np.abs(a - b).max() < 1e-6 * np.abs(a).max() * 30 < np.abs(a - c).max()


def test_a_validation_share_is_evaluated_on_in_place_of_the_test_set(service):
    job = cifar(epochs=1)
    job["data"]["validation"] = 0.25
    id = service.submit(job)
    done = service.wait(id, "succeeded")
    assert done["progress"]["samples"] == TRAIN * 3 // 4
    assert abs(done["metrics"]["test_accuracy"] * TRAIN / 4
               - round(done["metrics"]["test_accuracy"] * TRAIN / 4)) < 1e-6


def test_float_targets_train_with_mean_squared_error(service):
    model = {"input": [6], "layers": [{"type": "dense", "units": 1}], "loss": "mse"}
    id = service.submit(cifar(model=model, data={"format": "npy", "path": "vectors"}, epochs=10,
                              optimizer={"type": "sgd", "learning_rate": 0.1}))
    done = service.wait(id, "succeeded")
    assert done["metrics"]["test_loss"] < 1e-3
    assert np.allclose(weights(service, id)[1]["dense1.weight"], [[2, -1, 0, 0, 0, 0]], atol=0.05)


# ---- what is refused -----------------------------------------------------------------------------


def refusal(service, job):
    answer = service.post("jobs", job)
    assert answer.status_code == 422, answer.text
    return " ".join(f"{e['pointer']} {e['message']}" for e in answer.json()["errors"])


def broken(root, name, change):
    """A copy of the files in which one has changed."""
    folder = root / name
    folder.mkdir()
    files = cifar_files()
    change(files)
    for file, blob in files.items():
        (folder / file).write_bytes(blob)
    return cifar(name)


def test_a_job_on_missing_or_torn_data_is_not_queued(service, root):
    assert "there is no file 'data_batch_3.bin'" in refusal(
        service, broken(root, "missing", lambda f: f.pop("data_batch_3.bin")))
    assert "'test_batch.bin' ends at byte 6246, within its record 3" in refusal(
        service, broken(root, "torn",
                        lambda f: f.update({"test_batch.bin": f["test_batch.bin"][:6246]})))
    assert "/data/path" in refusal(service, cifar("nowhere"))
    (root / "below").mkdir()
    (root / "below" / "outside").symlink_to("/etc")
    assert "outside the data folders" in refusal(service, cifar("below/outside"))


def test_a_data_set_behind_the_operators_link_is_listed_and_trained_on(service, root, tmp_path):
    shutil.copytree(root / "files", tmp_path / "large")
    (root / "elsewhere").symlink_to(tmp_path / "large")
    assert "elsewhere" in [d["path"] for d in service.get("datasets").json()["datasets"]]
    service.wait(service.submit(cifar("elsewhere")), "succeeded")
    (root / "elsewhere").unlink()


def test_a_label_out_of_range_fails_the_job_with_file_and_byte(service, root):
    def change(files):
        files["data_batch_2.bin"] = (files["data_batch_2.bin"][:3073 * 7] + b"\x0c"
                                     + files["data_batch_2.bin"][3073 * 7 + 1:])
    id = service.submit(broken(root, "mislabelled", change))
    done = service.wait(id, "failed")
    assert (
        "'data_batch_2.bin' has the label 12 at byte 21511 (record 8)" in done["error"]["message"])


def test_a_pipe_among_the_files_is_refused_and_holds_nobody_up(service, root):
    """Opening a pipe waits for its other end, for ever: the list of data sets would never come."""
    for folder, file in (("pipe-idx", "train-images-idx3-ubyte"), ("pipe-npy", "x.npy"),
                         ("pipe-cifar", "data_batch_4.bin")):
        source = {"pipe-idx": "digits", "pipe-npy": "vectors", "pipe-cifar": "files"}[folder]
        shutil.copytree(root / source, root / folder)
        (root / folder / file).unlink()
        os.mkfifo(root / folder / file)
        assert f"'{file}' is not a regular file" in refusal(
            service, cifar(
                data={"format": source.replace("files", "cifar-10").replace("digits", "idx")
                      .replace("vectors", "npy"), "path": folder}))
    assert "files" in [d["path"] for d in service.get("datasets").json()["datasets"]]
    os.mkfifo(root / "pipe.safetensors")
    assert ("/init" in (said := refusal(service, cifar(init="pipe.safetensors")))
            and "it is not a regular file" in said)


def test_swapped_and_altered_idx_files_are_refused(service, root):
    names = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"]
    for folder in ("swapped", "altered"):
        (root / folder).mkdir()
        for file in (root / "digits").iterdir():
            (root / folder / file.name).write_bytes(file.read_bytes())
    images, labels = ((root / "swapped" / n).read_bytes() for n in names)
    (root / "swapped" / names[0]).write_bytes(labels)
    (root / "swapped" / names[1]).write_bytes(images)
    job = spec(data={"format": "idx", "path": "swapped"})
    assert (
        "'train-images-idx3-ubyte' is not an IDX file of bytes with 3 axes: it begins with 00 00 "
        "08 01" in refusal(service, job))
    packed = bytearray(gzip.compress(images))
    packed[-6] ^= 1  # of its checksum
    (root / "altered" / names[0]).unlink()
    (root / "altered" / (names[0] + ".gz")).write_bytes(packed)
    assert "cannot read 'train-images-idx3-ubyte'" in refusal(
        service, spec(data={"format": "idx", "path": "altered"}))


def test_data_that_do_not_fit_the_network_are_refused(service):
    assert "the network has 4 outputs" in refusal(service,
                                                  cifar(model={
                                                      "input": [32, 32, 3],
                                                      "layers": [{"type": "dense", "units": 4}]}))
    assert "have the shape [32, 32, 3], the network's input is [28, 28, 1]" in refusal(
        service, cifar(model="mlp"))
    job = cifar()
    job["data"]["normalize"] = {"mean": [0.5, 0.5], "deviation": [1, 1]}
    assert "'normalize' has 2 numbers per sample, the samples have 3 channels" in refusal(
        service, job)
    assert "/augment/flipp" in refusal(service, cifar(augment={"flipp": {}}))
    assert "needs floats" in refusal(service, cifar(model=dict(LINEAR, loss="mse")))
