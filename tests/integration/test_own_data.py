"""docs/own-data.md, carried out: its files are written, its commands run in their order by one
shell, in an empty folder. Only the port is another one, and python3 an interpreter with NumPy (with
PyTorch for the section about it)."""
import json
import os
import re
import subprocess

import pytest

from programs import AT_ROOT, BUILD, ROOT, python_with
from service import free_port

PAGE = (ROOT / "docs" / "own-data.md").read_text()
BLOCK = re.compile(r"(?:New\s+file\s+`(?P<file>[^`]+)`[^\n]*\n+)?"
                   r"```(?P<kind>\w+)\n(?P<text>.*?)```", re.S)
STRATEGIES = re.compile(r"^\| ((?:`[\w-]+`(?:, )?)+) \| (.*) \|$", re.M)


def sections():
    """The files and commands of a section: {number: (files, commands)}."""
    found = {}
    for number, text in re.findall(r"^## (\d)\.(.*?)(?=^## |\Z)", PAGE, re.M | re.S):
        blocks = list(BLOCK.finditer(text))
        assert all(b["kind"] in ("python", "json", "sh") for b in blocks)
        assert all((b["kind"] == "sh") != bool(b["file"]) for b in blocks), \
            "every block is a file with a name, or commands"
        found[int(number)] = ({b["file"]: b["text"] for b in blocks if b["file"]},
                              "".join(b["text"] for b in blocks if not b["file"]))
    return found


def run(folder, commands, python):
    """Runs them in one shell, which prints each command first and stops at the first failure."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    link = tools / "python3"
    link.unlink(missing_ok=True)
    link.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    link.chmod(0o755)
    script = "set -ex\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n" + commands
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("EVENSTEP_")}, **AT_ROOT,
           "PATH": f"{tools}:{BUILD}:{os.environ['PATH']}"}
    return subprocess.run(["bash", "-c", script], cwd=folder, env=env, capture_output=True,
                          text=True, timeout=900, check=False)


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """The folder after all sections except the one about PyTorch, which needs no service; and the
    output."""
    pytest.importorskip("numpy", reason="python3-numpy is not installed")
    folder = tmp_path_factory.mktemp("own")
    commands = ""
    for number, (files, text) in sections().items():
        for name, content in files.items():
            (folder / name).write_text(content)
        commands += text if number != 5 else ""
    assert commands.count("127.0.0.1:8080") == 2
    port = free_port()
    done = run(folder, commands.replace("127.0.0.1:8080", f"127.0.0.1:{port}"), "/usr/bin/python3")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return folder, done.stdout


def test_every_command_of_the_page_works_and_the_network_learns(walked):
    folder, printed = walked
    assert re.search(r"shapes\s.*\bnpy\b", printed), printed[:2000]      # of `evenstep datasets`
    assert printed.count("columns: what was answered") == 2, printed[-3000:]    # of `evaluate`
    assert re.search(r"lines\s.*\bimages\b", printed), printed[:4000]
    pictures = printed.rsplit("lines-model", 1)[1]
    assert float(re.search(r"accuracy\D*([\d.]+)", pictures)[1]) > 0.9, pictures
    assert {p.name for p in (folder / "model").iterdir()} == {
        "model.safetensors", "best.safetensors", "model.onnx"}


def test_pytorch_finds_the_accuracy_that_the_page_promises(walked):
    folder, _ = walked
    python = python_with("torch", "numpy")
    told = json.loads(subprocess.run(
        [BUILD / "evenstep", "evaluate", folder / "model/model.safetensors", "--data-roots",
         folder / "run/data", "--json"], capture_output=True, text=True, check=True).stdout)
    done = run(folder, sections()[5][1], python)
    assert done.returncode == 0, done.stderr[-3000:]
    found = float(re.search(r"accuracy in PyTorch ([\d.]+)", done.stdout)[1])
    assert found > 0.9, "a network that has not learnt anything shows nothing"
    assert abs(found - told["accuracy"]) < 0.002        # a tie may go either way


def test_optimizers_go_with_the_strategies_that_the_page_says(tmp_path):
    rows = [(re.findall(r"`([\w-]+)`", names), takes)
            for names, takes in STRATEGIES.findall(PAGE.split("**Which optimizer")[1])]
    catalog = {s for names, _ in rows for s in names}
    known = set(re.findall(r'^ENTRY\(STRATEGY, \w+, "([\w-]+)"',
                           (ROOT / "job/spec/catalog.def").read_text(), re.M))
    assert catalog == known, "the page names every strategy"
    spec = {"name": "t", "model": "mlp", "workers": 2, "epochs": 1,
            "data": {"format": "glyphs", "samples": 100, "test_samples": 20},
            "batching": {"global_batch": 20}}
    for names, takes in rows:
        for strategy in names:
            for type, momentum in (("sgd", 0), ("sgd", 0.9), ("adam", None), ("adamw", None)):
                job = {**spec, "strategy": {"type": strategy},
                       "optimizer": {"type": type, "learning_rate": 0.01,
                                     **({} if momentum is None else {"momentum": momentum})}}
                (tmp_path / "job.json").write_text(json.dumps(job))
                told = json.loads(subprocess.run(
                    [BUILD / "evenstep-worker", "--check", tmp_path / "job.json"],
                    capture_output=True, text=True, check=True).stdout)
                refused = [e for e in told["errors"] if e["pointer"].startswith("/optimizer")]
                expected = (f"`{type}`" in takes and
                            not (momentum and "without `momentum`" in takes))
                assert expected == (not refused), (strategy, type, momentum, told)
