"""Networks that predict numbers (the loss mse): there is no accuracy, so the loss decides which
checkpoint is the best, and no figure stands for what there is not."""
import json
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy", reason="python3-numpy is not installed")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import plain  # noqa: E402
from service import BUILD, Service, spec  # noqa: E402

MODEL = {"input": [4], "loss": "mse",
         "layers": [{"type": "dense", "units": 8}, {"type": "tanh"},
                    {"type": "dense", "units": 1}]}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    (root / "line").mkdir()
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(4, 1))
    for prefix, n in (("", 640), ("test_", 100)):
        x = rng.normal(size=(n, 4))
        np.save(root / "line" / f"{prefix}x.npy", x.astype(np.float32))
        np.save(root / "line" / f"{prefix}y.npy", np.tanh(x @ weights).astype(np.float32))
    # steps of a network this small are so short that on a busy machine the service falls behind
    with Service(data=root, nodes=("a=cpu:1,slowdown=8", "b=cpu:1,slowdown=8")) as s:
        yield s


def line(**changes):
    return spec(**{"model": MODEL, "data": {"format": "npy", "path": "line"}, "epochs": 4,
                   **changes})


STRATEGIES = [{"type": "sync"}, {"type": "asgd"}, {"type": "asgd", "servers": 2},
              {"type": "local-sgd", "k": 2}]


@pytest.mark.parametrize("strategy", STRATEGIES,
                         ids=lambda s: s["type"] + str(s.get("servers", "")))
def test_the_best_is_the_one_with_the_least_loss(service, strategy):
    """With a rising rate, the last network is not the best one."""
    id = service.submit(line(strategy=strategy, optimizer={
        "type": "sgd", "learning_rate": 0.05,
        "schedule": {"type": "step", "factor": 40, "at_epochs": [3]}}))
    service.wait(id, "succeeded")
    tests = service.get(f"jobs/{id}/evaluations").json()["evaluations"]
    assert len(tests) >= 4 and all(t["accuracy"] is None for t in tests)
    best = min(tests, key=lambda t: t["loss"])
    assert best["step"] < tests[-1]["step"], "this test wants a run that becomes worse"
    path = service.dir / "jobs" / id / "artifacts" / "best.safetensors"
    meta, _ = plain.load(path)
    assert int(meta["step"]) == best["step"]
    assert float(meta["test_loss"]) == pytest.approx(best["loss"], rel=1e-5)
    assert "test_accuracy" not in meta


def test_no_figure_says_that_nothing_is_right(service):
    id = service.submit(line(name="numbers"))
    job = service.wait(id, "succeeded")
    assert job["metrics"]["test_accuracy"] is None is job["metrics"]["best_test_accuracy"]
    assert job["metrics"]["test_loss"] > 0
    series = service.get(f"jobs/{id}/series", params={"names": "train_accuracy,test_accuracy"})
    assert not any(v for c in series.json()["series"] for v in c["mean"])
    for command in (["show", id], ["jobs"], ["evaluations", id]):
        done = subprocess.run([BUILD / "evenstep", *command, "--url", service.url, "--token-file",
                               service.dir / "token"], capture_output=True, text=True, check=True)
        told = [l for l in done.stdout.splitlines() if "ccuracy" in l or "numbers" in l]
        assert told and not any(" 0.00 %" in l for l in told), done.stdout


def test_a_run_that_is_resumed_keeps_the_best_of_before(service):
    id = service.submit(line(epochs=20000, name="paused", evaluate={"every_epochs": 20}))
    service.steps(id, 200)
    assert service.post(f"jobs/{id}/pause").status_code in (200, 202)
    service.wait(id, "paused")
    kept = (service.dir / "jobs" / id / "checkpoints")
    newest = max(kept.glob("*.safetensors"), key=lambda p: p.stat().st_mtime)
    tests = service.get(f"jobs/{id}/evaluations").json()["evaluations"]
    progress = json.loads(plain.load(newest)[0]["progress"])
    assert progress["extra"]["best"] == pytest.approx(-min(t["loss"] for t in tests), rel=1e-5)
    service.post(f"jobs/{id}/cancel")


def test_a_job_that_continues_another_one_has_a_best_of_its_own(service):
    """The other job's best is in the other job's folder."""
    first = service.submit(line(epochs=6))
    service.wait(first, "succeeded")
    rate = {"type": "sgd", "learning_rate": 2.0}  # it becomes worse than it was
    second = service.submit(line(epochs=8, optimizer=rate, init={
        "path": f"{first}/checkpoints", "continue": True}))
    service.wait(second, "succeeded")
    least = [min(t["loss"] for t in service.get(f"jobs/{id}/evaluations").json()["evaluations"])
             for id in (first, second)]
    assert least[0] < least[1], "this test wants a run that becomes worse"
    meta, _ = plain.load(service.dir / "jobs" / second / "artifacts" / "best.safetensors")
    assert float(meta["test_loss"]) == pytest.approx(least[1], rel=1e-5)
