"""The command line against the real service: what it prints, and with which exit status it ends."""
import json
import os
import re
import shutil
import subprocess

import pytest
import requests

from service import BUILD, Service, processes_of, spec, until

EVENSTEP = str(BUILD / "evenstep")
COMMANDS = ["serve", "submit", "jobs", "show", "watch", "cancel", "pause", "resume", "nodes", "catalog", "evaluate", "link"]


@pytest.fixture(scope="module")
def service():
    with Service(nodes=["fast=cpu:1,slowdown=2", "slow=cpu:1,slowdown=4"]) as s:
        yield s


def run(*args, service=None, cwd="/tmp", text=None, **env):
    """stdout, stderr and status of `evenstep ARGS`."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("EVENSTEP_")}
    if service:
        plain.update(EVENSTEP_URL=service.url, EVENSTEP_TOKEN=service.token)
    done = subprocess.run([EVENSTEP, *args], capture_output=True, text=True, timeout=180, input=text, cwd=cwd, env={**plain, **env})
    return done.stdout, done.stderr, done.returncode


def test_help_names_every_command_and_every_command_has_its_own():
    out, _, status = run("--help")
    assert status == 0 and all(re.search(rf"^  {c} ", out, re.M) for c in COMMANDS)
    for command in COMMANDS:
        own, _, status = run(command, "--help")
        assert status == 0 and own.startswith(f"usage: evenstep {command}") and "--help" in own
    assert re.match(r"evenstep \d+\.\d+", run("--version")[0])


def test_a_command_that_is_used_wrongly_ends_with_status_2_and_says_how_it_is_used():
    assert run()[2] == 2
    out, err, status = run("shwo")
    assert status == 2 and not out and "did you mean 'show'?" in err
    assert run("show") == ("", "usage: evenstep show ID\n", 2)
    _, err, status = run("jobs", "--jsno")
    assert status == 2 and "--json" in err


def test_without_a_token_or_a_service_it_says_what_to_do(tmp_path):
    out, err, status = run("jobs", cwd=tmp_path)
    assert status == 3 and "there is no token" in err and "EVENSTEP_TOKEN" in err
    _, err, status = run("jobs", EVENSTEP_URL="http://127.0.0.1:9", EVENSTEP_TOKEN="x")
    assert status == 1 and "cannot reach http://127.0.0.1:9" in err and "evenstep serve" in err


def test_a_wrong_token_is_refused_and_a_file_with_the_right_one_is_enough(service, tmp_path):
    _, err, status = run("jobs", EVENSTEP_URL=service.url, EVENSTEP_TOKEN="wrong")
    assert status == 1 and "token" in err
    assert run("jobs", "--url", service.url, "--token-file", str(service.dir / "token"))[2] == 0
    (tmp_path / "evenstep-data").mkdir()
    (tmp_path / "evenstep-data" / "token").write_text(service.token + "\n")  # the default data directory
    assert run("jobs", "--url", service.url, cwd=tmp_path)[2] == 0


def test_a_proxy_in_the_environment_is_not_asked_for_this_machine(service):
    assert run("nodes", service=service, http_proxy="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9", ALL_PROXY="http://127.0.0.1:9")[2] == 0


def test_a_job_is_submitted_watched_to_its_end_and_shown(service, tmp_path):
    (tmp_path / "job.json").write_text(json.dumps(spec(name="by-hand", epochs=4)))
    out, err, status = run("submit", "--watch", str(tmp_path / "job.json"), "--url", service.url, "--token-file", str(service.dir / "token"))
    lines = out.splitlines()
    assert (status, err) == (0, "") and re.fullmatch("[0-9a-f]{16}", lines[0])
    assert "succeeded" in lines[-1] and "100 %" in lines[-1] and "accuracy" in lines[-1] and "█" in lines[-1]
    id = lines[0]
    shown, _, status = run("show", id, service=service)
    assert status == 0 and shown.startswith(f"{id}  by-hand  succeeded, attempt 1\n")
    assert "step 160, 10240 samples" in shown and " fast " in shown and " slow " in shown
    assert json.loads(run("show", id, "--json", service=service)[0])["id"] == id
    table = run("jobs", service=service)[0].splitlines()
    assert any(line.startswith(id) and "by-hand" in line and "succeeded" in line and "100 %" in line for line in table)
    assert run("watch", id, service=service)[2] == 0  # over already


def test_a_job_may_come_from_standard_input_and_a_dry_run_queues_nothing(service):
    before = len(service.get("jobs").json()["jobs"])
    out, _, status = run("submit", "-", "--dry-run", service=service, text=json.dumps(spec()))
    assert status == 0 and [n["batch"] for n in json.loads(out)["nodes"]] == [32, 32]
    assert len(service.get("jobs").json()["jobs"]) == before
    out, _, status = run("submit", "-", service=service, text=json.dumps(spec(epochs=1)))
    assert status == 0 and service.job(out.strip())["state"]
    service.wait(out.strip(), "succeeded")


def test_every_mistake_of_a_spec_is_printed_with_its_place(service, tmp_path):
    bad = spec(epochs=0, modle="mlp", strategy={"type": "snyc"}, batching={"global_batch": 1}, **{f"unknown{i}": i for i in range(20)})
    out, err, status = run("submit", "-", service=service, text=json.dumps(bad))
    assert status == 1 and not out and all(f"  /{p}: " in err for p in ["epochs", "modle", "strategy/type", "unknown0", "unknown19"])
    assert "'sync'" in err
    (tmp_path / "torn.json").write_text('{"name": "a",\n "name"')
    _, err, status = run("submit", str(tmp_path / "torn.json"), service=service)
    assert status == 1 and "torn.json" in err and "line 2" in err
    _, err, status = run("submit", str(tmp_path / "missing.json"), service=service)
    assert status == 1 and "missing.json" in err


def test_pause_resume_and_cancel(service):
    id = run("submit", "-", service=service, text=json.dumps(spec(epochs=1000, checkpoint={"every_steps": 50})))[0].strip()
    service.steps(id, 20)
    assert run("pause", id, service=service) == (f"{id} pausing\n", "", 0)
    service.wait(id, "paused")
    assert run("pause", id, service=service) == (f"{id} paused\n", "", 0), "it is already"
    assert run("resume", id, service=service)[2] == 0
    service.wait(id, "running")
    assert run("cancel", id, service=service)[2] == 0
    out, err, status = run("watch", id, service=service)
    assert status == 1 and "cancelled" in out.splitlines()[-1]
    _, err, status = run("pause", id, service=service)
    assert status == 1 and "cancelled" in err
    until("no process is left", lambda: not processes_of(id))


@pytest.fixture
def draining(service):
    assert service.post("nodes/slow/drain").ok
    yield
    assert service.post("nodes/slow/enable").ok


def test_a_job_that_waits_says_for_what(service, draining):
    id = run("submit", "-", service=service, text=json.dumps(spec()))[0].strip()
    until("it is known why", lambda: "waits: it asks for 2 workers, and 1 of the 2 nodes is lost, draining or disabled" in run("show", id, service=service)[0])
    assert any(line.startswith(id) for line in run("jobs", "--state", "queued", service=service)[0].splitlines())
    assert not any(line.startswith(id) for line in run("jobs", "--state", "running", service=service)[0].splitlines())
    run("cancel", id, service=service)


def test_lists_go_on_over_pages(service, draining):
    ids = [service.submit(spec(name=f"page-{i}")) for i in range(105)]
    listed = [line.split()[0] for line in run("jobs", "--state", "queued", "--limit", "104", service=service)[0].splitlines()[1:]]
    assert listed == ids[::-1][:104]
    for id in ids:
        service.post(f"jobs/{id}/cancel")


def test_an_unknown_job_is_named_and_what_is_no_id_is_not_asked_for(service):
    _, err, status = run("show", "0123456789abcdef", service=service)
    assert status == 1 and "0123456789abcdef" in err
    for odd in ("../nodes", "a?b", "", "x" * 200):
        _, err, status = run("show", odd, service=service)
        assert status == 1 and "is no id of a job" in err


def test_nodes_and_the_catalogue_are_listed(service):
    out, _, status = run("nodes", service=service)
    assert status == 0 and [line.split()[0] for line in out.splitlines()] == ["node", "fast", "slow"]
    out, _, status = run("catalog", service=service)
    assert status == 0 and re.search(r"^  asgd +\S", out, re.M) and re.search(r"^      learning_rate +", out, re.M)
    assert "asgd" in json.dumps(json.loads(run("catalog", "--json", service=service)[0]))


def test_a_link_is_good_for_one_session(service):
    out, _, status = run("link", service=service)
    address, code = out.strip().split("/#token=")
    assert status == 0 and address == service.url

    def session():
        return requests.post(service.url + "/api/v1/session", json={"token": code}, headers={"Origin": service.url}, timeout=30).status_code
    assert session() < 300 and session() == 401


def test_two_services_do_not_share_a_data_directory(service):
    out, err, status = run("serve", "--data-dir", str(service.dir), "--listen", "127.0.0.1:0")
    assert status == 1 and "another evenstep serve works in" in err
    assert service.get("nodes").status_code == 200


def test_a_port_that_is_in_use_is_told_and_nothing_is_left(service, tmp_path):
    _, err, status = run("serve", "--data-dir", str(tmp_path / "other"), "--listen", service.url.split("//")[1])
    assert status == 1 and "Address already in use" in err and "choose another --listen" in err
    assert not processes_of(str(tmp_path / "other"))


def test_without_mpirun_a_job_fails_and_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "redis-server").symlink_to(shutil.which("redis-server"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with Service(nodes=("a=cpu:1",)) as s:
        monkeypatch.undo()
        id = s.submit(spec(workers=1, max_restarts=0))
        error = s.wait(id, "failed")["error"]["message"]
        assert "cannot start 'mpirun'" in error and "openmpi-bin" in error
