"""Shares of owners on one service: quotas, time limits, and whose turn it is."""
import json
import time

import pytest
import requests

from service import Service, spec, until
from test_cli import run
from test_people import as_user, issue


@pytest.fixture(scope="module")
def quotas(tmp_path_factory):
    file = tmp_path_factory.mktemp("quotas") / "quotas.json"
    file.write_text(json.dumps({
        "default": {}, "preemption": {"after": 0, "keep": 0},
        "owners": {"ada": {"queued": 2}, "bob": {"seconds": 100, "max_seconds": 200, "nodes": 1},
                   "eve": {"disk": 1}}}))
    return file


@pytest.fixture(scope="module")
def service(tmp_path_factory, quotas):
    with Service(nodes=["one=cpu:1,slowdown=4"], data=tmp_path_factory.mktemp("data"),
                 options=["--quotas", str(quotas)]) as s:
        yield s


def post(service, token, body, **headers):
    return requests.post(service.url + "/api/v1/jobs", json=body, timeout=60,
                         headers={"Authorization": f"Bearer {token}", **headers})


def accounting(service, token=None, **params):
    return requests.get(service.url + "/api/v1/accounting", params=params, timeout=60,
                        headers={"Authorization": f"Bearer {token or service.token}"})


def owner(service, name):
    owners = service.get("owners").json()["owners"]
    return next((o for o in owners if o["name"] == name), None)


def test_a_full_queue_is_refused_with_the_figures(service):
    ada = issue(service, "ada")
    assert run("drain", "one", service=service)[2] == 0
    ids = []
    for key in ("first", "second"):
        answer = post(service, ada, spec(workers=1), **{"Idempotency-Key": key})
        assert answer.status_code == 201
        ids.append(answer.json()["id"])
    third = post(service, ada, spec(workers=1))
    assert (third.status_code, third.headers["Retry-After"]) == (429, "30")
    assert third.json()["type"] == "urn:evenstep:problem:quota"
    assert "'ada' has 2 of 2 queued jobs" in third.json()["detail"]
    again = post(service, ada, spec(workers=1), **{"Idempotency-Key": "second"})
    assert (again.status_code, again.json()["id"]) == (201, ids[1])  # submitted again as a new job
    has = owner(service, "ada")
    assert (has["queued"], has["running"], has["quota"]["queued"]) == (2, 0, 2)
    out, _, status = run("owners", service=service)
    assert status == 0 and "2 of 2" in out
    assert as_user(service, ada, "cancel", ids[0])[2] == 0
    until("the cancelled job has left the queue",
          lambda: service.get(f"jobs/{ids[0]}").json()["state"] == "cancelled")
    fourth = post(service, ada, spec(workers=1))
    assert fourth.status_code == 201
    for job in (ids[1], fourth.json()["id"]):
        assert as_user(service, ada, "cancel", job)[2] == 0
    assert run("enable", "one", service=service)[2] == 0


def test_a_job_gets_its_owners_time_limit_and_may_ask_for_no_more(service):
    bob = issue(service, "bob")
    plain = requests.post(service.url + "/api/v1/jobs?dryRun=true", json=spec(workers=1),
                          headers={"Authorization": f"Bearer {bob}"}, timeout=120)
    assert (plain.status_code, plain.json()["spec"]["max_seconds"]) == (200, 100)
    for asked in (0, 201):
        answer = post(service, bob, spec(workers=1, max_seconds=asked))
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "/max_seconds"
        assert "at most 200 s" in answer.json()["errors"][0]["message"]
    wide = post(service, bob, spec(workers=2))
    assert wide.status_code == 422
    assert "may use 1 node at a time" in wide.json()["errors"][0]["message"]


def test_who_takes_too_much_disk_queues_nothing_more(service):
    eve = issue(service, "eve")
    first = post(service, eve, spec(workers=1, epochs=1))
    assert first.status_code == 201
    service.wait(first.json()["id"], "succeeded")
    until("its folder was measured", lambda: owner(service, "eve")["disk_bytes"] > 0)
    second = post(service, eve, spec(workers=1))
    assert second.status_code == 429 and "of 1 bytes of disk" in second.json()["detail"]


def test_a_quota_that_is_raised_lets_a_job_start(service, quotas):
    told = json.loads(quotas.read_text())
    told["owners"]["zoe"] = {"nodes": 0}
    zoe = issue(service, "zoe")
    first = post(service, zoe, spec(workers=1, epochs=1))
    service.wait(first.json()["id"], "succeeded")
    quotas.write_text(json.dumps(told))
    until("the file was read again",
          lambda: owner(service, "zoe")["quota"]["nodes"] == 0)
    assert post(service, zoe, spec(workers=1)).status_code == 422
    told["owners"]["zoe"] = {"running": 0}
    quotas.write_text(json.dumps(told))
    until("the file was read again",
          lambda: owner(service, "zoe")["quota"]["running"] == 0)
    job = post(service, zoe, spec(workers=1, epochs=1)).json()["id"]
    until("the job says why it waits", lambda: service.get(f"jobs/{job}").json()["waiting"]
          == "zoe has 0 of 0 running jobs")
    assert "zoe has 0 of 0 running jobs" in run("show", job, service=service)[0]
    told["owners"].pop("zoe")
    quotas.write_text(json.dumps(told))
    service.wait(job, "succeeded")


def test_a_job_of_higher_priority_has_a_lower_one_paused_which_then_resumes(service):
    def step(job):
        return service.get(f"jobs/{job}").json()["progress"]["step"]

    pam = issue(service, "pam")
    low = post(service, pam, spec(workers=1, epochs=100000)).json()["id"]
    until("it has trained", lambda: step(low) > 10)
    high = post(service, pam, spec(workers=1, epochs=100000, priority=5)).json()["id"]
    until("the lower one gave its node back and says for whom", lambda: f"paused for job {high}"
          in (service.get(f"jobs/{low}").json()["waiting"] or ""))
    until("the higher one trains", lambda: step(high) > 0)
    before = step(low)
    assert as_user(service, pam, "cancel", high)[2] == 0
    service.steps(low, before + 1)  # it continues where it was
    job = service.get(f"jobs/{low}").json()
    assert (job["state"], job["attempt"], job["restarts"], job["waiting"]) == ("running", 2, 0,
                                                                               None)
    assert as_user(service, pam, "cancel", low)[2] == 0
    service.wait(low, "cancelled")


def test_what_was_used_is_counted_once_and_stays(service):
    ann = issue(service, "ann")
    began = time.time()
    job = post(service, ann, spec(workers=1, epochs=2, name="counted")).json()["id"]
    service.wait(job, "succeeded")
    until("its node is free", lambda: service.get("nodes/one").json()["job"] != job)
    most = time.time() - began
    mine = accounting(service, ann, by="job").json()
    row, = mine["accounting"]
    assert (row["job"], row["name"], row["owner"], row["jobs"]) == (job, "counted", "ann", 1)
    assert 0 < row["node_seconds"] <= most
    assert row["node_hours"] == pytest.approx(row["node_seconds"] / 3600)
    for by in ("owner", "job", "day"):
        everybody = accounting(service, by=by).json()
        rows = everybody["accounting"]
        assert sum(r["node_hours"] for r in rows) == pytest.approx(everybody["node_hours"])
        table = accounting(service, by=by, format="csv").text.splitlines()
        assert table[0] == "owner,job,name,day,jobs,node_seconds,node_hours"
        assert len(table) == 1 + len(rows)
    assert as_user(service, ann, "delete", job)[2] == 0
    service.stop()
    service.start()
    assert accounting(service, ann, by="job").json()["accounting"] == [row]


def test_accounting_is_shown_to_owners_and_admins(service):
    tom = issue(service, "tom")
    assert accounting(service, tom).json()["accounting"] == []
    assert accounting(service, tom, owner="ann").status_code == 403
    assert accounting(service, owner="ann").json()["accounting"][0]["owner"] == "ann"
    for wrong in ({"since": "2026-02-30"}, {"until": "yesterday"}, {"by": "week"},
                  {"since": "2026-01-02", "until": "2026-01-01"}):
        assert accounting(service, **wrong).status_code == 422
    out, err, status = run("accounting", "--owner", "ann", service=service)
    assert status == 0 and out.split()[:4] == ["owner", "jobs", "node-hours", "ann"], (out, err)
    out, _, status = run("accounting", "--by", "day", "--csv", service=service)
    assert status == 0 and out.startswith("owner,job,name,day,jobs,node_seconds,node_hours\n")
    old = json.loads(run("accounting", "--until", "2001-01-01", "--json", service=service)[0])
    assert (old["since"], old["accounting"]) == ("2000-12-03", [])
