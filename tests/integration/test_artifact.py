"""A job's files, read by another program: NumPy computes the artifact's outputs by PyTorch's
conventions and finds the accuracy that the job reported; a job that starts from the file evaluates
to the same."""
import json
import os
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy", reason="python3-numpy is not installed")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import plain  # noqa: E402
from service import Service, spec  # noqa: E402

TRAIN, TEST = 4000, 1000


def drawn_digits(n, seed):
    """Ten random patterns with noise: data for machines without MNIST."""
    rng = np.random.default_rng(7)
    patterns = rng.integers(0, 256, (10, 28, 28))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, n)
    return np.clip(patterns[y] * 0.7 + rng.integers(0, 76, (n, 28, 28)), 0, 255).astype(
        np.uint8)[..., None], y


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A part of MNIST, or drawn data instead."""
    root = tmp_path_factory.mktemp("data")
    mnist = [pathlib.Path(r) / "mnist" for r in os.environ.get("EVENSTEP_DATA", "").split(":")
             if (pathlib.Path(r) / "mnist").is_dir()]
    for part, n in (("train", TRAIN), ("t10k", TEST)):
        x, y = plain.read_idx(mnist[0], part) if mnist else drawn_digits(n, n)
        plain.write_idx(root / "digits", part, x[:n], y[:n])
    return root


@pytest.fixture(scope="module")
def service(data):
    with Service(data=data) as s:
        yield s


NORMALIZE = {"mean": [0.1307], "deviation": [0.3081]}


def digits(**changes):
    job = spec(data={"format": "idx", "path": "digits"}, **changes)
    job["data"].update(changes.pop("data", {}))
    return job


@pytest.fixture(scope="module", params=["mlp", "lenet5"])
def trained(request, service):
    """(job, its artifact's metadata, its tensors)"""
    job = digits(model=request.param, epochs=2 if request.param == "mlp" else 1)
    if request.param == "lenet5":
        job["data"]["normalize"] = NORMALIZE
        job["optimizer"]["learning_rate"] = 0.01
    id = service.submit(job)
    done = service.wait(id, "succeeded")
    return done, *plain.load(service.dir / "jobs" / id / "artifacts" / "model.safetensors")


def test_numpy_finds_the_accuracy_that_the_job_reported(trained, data):
    job, meta, tensors = trained
    x, y = plain.read_idx(data / "digits", "t10k")
    logits = plain.forward(json.loads(meta["network"]), tensors, plain.normalise(x, meta))
    right, ties = plain.count_right(logits, y)
    reported = job["metrics"]["test_accuracy"] * TEST
    assert reported > 0.5 * TEST, "a network that has not learnt anything shows nothing"
    assert abs(right - round(reported)) <= ties and abs(reported - round(reported)) < 1e-6
    assert float(meta["test_accuracy"]) == pytest.approx(job["metrics"]["test_accuracy"], abs=1e-8)
    shifted = logits - logits.max(1, keepdims=True)
    loss = (np.log(np.exp(shifted).sum(1)) - shifted[np.arange(TEST), y]).mean()
    assert job["metrics"]["test_loss"] == pytest.approx(loss, rel=1e-4, abs=1e-6)


def test_tensors_have_pytorchs_names_and_shapes(trained):
    job, meta, tensors = trained
    shapes = {name: t.shape for name, t in tensors.items()}
    if job["spec"]["model"] == "mlp":
        assert shapes == {"dense1.weight": (128, 784), "dense1.bias": (128,),
                          "dense2.weight": (10, 128), "dense2.bias": (10,)}
    else:
        assert shapes == {"conv1.weight": (32, 1, 5, 5), "conv1.bias": (32,),
                          "conv2.weight": (64, 32, 5, 5), "conv2.bias": (64,),
                          "dense1.weight": (512, 3136), "dense1.bias": (512,),
                          "dense2.weight": (10, 512), "dense2.bias": (10,)}
    assert meta["kind"] == "evenstep-model" and meta["format"] == "pt" and meta["job"] == "test"
    assert meta["normalize"] == "unit" or json.loads(meta["normalize"]) == {
        k: [pytest.approx(v[0])] for k, v in NORMALIZE.items()}


def test_a_job_that_starts_from_the_artifact_evaluates_to_the_same(trained, service):
    job, meta, tensors = trained
    again = dict(job["spec"], init=job["id"] + "/model.safetensors", epochs=1, workers=1,
                 optimizer={"type": "sgd", "learning_rate": 0})
    id = service.submit(again)
    done = service.wait(id, "succeeded")
    assert done["metrics"]["test_accuracy"] == pytest.approx(
        job["metrics"]["test_accuracy"], abs=1.5 / TEST)
    assert done["metrics"]["test_loss"] == pytest.approx(job["metrics"]["test_loss"], rel=1e-5,
                                                         abs=1e-7)
    kept = plain.load(service.dir / "jobs" / id / "artifacts" / "model.safetensors")[1]
    assert all(np.array_equal(tensors[k], kept[k]) for k in tensors)


def test_a_job_starts_from_what_numpy_wrote(service, data):
    """The other direction: parameters drawn here, with PyTorch's names, without our checksum."""
    rng = np.random.default_rng(3)
    tensors = {"dense1.weight": rng.normal(0, 0.05, (128, 784)),
               "dense1.bias": rng.normal(0, 0.1, 128),
               "dense2.weight": rng.normal(0, 0.2, (10, 128)),
               "dense2.bias": rng.normal(0, 0.1, 10)}
    tensors = {k: v.astype(np.float32) for k, v in tensors.items()}
    plain.save(data / "numpy.safetensors", tensors)
    id = service.submit(
        digits(init="numpy.safetensors", epochs=1, optimizer={"type": "sgd", "learning_rate": 0}))
    done = service.wait(id, "succeeded")
    meta, kept = plain.load(service.dir / "jobs" / id / "artifacts" / "model.safetensors")
    x, y = plain.read_idx(data / "digits", "t10k")
    right, ties = plain.count_right(
        plain.forward(json.loads(meta["network"]), tensors, plain.normalise(x, meta)), y)
    assert abs(right - round(done["metrics"]["test_accuracy"] * TEST)) <= ties
    assert all(np.array_equal(tensors[k], kept[k]) for k in tensors)
