"""Where a job starts: another head on a trained body, a job that goes on where another one ended,
optimizer state in checkpoints, the best and the newest files that are kept. Jobs run under mpirun
without a service (`evenstep-worker --local`), as the same ranks would."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy", reason="python3-numpy is not installed")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import plain  # noqa: E402
import rowtable  # noqa: E402
from programs import LOCAL  # noqa: E402
from service import BUILD, Service, spec  # noqa: E402
from test_program import Run, job as program, without_statistics  # noqa: E402

BODY = [{"type": "dense", "units": 16, "name": "fc1"}, {"type": "batch_norm", "name": "bn1"},
        {"type": "relu"}]
OPTIMIZERS = {"adam": {"type": "adam", "learning_rate": 0.002},
              "adamw": {"type": "adamw", "learning_rate": 0.002},
              "momentum": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9}}
OWN_STATE = ["--optimizer", "momentum", "--state", "--everyone"]


def network(units=10):
    return {"input": [28, 28, 1],
            "layers": BODY + [{"type": "dense", "units": units, "name": "fc2"}]}


def job(**changes):
    return spec(
        **{"model": network(), "data": {"format": "glyphs", "samples": 640, "test_samples": 100},
           "workers": 1, **changes})


class Done:
    """The files and the output of a job that ran in folder/name."""

    def __init__(self, folder, name, job, status=0, options=()):
        self.out = folder / name
        (folder / (name + ".json")).write_text(json.dumps(job))
        done = subprocess.run([BUILD / "evenstep-worker", "--local", folder / (name + ".json"),
                               "--roots", folder, "--out", self.out, *options], env=LOCAL,
                              capture_output=True, text=True, timeout=120)
        self.log, self.lines = done.stderr, [line.split(",") for line in done.stdout.splitlines()]
        assert (done.returncode == 0) == (status == 0), done.stderr

    def tensors(self, name="model"):
        return plain.load(self.out / "artifacts" / (name + ".safetensors"))[1]

    def rows(self):
        return rowtable.printed(self.lines)

    def checkpoints(self):
        return sorted((self.out / "checkpoints").glob("*.safetensors"))

    def evaluations(self):
        return [float(line[5]) for line in self.lines if line[0] == "evaluation"]


def same(a, b):
    return set(a) == set(b) and all(np.array_equal(a[k], b[k]) for k in a)


def test_a_trained_body_takes_another_head_and_each_tensor_left_out_is_named(tmp_path):
    first = Done(tmp_path, "first", job())
    init = {"path": "first/artifacts/model.safetensors", "allow": ["fc2.*"]}
    frozen = {"type": "sgd", "learning_rate": 0}
    second = Done(tmp_path, "second", job(model=network(12), init=init, optimizer=frozen, epochs=1))
    assert "tensors of init were left out" in second.log and "count=2" in second.log
    assert ("fc2.weight (has the shape [10, 16], the network needs [12, 16])" in second.log
            and "fc2.bias (has the shape [10]" in second.log)
    a, b = first.tensors(), second.tensors()
    assert same({k: a[k] for k in ("fc1.weight", "fc1.bias", "bn1.weight", "bn1.bias")},
                {k: b[k] for k in ("fc1.weight", "fc1.bias", "bn1.weight", "bn1.bias")})
    assert b["fc2.weight"].shape == (12, 16) and np.std(b["fc2.weight"]) > 0
    third = Done(tmp_path, "third", job(model=network(12), init=init["path"], epochs=1), status=1)
    assert "tensor 'fc2.weight' has the shape [10, 16], the network needs [12, 16]" in third.log


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_continued_job_ends_where_one_with_more_epochs_ends(tmp_path, optimizer):
    """Bit for bit: parameters, statistics, optimizer state, order of samples and steps all
    continue."""
    recipe = {"optimizer": OPTIMIZERS[optimizer], "augment": {"shift": {}}}
    Done(tmp_path, "first", job(epochs=2, **recipe))
    second = Done(tmp_path, "second",
                  job(epochs=5, init={"path": "first/checkpoints", "continue": True}, **recipe))
    straight = Done(tmp_path, "straight", job(epochs=5, **recipe))
    assert same(second.tensors(), straight.tensors())
    assert second.evaluations() == straight.evaluations()[2:]
    steps = [row["step"] for row in rowtable.printed(second.lines)]
    assert min(steps) == 21 and max(steps) == 50
    if optimizer != "adam":
        return
    again = Done(tmp_path, "again",
                 job(epochs=5,
                     init={"path": "first/checkpoints/"
                           + sorted(os.listdir(tmp_path / "first/checkpoints"))[-1],
                           "continue": True}, **recipe))
    assert same(again.tensors(), straight.tensors())


def test_a_server_goes_on_with_its_velocity(tmp_path):
    recipe = {"optimizer": OPTIMIZERS["momentum"], "strategy": {"type": "asgd"}}
    Done(tmp_path, "first", job(epochs=2, **recipe))
    second = Done(tmp_path, "second",
                  job(epochs=4, init={"path": "first/checkpoints", "continue": True}, **recipe))
    assert same(second.tensors(), Done(tmp_path, "straight", job(epochs=4, **recipe)).tensors())


def test_what_cannot_be_continued_is_refused_with_the_reason(tmp_path):
    Done(tmp_path, "first", job(epochs=2))
    init = {"path": "first/checkpoints", "continue": True}
    def refused(**changes):
        return Done(tmp_path, "second", job(**{"init": init, "epochs": 4, **changes}), status=1).log
    assert "'epochs' is 2, and that many are done" in refused(epochs=2)
    assert "the optimizer 'sgd', this one has 'adam'" in refused(optimizer=OPTIMIZERS["adam"])
    assert "the strategy 'sync', this one has 'local-sgd'" in refused(
        strategy={"type": "local-sgd"})
    assert "holds no checkpoint of this network" in refused(model="mlp")
    assert "made with 640 training samples, the data set has 650" in refused(
        data={"format": "glyphs", "samples": 650, "test_samples": 100})
    assert "first/nothing" in refused(init={"path": "first/nothing", "continue": True})


def test_the_newest_checkpoints_and_the_best_artifact_are_kept(tmp_path):
    done = Done(tmp_path, "first",
                job(epochs=6, checkpoint={"every_steps": 7, "keep": 3},
                    optimizer={"type": "sgd", "learning_rate": 0.2}))
    assert [p.name for p in done.checkpoints()] == [f"step-{n:012}.safetensors"
                                                    for n in (49, 56, 60)]
    best, last = (plain.load(done.out / "artifacts" / f"{n}.safetensors")[0]
                  for n in ("best", "model"))
    assert float(best["test_accuracy"]) == pytest.approx(max(done.evaluations()))
    assert float(last["test_accuracy"]) == pytest.approx(done.evaluations()[-1])
    assert not any("optimizer" in k for k in done.tensors()) and "optimizer.state" in plain.load(
        Done(tmp_path, "second", job(epochs=1, optimizer=OPTIMIZERS["momentum"]))
        .checkpoints()[-1])[1]


def test_through_the_service_jobs_pause_with_adams_state_and_continue_others(tmp_path):
    # so slow that a busy machine manages to pause it before its last step
    with Service(nodes=("a=cpu:1,slowdown=200", "b=cpu:1,slowdown=200")) as s:
        recipe = {"optimizer": OPTIMIZERS["adam"], "workers": 2, "epochs": 40,
                  "evaluate": {"every_epochs": 40},
                  "batching": {"global_batch": 64, "policy": "equal"}}
        straight, halted = s.submit(job(**recipe)), None
        s.wait(straight, "succeeded")
        halted = s.submit(job(**recipe))
        s.steps(halted, 60)
        assert s.post(f"jobs/{halted}/pause").status_code == 200
        s.wait(halted, "paused")
        assert s.post(f"jobs/{halted}/resume").status_code == 200
        s.wait(halted, "succeeded")
        load = lambda id: plain.load(s.dir / "jobs" / id / "artifacts"
                                     / "model.safetensors")[1] # noqa: E731
        assert same(load(halted), load(straight))
        first = s.submit(job(**{**recipe, "epochs": 15}))
        s.wait(first, "succeeded")
        second = s.submit(
            job(**{**recipe, "init": {"path": first + "/checkpoints", "continue": True}}))
        done = s.wait(second, "succeeded")
        assert (done["progress"]["samples"] == 40 * 640 and done["progress"]["epoch"] == 40
                and done["progress"]["step"] == 400)
        assert same(load(second), load(straight))
        head = s.submit(
            job(model=network(12), init={"path": first + "/model.safetensors", "allow": ["fc2.*"]},
                epochs=1))
        s.wait(head, "succeeded")
        logs = s.get(f"jobs/{head}/logs?rank=1").text  # the keeper's
        assert "fc2.weight" in logs and "fc2.bias" in logs


def test_a_file_that_does_not_fit_is_refused_when_the_job_is_submitted_with_every_tensor_named(
        tmp_path):
    (tmp_path / "junk.safetensors").write_bytes(b"no safetensors file")
    with Service(data=tmp_path) as s:
        first = s.submit(job(epochs=1))
        s.wait(first, "succeeded")
        model, whole = first + "/model.safetensors", {"path": first + "/checkpoints",
                                                      "continue": True}

        def refused(**changes):
            answer = s.post("jobs", job(**changes))
            assert answer.status_code == 422, answer.text
            assert {e["pointer"] for e in answer.json()["errors"]} == {"/init"}, answer.text
            return [e["message"] for e in answer.json()["errors"]]
        assert refused(model=network(12), init=model) == [
            "tensor 'fc2.weight' has the shape [10, 16], the network needs [12, 16]",
            "tensor 'fc2.bias' has the shape [10], the network needs [12]"]
        assert refused(model=network(12), init={"path": model, "allow": ["fc2.weight"]}) == [
            "tensor 'fc2.bias' has the shape [10], the network needs [12]"]
        other = refused(model="mlp", init=model)
        for name, how in {"dense1.weight": "is missing", "dense2.bias": "is missing",
                          "fc1.weight": "is not one of the network's",
                          "bn1.running_var": "is not one of the network's"}.items():
            assert f"tensor '{name}' {how}" in other
        assert refused(init={"path": model, "allow": ["fc3.*"]}) == [
            "'allow' names 'fc3.*', but neither the network nor the file has such a tensor"]
        assert "its header should have" in refused(init="junk.safetensors")[0]
        assert "there is no such file" in refused(init="nowhere.safetensors")[0]
        assert "'epochs' is 1, and that many are done" in refused(init=whole, epochs=1)[0]
        assert "the optimizer 'sgd', this one has 'adam'" in refused(
            init=whole, epochs=2, optimizer=OPTIMIZERS["adam"])[0]
        assert "holds no checkpoint of this network" in refused(
            init=whole, epochs=2, model=network(12))[0]
        for fits in ({"init": model},
                     {"init": {"path": model, "allow": ["fc2.*"]}, "model": network(12)},
                     {"init": whole, "epochs": 2}):
            assert s.post("jobs?dryRun=true", job(**fits)).status_code == 200
        assert [j["id"] for j in s.get("jobs").json()["jobs"]] == [
            first], "what was refused is not queued"


# ---- users' own programs -------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [{"type": "sync"}, {"type": "local-sgd", "k": 2},
                                      {"type": "asgd"}], ids=lambda s: s["type"])
def test_a_programs_job_that_failed_goes_on_in_another_one_from_its_last_checkpoint(
        tmp_path, strategy):
    """Parameters, the programs' own states and the order of samples equal those of a run that did
    not fail, bit for bit."""
    def run(name, *args, **changes):
        return Run(tmp_path / name, program(strategy, [*OWN_STATE, *args],
                                            checkpoint={"every_steps": 2}, **changes),
                   options=["--roots", str(tmp_path)])
    straight = run("straight")
    failed = run("failed", "--fault", "failed", "--after", 3 if strategy["type"] == "asgd" else 6)
    assert failed.code != 0 and "nothing to go on with" in failed.log
    whole = {"path": "failed/checkpoints", "continue": True}
    second = run("second", init=whole)
    assert "continues where another job ended" in second.log
    if strategy["type"] != "asgd":
        assert (without_statistics(second.model()) == without_statistics(straight.model())).all()
        assert sum(row["batch"] for row in second.rows) == 4 * 64
    assert second.seen(1) == list(range(256))
    over = run("over", epochs=1, init={"path": "second/checkpoints", "continue": True})
    assert over.code != 0 and "'epochs' is 1, and that many are done" in over.log
    other = run("other", "--samples", 320, init=whole)
    assert other.code != 0 and "with 256 training samples, the data set has 320" in other.log


def test_a_programs_job_starts_from_the_parameters_of_another_one(tmp_path):
    def run(name, *args, **changes):
        return Run(tmp_path / name, program({"type": "sync"}, args, **changes),
                   options=["--roots", str(tmp_path)])
    first = run("first").model()
    second = run("second", "--rate", 0, init="first/artifacts/model.safetensors")
    assert (without_statistics(second.model()) == without_statistics(first)).all()
    assert second.seen(0) == second.seen(1) == list(range(256))
