"""Every preset trained here gives the same outputs in NumPy within 1e-4, and the other way round
through `init` and `evaluate`. (With PyTorch in NumPy's place: tests/interop/torch_presets.py.)"""
import json
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy", reason="python3-numpy is not installed")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import plain  # noqa: E402
import worker  # noqa: E402

# Of a job of two steps: its minibatch, and how many samples test it, the last of which are a
# smaller minibatch. A sample costs resnet18 (0.56 G multiplications) as much as ten of others.
SIZES = {"resnet18": (2, 3)}
COUNTS = {"mlp": 101770, "lenet5": 1663370, "cifar-quick": 89578, "tf-cifar": 3527498,
          "resnet20": 272474, "resnet18": 11173962}


@pytest.fixture(scope="module", params=worker.PRESETS)
def trained(request, tmp_path_factory):
    """(preset, folder, data, artifact) of a job of two steps."""
    batch, tested = SIZES.get(request.param, (8, 12))
    folder = tmp_path_factory.mktemp(request.param)
    data = worker.put_data(folder / "data", worker.PRESETS[request.param], 2 * batch, tested)
    artifact = worker.train(folder, "first", worker.job(request.param, batch))
    return request.param, folder, data, artifact


def test_numpy_computes_the_same_outputs(trained):
    preset, folder, data, artifact = trained
    batch, tested = SIZES.get(preset, (8, 12))
    answer, outputs = worker.outputs(folder, artifact, batch=batch)
    assert answer["parameters"] == COUNTS[preset] and outputs.shape == (tested, 10) and np.std(
        outputs) > 1e-3
    worker.close(worker.evaluate_plain(artifact, data[2]), outputs)
    assert (np.argmax(outputs, 1) == data[3]).sum() == answer["right"]


def test_parameters_that_numpy_wrote_give_its_outputs_here(trained):
    preset, folder, data, artifact = trained
    meta, tensors = plain.load(artifact)
    other = worker.redrawn(tensors)
    plain.save(folder / "numpy.safetensors", other)
    answer, outputs = worker.outputs(folder, folder / "numpy.safetensors", spec="first")
    x = plain.normalise(data[2], meta)
    worker.close(plain.forward(json.loads(meta["network"]), other, x, 8), outputs)


def test_init_takes_them_and_a_job_without_learning_keeps_them(trained):
    preset, folder, data, artifact = trained
    other = worker.redrawn(plain.load(artifact)[1], 6)
    plain.save(folder / "start.safetensors", other)
    job = worker.job(preset, len(data[0]), init="start.safetensors",
                     optimizer={"type": "sgd", "learning_rate": 0})
    kept = plain.load(worker.train(folder, "second", job))[1]
    assert set(kept) == set(other)
    assert all(np.array_equal(kept[k], other[k]) for k in other if "running" not in k)
