"""Many people on one service: tokens, owners of jobs and the audit, by the command line."""
import json
import os
import signal
import socket
import subprocess

import pytest
import requests

from command import EVENSTEP
from service import PATIENCE, Service, spec, until
from test_cli import run


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Service(nodes=["one=cpu:1,slowdown=4"], data=tmp_path_factory.mktemp("data")) as s:
        yield s


def issue(service, name, *options):
    out, err, status = run("token", "create", name, *options, service=service)
    assert status == 0, err
    return out.strip()


def as_user(service, token, *args, **kw):
    return run(*args, EVENSTEP_URL=service.url, EVENSTEP_TOKEN=token, **kw)


def listed(service):
    out, _, status = run("token", "list", "--json", service=service)
    assert status == 0
    return json.loads(out)["tokens"]


def test_a_token_is_created_listed_and_revoked(service):
    token = issue(service, "vera", "--role", "viewer", "--days", "1")
    out, _, status = as_user(service, token, "whoami")
    assert (status, out) == (0, "vera, with the role viewer\n")
    one = next(t for t in listed(service) if t["name"] == "vera")
    assert (one["role"], one["source"], one["by"]) == ("viewer", "issued", "admin")
    table, _, status = run("token", "list", service=service)
    assert status == 0 and "vera" in table and token not in table
    out, _, status = run("token", "revoke", one["id"], service=service)
    assert (status, out) == (0, f"{one['id']} revoked\n")
    assert as_user(service, token, "whoami")[2] == 7
    _, err, status = run("token", "revoke", one["id"], service=service)
    assert status == 6 and "`evenstep token list` shows them" in err


def test_events_that_end_with_their_token_say_so(service):
    token = issue(service, "evan", "--role", "viewer")
    listens = subprocess.Popen(
        [EVENSTEP, "events"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "EVENSTEP_URL": service.url, "EVENSTEP_TOKEN": token})
    try:
        job = service.submit(spec(workers=1, epochs=100000))
        assert listens.stdout.readline()
        one = next(t for t in listed(service) if t["name"] == "evan")
        assert run("token", "revoke", one["id"], service=service)[2] == 0
        _, err = listens.communicate(timeout=60 * PATIENCE)
        assert listens.returncode == 7 and "token is not known" in err, err
    finally:
        listens.kill()
    assert service.post(f"jobs/{job}/cancel").ok
    service.wait(job, "cancelled")  # a later test wants its node


def test_an_upload_ends_with_its_token(service):
    """It went on to its last byte, and was refused then."""
    token = issue(service, "uma", "--role", "operator")
    one = next(t for t in listed(service) if t["name"] == "uma")
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as s:
        s.sendall((f"POST /api/v1/datasets?name=slow HTTP/1.1\r\nHost: {host}:{port}\r\n"
                   f"Authorization: Bearer {token}\r\nContent-Type: application/x-tar\r\n"
                   f"Content-Length: {1 << 30}\r\n\r\n").encode() + bytes(1 << 20))
        assert run("token", "revoke", one["id"], service=service)[2] == 0

        def closed():
            s.sendall(b"x" * 1000)

        with pytest.raises(OSError):
            until("it has ended", closed, 10)
    assert "an upload ends, since its token was revoked" in service.text()


def test_a_token_command_that_is_used_wrongly_says_how(service):
    _, err, status = run("token", "crate", service=service)
    assert status == 2 and "did you mean `evenstep token create`?" in err
    for args in (["create"], ["create", "a", "b"], ["revoke"], ["list", "a"]):
        assert run("token", *args, service=service)[2] == 2
    assert run("token", service=service)[2] == 2
    operator = issue(service, "otto")
    assert as_user(service, operator, "token", "list")[2] == 7


def test_an_operator_changes_no_job_of_another_and_is_told_whose_it_is(service, tmp_path):
    olga, max_ = issue(service, "olga"), issue(service, "max")
    job = tmp_path / "job.json"
    job.write_text(json.dumps(spec(workers=1)))
    assert run("drain", "one", service=service)[2] == 0  # so that the job stays in the queue
    out, err, status = as_user(service, olga, "submit", str(job))
    assert status == 0, err
    job_id = out.strip()
    for command in (["cancel", job_id], ["priority", job_id, "5"], ["delete", job_id]):
        _, err, status = as_user(service, max_, *command)
        assert status == 7 and "belongs to 'olga'" in err
    document = service.get(f"jobs/{job_id}").json()
    assert (document["state"], document["owner"]) == ("queued", "olga")
    assert "\n  submitted by olga\n" in as_user(service, max_, "show", job_id)[0]
    assert as_user(service, olga, "cancel", job_id)[2] == 0
    assert run("enable", "one", service=service)[2] == 0


def test_the_audit_says_who_did_what(service):
    ada = issue(service, "ada")
    assert as_user(service, ada, "drain", "one")[2] == 0
    assert as_user(service, ada, "enable", "one")[2] == 0
    out, _, status = run("audit", "--who", "ada", "--json", service=service)
    assert status == 0
    entries = json.loads(out)["entries"]
    assert [e["path"] for e in entries] == ["/api/v1/nodes/one/enable", "/api/v1/nodes/one/drain"]
    assert {(e["who"], e["from"], e["status"]) for e in entries} == {("ada", "127.0.0.1", 200)}
    table, _, status = run("audit", "--since", "1h", "--limit", "1", service=service)
    assert status == 0 and "/api/v1/nodes/one/enable" in table and "drain" not in table
    assert as_user(service, ada, "audit")[2] == 7
    assert requests.get(service.url + "/api/v1/audit?since=2999-01-01",
                        headers={"Authorization": f"Bearer {service.token}"},
                        timeout=30).json() == {"entries": [], "next": None}


def test_jobs_are_listed_by_owner(service, tmp_path):
    lea, leo = issue(service, "lea"), issue(service, "leo")
    job = tmp_path / "job.json"
    job.write_text(json.dumps(spec(workers=1)))
    assert run("drain", "one", service=service)[2] == 0
    mine, theirs = (as_user(service, t, "submit", str(job))[0].strip() for t in (lea, leo))
    assert as_user(service, lea, "jobs", "--owner", "me", "-q")[0].split() == [mine]
    assert as_user(service, lea, "jobs", "--owner", "leo", "-q")[0].split() == [theirs]
    assert as_user(service, lea, "jobs", "--owner", "le", "-q")[0] == ""
    assert "leo" in as_user(service, lea, "jobs")[0]
    listed_jobs = service.get("jobs?owner=lea&state=queued&fields=owner").json()["jobs"]
    assert listed_jobs == [{"id": mine, "owner": "lea"}]
    for token, one in ((lea, mine), (leo, theirs)):
        assert as_user(service, token, "cancel", one)[2] == 0
    assert run("enable", "one", service=service)[2] == 0


def test_on_sighup_files_are_read_again_and_the_service_goes_on(service):
    tokens = service.dir / "token"
    before = tokens.read_text()
    tokens.write_text(before + "operator-0123456789abcdef operator Hugo\n")
    service.process.send_signal(signal.SIGHUP)
    until("the log says so", lambda: "told to read its files again" in service.text()
          and "the token file was read again" in service.text())
    out, _, status = as_user(service, "operator-0123456789abcdef", "whoami")
    assert (status, out) == (0, "Hugo, with the role operator\n")
    tokens.write_text(before)
    assert service.process.poll() is None
