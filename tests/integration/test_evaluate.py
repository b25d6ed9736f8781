"""`evenstep evaluate`: the accuracy that training reported, per class, in the terminal and as JSON,
with no service running; NumPy counts the same confusion from the same file."""
import json
import pathlib
import re
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy", reason="python3-numpy is not installed")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import plain  # noqa: E402
from programs import LOCAL  # noqa: E402
from service import BUILD, spec  # noqa: E402

TRAIN, TEST = 1500, 400


def drawn(n, seed):
    patterns = np.random.default_rng(5).integers(0, 256, (10, 8, 8, 1))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, n)
    return np.clip(patterns[y] * 0.6 + rng.integers(0, 102, (n, 8, 8, 1)), 0, 255).astype(
        np.uint8), y


MODEL = {"input": [6, 6, 1],
         "layers": [{"type": "conv2d", "filters": 6, "kernel": 3, "name": "conv"},
                    {"type": "batch_norm", "name": "norm"},
                    {"type": "relu"}, {"type": "dense", "units": 10, "name": "head"}]}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """(folder with data/small, out/…): a network trained without a service."""
    folder = tmp_path_factory.mktemp("evaluate")
    for part, n in (("train", TRAIN), ("t10k", TEST)):
        plain.write_idx(folder / "data/small", part, *drawn(n, n))
    (folder / "data/small/classes.txt").write_text("".join(f"class {c}\n" for c in "abcdefghij"))
    job = spec(model=MODEL,
               data={"format": "idx", "path": "small",
                     "normalize": {"mean": [0.4], "deviation": [0.25]}}, epochs=6, workers=1,
               augment={"crop": {}}, checkpoint={"every_steps": 20})
    (folder / "job.json").write_text(json.dumps(job))
    done = subprocess.run([BUILD / "evenstep-worker", "--local", folder / "job.json", "--roots",
                           folder / "data", "--out", folder / "out"], env=LOCAL,
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = [line.split(",") for line in done.stdout.splitlines() if line.startswith("evaluation")]
    return folder, float(rows[-1][5]), float(rows[-1][4])


def evaluate(place, model, *options, data_roots=True, status=0):
    environment = {k: v for k, v in LOCAL.items() if k != "EVENSTEP_DATA"}
    if data_roots:
        environment["EVENSTEP_DATA"] = str(place[0] / "data")
    done = subprocess.run([BUILD / "evenstep", "evaluate", str(model), *options], env=environment,
                          capture_output=True, text=True, timeout=60, cwd=place[0])
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def model_of(place):
    return place[0] / "out/artifacts/model.safetensors"


def test_a_models_file_knows_its_data_and_evaluates_to_what_training_reported(place):
    answer = json.loads(evaluate(place, model_of(place), "--json"))
    assert answer["samples"] == TEST and answer["right"] == round(place[1] * TEST)
    assert answer["loss"] == pytest.approx(place[2], rel=1e-4)
    assert answer["data"]["path"] == "small" and answer["data"]["format"] == "idx" and len(
        answer["data"]["digest"]) == 64


def test_confusion_and_outputs_are_numpys(place):
    answer = json.loads(evaluate(place, model_of(place), "--json", "--outputs", "outputs.npy",
                                 "--batch", "37"))
    meta, tensors = plain.load(model_of(place))
    x, y = plain.read_idx(place[0] / "data/small", "t10k")
    logits = plain.forward(json.loads(meta["network"]), tensors, plain.normalise(x, meta))
    outputs = np.load(place[0] / "outputs.npy")
    assert outputs.shape == (TEST, 10) and np.abs(outputs - logits).max() < 1e-4
    want = np.zeros((10, 10), int)
    np.add.at(want, (y, outputs.argmax(1)), 1)
    assert (np.array(answer["confusion"]) == want).all()
    for c, one in enumerate(answer["classes"]):
        assert one["class"] == c and one["name"] == "class " + "abcdefghij"[c]
        assert (one["samples"] == want[c].sum() and one["right"] == want[c, c]
                and one["answers"] == want[:, c].sum())
        assert one["accuracy"] == pytest.approx(want[c, c] / want[c].sum())
    assert answer["right"] == np.trace(want) and answer["accuracy"] == pytest.approx(
        np.trace(want) / TEST)


def test_the_terminal_shows_the_same_figures(place):
    answer = json.loads(evaluate(place, model_of(place), "--json"))
    shown = evaluate(place, model_of(place))
    assert f"accuracy {100 * answer['accuracy']:.2f} % ({answer['right']} right)" in shown
    for one in answer["classes"]:
        assert re.search(
            rf"^{one['name']} +{one['samples']} +{one['right']} +{100 * one['accuracy']:.2f} %",
            shown, re.M)
    matrix = shown[shown.index("rows: what it is"):].splitlines()[2:12]
    assert [[0 if v == "." else int(v) for v in line.split()[2:]]
            for line in matrix] == answer["confusion"]


def test_data_are_named_by_folder_or_by_name_and_their_part_can_be_chosen(place):
    by_folder = json.loads(evaluate(place, model_of(place), "--data", "data/small", "--json",
                                    data_roots=False))
    by_name = json.loads(evaluate(place, model_of(place), "--data", "small", "--json"))
    assert by_folder == by_name == json.loads(evaluate(place, model_of(place), "--json"))
    training = json.loads(evaluate(place, model_of(place), "--part", "train", "--json"))
    assert training["samples"] == TRAIN and training["data"]["part"] == "train"


def test_checkpoints_evaluate_like_artifacts(place):
    checkpoint = sorted((place[0] / "out/checkpoints").glob("*.safetensors"))[-1]
    assert json.loads(evaluate(place, checkpoint, "--json"))["samples"] == TEST


def test_a_file_of_another_program_needs_a_spec(place):
    meta, tensors = plain.load(model_of(place))
    foreign = place[0] / "foreign.safetensors"
    plain.save(foreign, tensors)
    assert "does not describe its network" in evaluate(place, foreign, status=1)
    assert json.loads(evaluate(place, foreign, "--spec", "job.json", "--json"))["right"] == round(
        place[1] * TEST)
    plain.save(foreign, tensors, {k: meta[k] for k in ("network", "normalize", "crop")})
    assert json.loads(evaluate(place, foreign, "--data", "small", "--json"))["right"] == round(
        place[1] * TEST)
    assert "name a data set with --data" in evaluate(place, foreign, status=1)


def test_mistakes_are_told_in_a_sentence_and_with_a_status(place):
    model = model_of(place)
    assert "cannot read" in evaluate(place, "nothing.safetensors", status=2)
    assert "cannot find 'mnits'" in evaluate(place, model, "--data", "mnits", status=1)
    assert "'out' is not a data set of a known format" in evaluate(
        place, model, "--data", "out", status=1)
    assert "'test' and 'train'" in evaluate(place, model, "--part", "validation", status=1)
    assert "usage" in subprocess.run([BUILD / "evenstep", "evaluate"], capture_output=True,
                                     text=True).stderr
    altered = place[0] / "altered.safetensors"
    blob = bytearray(model.read_bytes())
    blob[-1] ^= 1
    altered.write_bytes(blob)
    assert "cut off or altered" in evaluate(place, altered, status=1)
    meta, tensors = plain.load(model)
    del tensors["head.bias"]
    plain.save(altered, tensors, {"network": meta["network"]})
    assert "tensor 'head.bias' is missing" in evaluate(place, altered, "--data", "small", status=1)
