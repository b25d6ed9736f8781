"""The guides docs/add-a-*.md, walked through: their steps are applied to a copy of the tree, which
is then built and trained with.

A step is a line "In `FILE`, after|before|replace `TEXT`:" or "New file `FILE`:" and the code block
behind it. `after` and `before` mean whole statements or lines: after goes behind the next line that
ends one (a comma, a semicolon, a bracket), before in front of the line."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest

import rowtable
from programs import AT_ROOT, BUILD, ROOT, SANITIZED
from service import PATIENCE

STEP = re.compile(
    r"^ *(?:In `(?P<file>[^`]+)`, (?P<how>after|before|replace) `(?P<text>[^`]+)`|New file "
    r"`(?P<new>[^`]+)`):\n(?P<indent> *)```(?:c|js)\n(?P<code>.*?)\n *```$", re.M | re.S)
GUIDES = {"layer": 7, "format": 6, "strategy": 6, "device": 4, "figure": 2}
CONFORMANCE = ["build/tests/kernels/test_layers", "build/tests/kernels/test_update"]
ROW_TESTS = ["build/tests/unit/job/test_row", "build/tests/unit/store/test_history",
             "build/tests/unit/store/test_history_files"]
TABLES = "build/docs/print/tables"
# What is built here runs for some seconds: to compile it costs more than what it saves
CHEAP = ["OPT=-O0", "SYMBOLS=", "HARD=", "KERNEL_FLAGS=-O1 -fopenmp -fno-math-errno"]


def steps(guide):
    text = (ROOT / "docs" / f"add-a-{guide}.md").read_text()
    assert len(re.findall("```(?:c|js)$", text, re.M)) == len(
        list(STEP.finditer(text))), "every code block of a guide is a step"
    return list(STEP.finditer(text))


def end_of_statement(text, at):
    """The end of the line that completes the statement at `at`, with all brackets closed. A
    declaration of several names ends at its semicolon."""
    depth, ends = 0, ";" if text[text.rfind("\n", 0, at) + 1:].startswith("extern ") else ",;)}"
    for i in range(text.rfind("\n", 0, at) + 1, len(text)):
        depth += (text[i] in "({") - (text[i] in ")}")
        if text[i] == "\n" and depth <= 0 and i > at and text[i - 1] in ends:
            return i + 1
        if text[i] == "\n" and depth <= 0 and i > at and text.find("*/", at, i) > 0:
            return i + 1
    raise AssertionError("the statement does not end")


def apply(tree, step):
    code = re.sub(rf"^{step['indent']}", "", step["code"], flags=re.M)
    if step["new"]:
        (tree / step["new"]).parent.mkdir(exist_ok=True)
        (tree / step["new"]).write_text(code + "\n")
        return
    path = tree / step["file"]
    text = path.read_text()
    assert text.count(
        step["text"]) == 1, f"{step['file']} has {step['text']!r} {text.count(step['text'])} times"
    at = text.index(step["text"])
    if step["how"] == "replace":
        text = text.replace(step["text"], code)
    else:
        place = end_of_statement(text, at) if step["how"] == "after" else text.rindex(
            "\n", 0, at) + 1
        text = text[:place] + code + "\n" + text[place:]
    path.write_text(text)


def reuse(tree):
    """Reuses objects of this build, whose dependencies make compares by time: only what the guides
    change is compiled, and what includes that."""
    for room in ("common", "job", "store", "kernels", "worker", "tests/kernels", "tests/unit",
                 "docs/print"):
        if (BUILD / room).is_dir():
            shutil.copytree(BUILD / room, tree / "build" / room, ignore=lambda folder, names: [
                n for n in names if not n.endswith((".o", ".d", ".h"))
                and not pathlib.Path(folder, n).is_dir()])


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the tree with all guides applied; its worker and the tests of rows are built."""
    copy = tmp_path_factory.mktemp("guides") / "evenstep"
    copy.mkdir()
    for room in ("Makefile", "client", "common", "job", "store", "kernels", "worker", "simulator",
                 "static", "tests/kernels", "tests/unit/job", "tests/unit/store", "docs/print"):
        there = ROOT / room
        (copy / room).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(there, copy / room) if there.is_dir() else shutil.copy2(there, copy / room)
    for mk in re.findall(r"^include (\S+)", (ROOT / "Makefile").read_text(), re.M):
        (copy / mk).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / mk, copy / mk)
    if not SANITIZED and BUILD.name == "build":  # its name is in the dependencies
        reuse(copy)
    for guide in GUIDES:
        for step in steps(guide):
            apply(copy, step)
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "BUILD", "MAKELEVEL")}
    made = subprocess.run(["make", "-j2", "CUDA=0", *CHEAP, "DEVELOPER=1", "BUILD=build",
                           "build/evenstep-worker", *CONFORMANCE, *ROW_TESTS, TABLES], cwd=copy,
                          capture_output=True, text=True, timeout=600 * PATIENCE, env=env)
    assert made.returncode == 0, made.stdout[-3000:] + made.stderr[-3000:]
    return copy


def train(tree, tmp_path, device="cpu:1", **changes):
    """The output of a job of two workers, line by line (worker/local.h); its test loss falls."""
    spec = {"model": "mlp", "data": {"format": "glyphs", "samples": 1280, "test_samples": 200},
            "workers": 2, "epochs": 2, "seed": 1,
            "optimizer": {"type": "sgd", "learning_rate": 0.05}, "batching": {"global_batch": 32},
            **changes}
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "job.json").write_text(json.dumps(spec))
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "3",
               str(tree / "build" / "evenstep-worker"), "--local", str(tmp_path / "job.json"),
               "--roots", str(tmp_path), "--out", str(tmp_path / "out"), "--device", device,
               "--lines", str(tmp_path / "lines")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180,
                          env={**os.environ, **AT_ROOT})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    lines = [line.split(",") for line in (tmp_path / "lines").read_text().splitlines()]
    losses = losses_of(lines)
    assert len(losses) >= 2 and losses[-1] < losses[0], losses
    return lines


def losses_of(lines):
    return [float(f[4]) for f in lines if f[0] == "evaluation"]


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_has_its_steps(guide):
    assert len(steps(guide)) == GUIDES[guide]


def test_the_layer_of_the_guide_trains(tree, tmp_path):
    layers = [{"type": "conv2d", "filters": 4, "kernel": 5, "stride": 2}, {"type": "scale"},
              {"type": "relu"}, {"type": "flatten"}, {"type": "dense", "units": 10}]
    train(tree, tmp_path, model={"input": [28, 28, 1], "layers": layers})
    model = (tmp_path / "out" / "artifacts" / "model.safetensors").read_bytes()
    head = json.loads(model[8:8 + int.from_bytes(model[:8], "little")])
    first, last = head["scale1.weight"]["data_offsets"]
    factors = np.frombuffer(model[8 + int.from_bytes(model[:8], "little"):][first:last], np.float32)
    assert head["scale1.weight"]["shape"] == [4] and np.all(
        factors != 1), "they began at 1 and were trained"


def test_the_format_of_the_guide_is_trained_on(tree, tmp_path):
    rng = np.random.default_rng(1)
    folder = tmp_path / "points"
    folder.mkdir()
    for name, n in (("train", 960), ("test", 160)):
        labels = rng.integers(0, 4, n)
        points = rng.normal(0, 0.6, (n, 6)) + np.eye(4, 6)[labels] * 2
        (folder / f"{name}.csv").write_text(
            "kind,a,b,c,d,e,f\n" + "".join(f"{y}," + ",".join(f"{v:.4f}" for v in p) + "\n"
                    for y, p in zip(labels, points)))
    network = {"input": [6], "layers": [{"type": "dense", "units": 16}, {"type": "relu"},
                                        {"type": "dense", "units": 4}]}
    data = {"format": "csv", "path": "points", "header": True}
    train(tree, tmp_path, data=data, model=network)
    torn = (folder / "train.csv").read_text().split("\n")
    torn[3] = "1,2,zebra"
    (folder / "train.csv").write_text("\n".join(torn))
    with pytest.raises(AssertionError, match="at byte"):
        train(tree, tmp_path, data=data, model=network)
    with pytest.raises(AssertionError, match="'train.csv' has no number .* at byte 0"):
        train(tree, tmp_path, data={"format": "csv", "path": "points"}, model=network)


def test_the_strategy_of_the_guide_trains_and_damps(tree, tmp_path):
    train(tree, tmp_path, strategy={"type": "damped", "beta": 0.5})
    with pytest.raises(AssertionError, match="/strategy/beta"):
        train(tree, tmp_path, strategy={"type": "damped", "beta": -1})


def test_the_averaging_strategy_of_the_guide_trains_and_checks_its_spec(tree, tmp_path):
    """Until its first epochs are over it is local-sgd with k = 1; then k counts."""
    job = {"epochs": 3, "workers": 2}
    def losses(name, **strategy):
        (tmp_path / name).mkdir()
        return losses_of(train(tree, tmp_path / name, **job, strategy=strategy))
    every = losses("every", type="local-sgd", k=1)
    assert losses("early", type="post-local", k=8, first_epochs=2.999) == every
    assert losses("later", type="post-local", k=8, first_epochs=1) != every
    with pytest.raises(AssertionError, match="/strategy/first_epochs"):
        losses("never", type="post-local", first_epochs=3)


def test_the_device_of_the_guide_conforms_and_refuses_what_it_lacks(tree):
    said = ""
    for program in CONFORMANCE:
        done = subprocess.run([tree / program],
                              env={**os.environ, "EVENSTEP_TEST_DEVICE": "plain:0"},
                              capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        said += done.stdout + done.stderr
    assert said.count("checked on plain:0: a network of ") >= 40
    lacking = set(
        re.findall(r"left out: the plain device has no operator for layer '[^']+' \((\w+)\)", said))
    assert said.count("left out: ") > 0 and "max_pool" in lacking and not lacking & {
        "dense", "conv2d", "relu", "flatten"}


def test_the_device_of_the_guide_trains_as_the_cpu_does(tree, tmp_path):
    plain, cpu = losses_of(train(tree, tmp_path / "plain", device="plain:0")), losses_of(
        train(tree, tmp_path / "cpu"))
    assert plain == pytest.approx(cpu, rel=1e-3)
    probed = subprocess.run([tree / "build" / "evenstep-worker", "--probe", "plain:0"],
                            capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(probed.stdout)["device"] == "plain:0" and json.loads(
        probed.stdout)["precisions"] == ["fp32"]
    with pytest.raises(AssertionError,
                       match=r"the plain device has no operator for layer 'pool1' \(max_pool\)"):
        train(tree, tmp_path / "lenet5", device="plain:0", model="lenet5")


def test_the_figure_of_the_guide_is_in_every_row(tree, tmp_path):
    rows = [line[1:] for line in train(tree, tmp_path) if line[0] == "row"]
    assert len(rows) == 160 and all(len(row) == len(rowtable.COLUMNS) + 1 for row in rows)
    handed = [float(row[-1]) for row in rows]
    assert all(0 <= t < 60 for t in handed) and max(handed) > 0


@pytest.mark.parametrize("program", ROW_TESTS)
def test_with_longer_rows_the_tests_of_rows_and_histories_pass(tree, program):
    """Tests of the first version's histories only prove something here, where rows are longer."""
    done = subprocess.run([str(tree / program)], cwd=tree, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_the_page_draws_the_figure_of_the_guide(tree):
    """The line in the table of columns is enough: `make docs` writes the list of charts from it."""
    printed = subprocess.run([tree / TABLES, "charts of rows"], check=True,
                             capture_output=True, text=True).stdout
    assert "series: 'handing_seconds',\n    title: 'Handing over'," in printed
    assert r"subtitle: 'time to hand a step\'s gradients to the exchange'" in printed
