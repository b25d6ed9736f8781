"""Users' own programs as jobs of the service: which may run, where they are, and what the service
shows of them."""
import json
import os
import re
import subprocess

import pytest
import redis

from programs import BUILD, ROOT
from service import Service, until

PROGRAMS = ROOT / "tests/program"


def put(folder, name="counting", **changes):
    """Installs it like an operator: a folder below DIR/programs with a manifest."""
    place = folder / "programs" / name
    place.mkdir(parents=True)
    for file in ("wire.py", "counting.py"):
        os.symlink(PROGRAMS / file, place / file)
    (place / "manifest.json").write_text(
        json.dumps({"command": ["/usr/bin/python3", "counting.py"],
                    "arguments": {"--rate": "number", "--curved": "flag", "--fault": "text",
                                  "--optimizer": "text", "--state": "flag", "--pause": "number",
                                  "--times": "number", "--on": "number", "--loop": "number",
                                  "--steps": "number", "--change": "number",
                                  "--after": "number"}, **changes}))


def job(**program):
    return {"program": program, "workers": 2, "epochs": 2,
            "batching": {"global_batch": 64, "policy": "equal"}, "strategy": {"type": "sync"}}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    put(folder)
    with Service(folder=folder) as s:
        yield s


def refused(service, spec, pointer):
    answer = service.post("jobs", spec)
    assert answer.status_code == 422, answer.text
    messages = [e["message"] for e in answer.json()["errors"] if e["pointer"] == pointer]
    assert messages, answer.text
    return messages[0]


def crashes(service, id):
    """The facts about programs that were restarted."""
    store = redis.Redis(unix_socket_path=str(service.dir / "redis.sock"), decode_responses=True)
    return [f for _, entry in store.xrange(f"es:job:{id}:facts")
            if (f := json.loads(entry["j"].partition("\n")[2]))["type"] == "crashed"]


def test_a_program_that_the_operator_put_there_runs_and_is_seen(service):
    id = service.submit(job(name="counting", args=["--rate", "0.25"]))
    done = service.wait(id, "succeeded")
    assert done["progress"]["samples"] == 2 * 256 and done["progress"]["fraction"] == 1
    assert done["metrics"]["test_accuracy"] == 0.375
    log = service.get(f"jobs/{id}/logs", params={"rank": 1}).text
    assert "rank 1 of 2" in log
    names = {a["name"] for a in service.get(f"jobs/{id}/artifacts").json()["artifacts"]}
    assert {"model.safetensors", "rank-0.json"} <= names
    assert sorted(i for r in (0, 1)
                  for i in json.loads(service.artifact(id, f"rank-{r}.json"))["seen"]["1"]) == list(
                      range(256))


def test_programs_that_drift_apart_twice_end_the_job_and_no_node_is_blamed(service):
    """Of two, both have other parameters than the other."""
    args = ["--change", "0", "--after", "5"]
    id = service.submit({**job(name="counting", args=args), "max_restarts": 3})
    failed = service.wait(id, "failed")
    assert failed["error"]["code"] == "program" and failed["error"]["attempt"] == 2
    assert "has other parameters than the others after step 8" in failed["error"]["message"]
    assert not [n for n in service.get("nodes").json()["nodes"] if n["state"] == "resting"]


def test_what_its_model_confuses_the_program_alone_knows(service):
    """The answer was a path on this host, and an option of the command line."""
    id = service.submit(job(name="counting"))
    service.wait(id, "succeeded")
    answer = service.get(f"jobs/{id}/confusion")
    assert answer.status_code == 422, answer.text
    assert "a user's own program's" in answer.text and str(service.dir) not in answer.text
    assert "evaluate it in the program" in answer.json()["hint"]


@pytest.mark.parametrize("strategy", ["asgd", "dbs-sgd", "local-sgd", "hpsgd"])
def test_every_kind_of_strategy_runs_it(service, strategy):
    id = service.submit({**job(name="counting"), "strategy": {"type": strategy}})
    assert service.wait(id, "succeeded")["progress"]["samples"] == 2 * 256


@pytest.mark.parametrize("strategy", ["sync", "asgd", "local-sgd"])
def test_a_program_that_stops_within_an_epoch_succeeds_in_its_first_attempt(service, strategy):
    spec = {**job(name="counting", args=["--loop", "9", "--steps", "3"]),
            "strategy": {"type": strategy}}
    del spec["epochs"]
    done = service.wait(service.submit(spec), "succeeded")
    assert done["attempt"] == 1
    assert done["progress"]["samples"] == 192 and done["progress"]["epoch"] == 0.75
    assert done["progress"]["fraction"] == 1


@pytest.mark.parametrize("batching",
                         [None, {"policy": "equal", "min_batch": 8},
                          {"policy": "static", "sizes": [40, 24]}],
                         ids=["nothing", "equal", "static"])
@pytest.mark.parametrize("strategy", ["sync", "asgd"])
def test_the_loaders_batch_is_the_global_batch_of_a_job_that_names_none(
        service, strategy, batching):
    spec = {k: v for k, v in job(name="counting", args=["--rate", "0.25"]).items()
            if k != "batching"}
    id = service.submit(
        {**spec, "strategy": {"type": strategy}, **({"batching": batching} if batching else {})})
    done = service.wait(id, "succeeded")
    assert done["program"] == {"framework": "plain", "optimizer": "sgd", "parameters": 2450,
                               "tensors": 4, "samples": 256, "global_batch": 64, "epochs": 2}
    assert (done["assignment"]["global_batch"] == 64 and done["progress"]["samples"] == 2 * 256
            and done["progress"]["fraction"] == 1)
    last = service.get(f"jobs/{id}/assignments").json()["assignments"][-1]["batches"]
    assert sum(last.values()) == 64 and (not batching or "sizes" not in batching
                                         or sorted(last.values()) == [24, 40])


def test_a_batch_that_the_job_and_the_program_name_differently_is_one_sentence_with_both(service):
    id = service.submit(
        {**job(name="counting"), "batching": {"global_batch": 60, "policy": "equal"},
         "max_restarts": 0})
    assert "a global batch of 60, but the program's loader has a batch of 64" in service.wait(
        id, "failed")["error"]["message"]


def test_a_dry_run_says_that_minibatches_are_not_known_before_the_program_has_joined(service):
    spec = {k: v for k, v in job(name="counting").items() if k != "batching"}
    answer = service.post("jobs?dryRun=true", spec).json()
    told = {w["code"]: w for w in answer["warnings"]}
    assert "told the batch of its loader" in told["batch_unknown"]["message"], answer
    assert {n["batch"] for n in answer["nodes"]} == {None}, "0 is no minibatch"
    assert answer["parameters"] is None, "its program brings them"
    out = subprocess.run([BUILD / "evenstep", "submit", "-", "--dry-run"], text=True, check=True,
                         env={"EVENSTEP_URL": service.url, "EVENSTEP_TOKEN": service.token},
                         input=json.dumps(spec), stdout=subprocess.PIPE).stdout
    assert "its program brings the network and the data" in out, out
    assert re.search(r"^ +0  a +cpu:1 +- +-$", out, re.M), "0 is no minibatch: " + out


@pytest.mark.parametrize("strategy", ["sync", "asgd"])
def test_a_job_that_was_paused_goes_on_exactly_where_its_program_was(service, strategy):
    """One worker, whose optimizer has a momentum that no other process knows."""
    args = ["--optimizer", "heavy", "--curved", "--state"]
    spec = {**job(name="counting", args=args), "workers": 1, "epochs": 10,
            "strategy": {"type": strategy}}
    whole = service.submit(spec)
    service.wait(whole, "succeeded")
    spec["program"]["args"] += ["--pause", "0.25"]  # 8 s for the pause to come in time
    id = service.submit(spec)
    service.steps(id, 6)
    service.post(f"jobs/{id}/pause")
    paused = service.wait(id, "paused")
    assert paused["progress"]["step"] < 40
    service.post(f"jobs/{id}/resume")
    service.wait(id, "succeeded")
    assert service.artifact(id, "state.bin") == service.artifact(whole, "state.bin")
    assert "state of rank 0" in service.get(f"jobs/{id}/logs", params={"rank": 0}).text


def test_a_halving_says_to_a_program_how_many_epochs_its_rung_has(service):
    """It sets its epochs itself, so each rung made all of them, and the next rung none."""
    put(service.dir, "telling", arguments={"--rate": "number", "--epochs": "number"})
    given = {"program": {"name": "telling", "args": ["--rate", "0.25", "--epochs", "9"]},
             "workers": 1, "strategy": {"type": "sync"}}
    asked = {"name": "counted", "spec": given, "parallel": 2,
             "metric": {"name": "train_loss"},
             "parameters": [{"pointer": "/program/args/1", "range": [0.01, 0.3]}],
             "method": {"type": "halving", "trials": 2, "eta": 2, "rungs": [1, 3],
                        "epochs_at": "/program/args/9"}}
    wrong = service.post("sweeps", asked)
    assert [e["pointer"] for e in wrong.json()["errors"]] == ["/method/epochs_at"]
    asked["method"]["epochs_at"] = "/program/args/3"
    id = service.post("sweeps", asked).json()["id"]

    def ended():
        now = service.get("sweeps/" + id).json()
        return now if now["state"] != "running" else None
    done = until("the sweep has ended", ended)
    assert sorted(t["state"] for t in done["trials"]) == ["stopped", "succeeded"], done
    best = next(t for t in done["trials"] if t["state"] == "succeeded")
    first, second = (service.job(j["id"]) for j in best["jobs"])
    assert [j["progress"]["epochs"] for j in (first, second)] == [1, 3]
    assert second["progress"]["step"] == 3 * first["progress"]["step"]
    assert first["spec"]["program"]["args"][1] == str(best["settings"]["/program/args/1"])
    out = subprocess.run([str(BUILD / "evenstep"), "sweeps", "counted"], text=True, check=True,
                         capture_output=True, env={**os.environ, "EVENSTEP_URL": service.url,
                                                   "EVENSTEP_TOKEN": service.token}).stdout
    assert re.search(r"trial +state +--rate +metric", out), out


def test_a_crash_of_the_program_is_the_jobs_error(service):
    id = service.submit({**job(name="counting", args=["--fault", "exit"]), "max_restarts": 0})
    error = service.wait(id, "failed")["error"]
    assert "exit code 3" in error["message"] and "about to exit" in error["message"]
    assert error["node"] in ("a", "b") and error["rank"] in (0, 1)
    ended = error["program"]
    assert ended["exit_code"] == 3 and ended["exception"] is None, ended
    assert ended["last_line"].startswith("about to exit"), ended
    assert ended["every_rank"] == {"epoch": 1, "step": 4}, ended



@pytest.mark.parametrize("strategy, code, attempts", [
    ("sync", "program", 2), ("asgd", "invalid", 1), ("local-sgd", "invalid", 1)])
def test_a_program_that_fails_alike_again_and_again_ends_the_job(service, strategy, code, attempts):
    """All end in one step of `sync`: the next attempt tells an accident from a mistake. Otherwise
    each is restarted, three times."""
    id = service.submit({**job(name="counting", args=["--fault", "exit"]),
                         "strategy": {"type": strategy}})
    done = service.wait(id, "failed")
    assert done["attempt"] == attempts and done["error"]["code"] == code, done["error"]
    assert "about to exit" in done["error"]["message"]


def test_a_program_that_is_killed_again_and_again_may_go_on_in_another_attempt(service):
    id = service.submit({**job(name="counting", args=["--fault", "killed"]), "max_restarts": 1,
                         "strategy": {"type": "local-sgd"}})
    done = service.wait(id, "failed")
    assert done["attempt"] == 2 and "three times in a row" in done["error"]["message"]


def test_what_would_fail_again_is_not_tried_again(service):
    id = service.submit(job(name="counting", args=["--fault", "refused", "--on", "1"]))
    done = service.wait(id, "failed")
    assert "cannot go on: nothing to go on with" in done["error"]["message"]
    assert done["error"]["rank"] == 1 and done["attempt"] == 1 and crashes(service, id) == []
    assert done["error"]["program"]["reason"] == "nothing to go on with"


def test_an_errors_hint_is_in_the_jobs_message(service):
    id = service.submit({**job(name="counting", args=["--fault", "nan"]), "max_restarts": 0})
    error = service.wait(id, "failed")["error"]
    message = error["message"]
    assert error["code"] == "not_finite" and "NaN or infinite" in message
    assert message.endswith("; a smaller learning rate, or gradient clipping")


def test_a_dry_run_says_whether_there_is_a_checkpoint_to_go_on_from(service):
    """The program only says which network it has when it runs."""
    id = service.submit({**job(name="counting", args=["--fault", "exit", "--times", "1"]),
                         "max_restarts": 0, "checkpoint": {"every_steps": 2}})
    service.wait(id, "failed")

    def dry(path, go_on):
        return service.post("jobs?dryRun=true", {**job(name="counting"),
                                                 "init": {"path": path, "continue": go_on}})
    assert dry(id + "/checkpoints", True).status_code == 200
    assert dry(id + "/artifacts", True).json()["errors"][0]["message"].endswith(
        "it holds no checkpoint")
    assert "there is no such file" in dry(id + "/other", False).json()["errors"][0]["message"]
    again = service.submit({**job(name="counting"), "init": {"path": id + "/checkpoints",
                                                             "continue": True}})
    done = service.wait(again, "succeeded")
    assert done["progress"]["samples"] == 2 * 256 and done["progress"]["fraction"] == 1
    assert "continues where another job ended" in service.get(
        f"jobs/{again}/logs", params={"rank": 2}).text  # the keeper's


def test_a_program_that_is_started_again_is_told_and_the_job_succeeds_in_its_first_attempt(service):
    id = service.submit(job(name="counting", args=["--fault", "exit", "--times", "1", "--on", "1"]))
    done = service.wait(id, "succeeded")
    assert done["attempt"] == 1 and done["progress"]["samples"] == 2 * 256
    told = crashes(service, id)
    assert [f["rank"] for f in told] == [1] and "ended with exit code 3" in told[0]["message"], told


def test_without_leave_only_named_programs_run_with_the_arguments_of_their_manifest(service):
    assert "--allow-programs" in refused(service, job(command=["/bin/sh", "-c", "id"]), "/program")
    assert "--allow-programs" in refused(service, job(name="counting", command=["/bin/sh"]),
                                         "/program/command")
    assert "--allow-programs" in refused(service, job(name="counting", env={"LD_PRELOAD": "x"}),
                                         "/program/env")
    assert "no argument '--epochs'" in refused(service,
                                               job(name="counting", args=["--epochs", "3"]),
                                               "/program/args/0")
    assert "number" in refused(service, job(name="counting", args=["--rate", "fast"]),
                               "/program/args/1")
    assert "no program 'other'" in refused(service, job(name="other"), "/program/name")
    assert "cannot be the name" in refused(service, job(name="../programs/counting"),
                                           "/program/name")
    assert "uploaded" in refused(service, job(digest="00ff"), "/program/digest")


def test_what_a_manifest_sets_reaches_the_program_and_no_answer(service):
    secret = "known-to-the-operator-alone"
    put(service.dir, "keyed", env={"API_KEY": secret}, command=[
        "/bin/sh", "-c", 'test -n "$API_KEY" && exec /usr/bin/python3 counting.py'])
    id = service.submit(job(name="keyed"))
    service.wait(id, "succeeded")
    artifacts = service.get(f"jobs/{id}/artifacts").json()["artifacts"]
    told = [service.artifact(id, a["name"]) for a in artifacts]
    for path in ("", "/logs", "/workers", "/assignments", "/series", "/evaluations"):
        told.append(service.get(f"jobs/{id}{path}").content)
    told += [service.get(path).content for path in ("jobs", "programs", "nodes", "audit")]
    assert len(told) > 10 and not [t[:200] for t in told if secret.encode() in t]


def test_with_leave_a_job_may_bring_its_command(tmp_path):
    put(tmp_path)
    with Service(folder=tmp_path, options=["--allow-programs"]) as s:
        id = s.submit(job(command=["/usr/bin/python3", str(PROGRAMS / "counting.py")],
                          args=["--rate", "0.5"]))
        assert "number" in refused(s, job(name="counting", args=["--rate", "fast"]),
                                   "/program/args/1")
        assert s.wait(id, "succeeded")["progress"]["samples"] == 2 * 256
