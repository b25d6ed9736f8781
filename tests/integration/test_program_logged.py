"""What a program logs besides evaluations: metrics of the job, with the steps after which they were
logged, in the API, lists of jobs, the command line and the client."""
import csv
import io
import re
import subprocess
import sys

import pytest
import redis

from command import EVENSTEP, environment
from programs import ROOT
from service import Service, until
from test_program_upload import counting, job, taken

STRATEGIES = ["sync", "asgd", "local-sgd", "hpsgd"]
# four steps an epoch
LOGS = ["/usr/bin/python3", "counting.py", "--log", "1"]


@pytest.fixture(scope="module")
def service():
    with Service(options=["--allow-programs"]) as made:
        yield made


def spec_of(service, *args, files=None, strategy="sync", **more):
    spec = job(digest=taken(service, counting(**(files or {}))), command=[*LOGS, *map(str, args)])
    return {**spec, "strategy": {"type": strategy}, **more}


def run(service, *args, state="succeeded", **more):
    id = service.submit(spec_of(service, *args, **more))
    service.wait(id, state)
    return id


def logged(service, id, **params):
    answer = service.get(f"jobs/{id}/logged", params=params)
    assert answer.status_code == 200, answer.text
    return {m["name"]: m for m in answer.json()["metrics"]}


def program(*lines):
    """A program of the user's: counting.py whose loop calls log(w, s), with these lines."""
    text = (ROOT / "tests/program/counting.py").read_text()
    begin, end = text.index("def log(w, s):"), text.index("def loops(rank):")
    body = "".join(f"    {line}\n" for line in lines)
    return {"counting.py": f"{text[:begin]}def log(w, s):\n{body}\n\n{text[end:]}"}


@pytest.fixture(scope="module")
def done(service):
    """Under sync, on two workers: 8 steps."""
    return run(service, name="translates")


def test_each_value_has_the_step_after_which_it_was_logged(service, done):
    all = logged(service, done)
    assert list(all) == ["bleu", "eval/rank"]
    bleu = all["bleu"]
    assert bleu["x"] == list(range(1, 9)) and bleu["total_points"] == 8
    assert bleu["mean"] == bleu["min"] == bleu["max"] == [step / 4 for step in range(1, 9)]
    assert bleu["epoch"] == [step / 4 for step in range(1, 9)]
    assert bleu["time"] == sorted(bleu["time"]) and bleu["time"][0] > 0
    assert set(all["eval/rank"]["mean"]) == {0}  # one rank is heard
    part = logged(service, done, by="epoch", **{"from": 0.75, "to": 1.25})["bleu"]
    assert part["x"] == [3, 4, 5] and part["total_points"] == 3
    few = logged(service, done, points=2)["bleu"]
    assert (few["x"], few["mean"], few["max"]) == ([4, 8], [0.625, 1.625], [1, 2])


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
def test_under_every_kind_of_strategy(service, strategy):
    bleu = logged(service, run(service, "--epochs", 2, strategy=strategy))["bleu"]
    assert bleu["x"] == sorted(bleu["x"]) and len(bleu["x"]) >= 4
    assert bleu["mean"] == sorted(bleu["mean"])


def test_the_newest_values_are_in_the_job_and_lists_know_them(service, done):
    job = service.get(f"jobs/{done}").json()
    assert job["logged"] == {"bleu": 2, "eval/rank": 0}

    def found(**params):
        answer = service.get("jobs", params=params)
        assert answer.status_code == 200, answer.text
        return [j["id"] for j in answer.json()["jobs"]]

    other = run(service, "--epochs", 1, epochs=1, tags=["short"])
    service.http.patch(f"{service.url}/api/v1/jobs/{done}", json={"tags": ["long"]})
    assert found(where="logged.bleu>=1.5", tag="long") == [done]
    assert found(where="logged.bleu>=1.5", tag="short") == []
    assert {done, other} <= set(found(where="logged.eval/rank=0"))
    assert found(where="logged.never>0") == []
    order = [id for id in found(sort="-logged.bleu") if id in (done, other)]
    assert order == [done, other]
    for where in ("logged>1", "logged.>1", "logged.a!b>1"):
        assert service.get("jobs", params={"where": where}).status_code == 422, where


def said(service, *args):
    return subprocess.run([EVENSTEP, *args], env=environment(service), capture_output=True,
                          text=True, check=True, timeout=60).stdout


def test_as_a_table(service, done):
    answer = service.get(f"jobs/{done}/logged", params={"format": "csv"})
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 16
    assert rows[7] == {"metric": "bleu", "x": "8", "epoch": "2", "time": rows[7]["time"],
                       "min": "2", "max": "2", "mean": "2"}


def test_on_the_command_line(service, done):
    lines = said(service, "logged", done).splitlines()
    assert lines[1].split() == ["bleu", "8", "8", "2", "0.25", "2"], lines
    assert "  bleu 2\n" in said(service, "show", done)
    assert said(service, "logged", done, "--csv").startswith("metric,x,epoch,time,min,max,mean")


def test_in_the_client(service, done):
    sys.path.insert(0, str(ROOT / "client/python"))
    from evenstep.client import Client
    bleu = Client(service.url, service.token).logged(done)["bleu"]
    assert list(bleu["x"]) == list(range(1, 9)) and list(bleu["mean"])[-1] == 2


def test_while_it_trains(service):
    id = service.submit(spec_of(service, "--pause", 0.2, epochs=20))
    until("a metric is there", lambda: logged(service, id), 60)
    until("the job tells it", lambda: "bleu" in service.get(f"jobs/{id}").json().get("logged", {}),
          20)
    assert service.get(f"jobs/{id}").json()["state"] == "running"
    figures = service.http.get(service.url + "/metrics").text
    found = re.search(r'^evenstep_job_logged{job="%s",name="[^"]*",metric="bleu"} (\S+)$' % id,
                      figures, re.M)
    assert found and float(found.group(1)) > 0, figures
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")
    assert logged(service, id)["bleu"]["total_points"] >= 1


def test_no_rare_metric_is_lost_beside_frequent_ones(service):
    lines = ["w.log(**{f'often-{i}': s.number for i in range(40)})",
             "if (s.number + 1) % 4 == 0: w.log(rare=s.number + 1)"]
    all = logged(service, run(service, "--pause", 0.005, files=program(*lines), epochs=40))
    assert all["rare"]["x"] == list(range(4, 161, 4))
    assert all["often-39"]["x"][-1] == 160


def test_a_program_that_logs_all_the_time_does_not_fill_the_store(service):
    """Of facts that were read few stay: 60 values in each of 2,000 steps are some 1,000 facts."""
    lines = ["w.log(**{f'm{i}': s.number for i in range(60)})"]
    id = run(service, files=program(*lines), epochs=500)
    store = redis.Redis(unix_socket_path=str(service.dir / "redis.sock"))
    assert store.xinfo_stream(f"es:job:{id}:facts")["entries-added"] > 300
    assert store.xlen(f"es:job:{id}:facts") <= 256
    all = logged(service, id, points=20000)
    assert {f"m{i}" for i in range(60)} <= set(all) and all["m59"]["mean"][-1] == 1999


def test_a_percentage_is_no_evaluation(service):
    lines = ["w.log(test_accuracy=10.0 * s.number, top5_accuracy=0.5)"]
    id = run(service, files=program(*lines))
    all = logged(service, id)
    assert all["test_accuracy"]["mean"][-1] == 70
    evaluations = service.get(f"jobs/{id}/evaluations").json()["evaluations"]
    assert {e["accuracy"] for e in evaluations} <= {0, 0.25, 0.375}
    log = service.get(f"jobs/{id}/logs", params={"rank": 0}).text
    assert log.count("is a fraction of 0 to 1, not a percentage") == 1


def test_odd_names_and_values(service):
    lines = ["w.log(**{'κ \\x1b[31m': 1.5, 'x' * 64: 1, 'nothing': 'nan' if s.number else 1})"]
    id = run(service, files=program(*lines))
    all = logged(service, id)
    assert set(all) == {"κ \x1b[31m", "nothing"}
    assert all["nothing"]["mean"] == [1] + [None] * 7
    assert service.get(f"jobs/{id}").json()["logged"]["nothing"] is None
    shown = said(service, "show", id)
    assert "\x1b" not in shown and "nothing -" in shown and "κ" in shown


def test_values_past_a_checkpoint_are_those_of_the_attempt_that_went_on(service, tmp_path):
    """All workers are lost once, and the job goes on from a checkpoint."""
    lines = [f"lost = '{tmp_path}/lost-%d' % w.rank",
             "w.log(attempt=1 + os.path.exists(lost))",
             "if s.number == 6 and not os.path.exists(lost):",
             "    open(lost, 'w').close()",
             "    time.sleep(1)",
             "    os.kill(os.getppid(), signal.SIGKILL)",
             "    time.sleep(1000)"]
    id = run(service, files=program(*lines), max_restarts=1, checkpoint={"every_steps": 4},
             epochs=3)
    attempt = logged(service, id)["attempt"]
    assert attempt["x"] == list(range(1, 13))
    assert attempt["mean"] == [1] * 4 + [2] * 8


@pytest.mark.parametrize("direction, wins", [("max", "0.5"), ("min", "0.125")])
def test_a_sweep_compares_trials_by_one(service, direction, wins):
    spec = spec_of(service, files=program("w.log(score=100 * ARGS.accuracy)"), epochs=1)
    spec["program"]["args"] = ["--accuracy", "0.25"]
    setting = "/program/args/1"
    sweep = {"spec": spec, "method": {"type": "grid"},
             "parameters": [{"pointer": setting, "values": ["0.25", "0.5", "0.125"]}],
             "metric": {"name": "logged.score", "direction": direction}}
    made = service.post("sweeps", sweep)
    assert made.status_code == 201, made.text
    done = until("the sweep has ended", lambda: next(
        (s for s in [service.get("sweeps/" + made.json()["id"]).json()] if s["state"] != "running"),
        None), 120)
    assert done["best"]["settings"] == {setting: wins}, done
    assert done["best"]["metric"] == 100 * float(wins)

    def wrong(**metric):
        answer = service.post("sweeps", {**sweep, "metric": metric})
        assert answer.status_code == 422
        return {e["pointer"]: e["message"] for e in answer.json()["errors"]}

    assert "is needed" in wrong(name="logged.score")["/metric/direction"]
    assert "/metric/name" in wrong(name="logged.a=b", direction="max")
    answer = service.post("sweeps", {**sweep, "parameters": [
        {"pointer": "/epochs", "values": [1]}], "spec": {"model": "mlp", "data": {
            "format": "glyphs"}, "optimizer": {"type": "sgd", "learning_rate": 0.1},
            "batching": {"global_batch": 64}, "strategy": {"type": "sync"}}})
    assert [e["pointer"] for e in answer.json()["errors"]] == ["/spec/model"], answer.text
