"""Sweeps through the service: jobs are submitted within the budget, also by a coordinator that
starts again; a halving goes on from checkpoints; what would be refused as a job is refused."""
import json

import pytest

from service import Service, spec, until

TINY = {"format": "glyphs", "samples": 256, "test_samples": 64}
BASE = spec(data=TINY, workers=1, epochs=1)
VIRTUAL = {**BASE, "cluster": {"nodes": [{"name": "v", "seconds_per_sample": 0.001}]}}
RATE = "/optimizer/learning_rate"


@pytest.fixture(scope="module")
def service():
    with Service(nodes=("a=cpu:1", "b=cpu:1")) as s:
        yield s


def start(service, **changes):
    answer = service.post("sweeps", {
        "name": "rates", "spec": BASE, "parameters": [{"pointer": RATE, "values": [0.1, 0.01]}],
        "method": {"type": "grid"}, **changes})
    assert answer.status_code == 201, answer.text
    assert answer.headers["Location"] == "/api/v1/sweeps/" + answer.json()["id"]
    return answer.json()["id"]


def sweep(service, id):
    return service.get("sweeps/" + id).json()


def ended(service, id, state):
    def there():
        now = sweep(service, id)
        return now if now["state"] in ("succeeded", "failed", "cancelled") else None
    now = until(f"sweep {id} has ended", there)
    assert now["state"] == state, json.dumps(now) + service.text()[-3000:]
    return now


def jobs(service, id):
    return service.get("jobs", params={"tag": "sweep:" + id, "limit": 500}).json()["jobs"]


def test_every_mistake_is_told_at_once_where_it_was_made(service):
    before = len(service.get("sweeps").json()["sweeps"])
    answer = service.post("sweeps", {
        "spec": {**BASE, "modle": "mlp", "data": {"format": "glyphs", "samples": -1}},
        "method": {"type": "grid"},
        "parameters": [{"pointer": RATE, "values": [0.1, -1]},
                       {"pointer": "/optimizer/mometum", "values": [0.9]}]})
    assert answer.status_code == 422
    told = {e["pointer"]: e["message"] for e in answer.json()["errors"]}
    assert set(told) == {"/spec/modle", "/spec/data/samples", "/parameters/0", "/parameters/1"}
    assert told["/parameters/0"].startswith("trial 2: ")
    assert "did you mean 'momentum'" in told["/parameters/1"]
    missing = service.post("sweeps", {
        "spec": {**BASE, "data": {"format": "idx", "path": "nowhere"}},
        "method": {"type": "grid"}, "parameters": [{"pointer": RATE, "values": [0.1]}]})
    assert missing.status_code == 422
    assert missing.json()["errors"][0]["pointer"] == "/spec/data/path"
    lost = service.post("sweeps", {"spec": {**BASE, "model": "mlp"}, "method": {"type": "grid"},
                                   "parameters": [{"pointer": "/model/layers/0/units",
                                                   "values": [1]}]})
    assert lost.json()["errors"] == [{"pointer": "/parameters/0/pointer",
                                      "message": "trial 1: this leads nowhere in the spec"}]
    assert len(service.get("sweeps").json()["sweeps"]) == before


def test_a_request_that_is_repeated_makes_one_sweep(service):
    body = {"spec": VIRTUAL, "parameters": [{"pointer": RATE, "values": [0.1]}],
            "method": {"type": "grid"}}
    first, second = (service.post("sweeps", body, headers={"Idempotency-Key": "once"})
                     for _ in range(2))
    assert first.json()["id"] == second.json()["id"]
    assert second.headers["Idempotency-Replayed"] == "true"
    other = service.post("sweeps", {**body, "seeds": 2}, headers={"Idempotency-Key": "once"})
    assert other.status_code == 409
    ended(service, first.json()["id"], "succeeded")


def test_a_killed_coordinator_goes_on_and_no_trial_runs_twice(service):
    id = start(service, spec=VIRTUAL, seeds=2, parameters=[
        {"pointer": RATE, "range": [0.01, 1], "scale": "log", "steps": 3}])
    until("its first job is there", lambda: jobs(service, id))
    service.kill()
    service.start()
    done = ended(service, id, "succeeded")
    assert done["counts"] == {"trials": 3, "jobs": 6, "active": 0, "ended": 6, "failed": 0}
    assert sorted(j["name"] for j in jobs(service, id)) == [
        f"rates-{trial}-s{seed}" for trial in (1, 2, 3) for seed in (1, 2)]
    assert [t["settings"] for t in done["trials"]] == [{RATE: 0.01}, {RATE: 0.1}, {RATE: 1}]
    for trial in done["trials"]:
        own = [service.job(j["id"]) for j in trial["jobs"]]
        assert [j["spec"]["seed"] for j in own] == [1, 2]
        figures = [j["metrics"]["test_accuracy"] for j in own]
        assert trial["metric"] == pytest.approx(sum(figures) / 2)
        assert trial["spread"] == pytest.approx(abs(figures[0] - figures[1]) / 2 ** 0.5)
    best = max(done["trials"], key=lambda t: (t["metric"], -t["number"]))
    assert done["best"] == {"trial": best["number"], "metric": pytest.approx(best["metric"]),
                            "settings": best["settings"]}
    assert service.ask("DELETE", "sweeps/" + id).status_code == 204
    assert service.get("sweeps/" + id).status_code == 404
    assert len(jobs(service, id)) == 6  # they stay


def test_a_halving_trains_no_epoch_twice(service):
    id = start(service, parallel=2, method={"type": "halving", "trials": 2, "eta": 2,
                                            "rungs": [1, 3]},
               parameters=[{"pointer": RATE, "range": [0.01, 0.1], "scale": "log"}])
    done = ended(service, id, "succeeded")
    assert sorted(t["state"] for t in done["trials"]) == ["stopped", "succeeded"]
    winner = next(t for t in done["trials"] if t["state"] == "succeeded")
    first, second = (service.job(j["id"]) for j in winner["jobs"])
    assert winner["metric"] == second["metrics"]["test_accuracy"] == done["best"]["metric"]
    assert first["metrics"]["test_accuracy"] == max(
        t["jobs"][0]["metric"] for t in done["trials"])
    assert second["spec"]["init"]["path"] == first["id"] + "/checkpoints"
    evaluations = service.get(f"jobs/{second['id']}/evaluations").json()["evaluations"]
    assert [e["epoch"] for e in evaluations] == [2, 3]
    assert second["progress"]["step"] == 3 * first["progress"]["step"]


def test_who_starts_a_sweep_may_cancel_it_with_all_its_jobs(service):
    long = {**BASE, "epochs": 100000, "evaluate": {"every_epochs": 100000}}
    id = start(service, spec=long, parallel=1)
    until("a job runs", lambda: [j for j in jobs(service, id) if j["state"] == "running"])
    assert service.ask("DELETE", "sweeps/" + id).status_code == 409
    token = service.post("tokens", {"name": "otto", "role": "operator"}).json()["token"]
    refused = service.post(f"sweeps/{id}/cancel", headers={"Authorization": "Bearer " + token})
    assert refused.status_code == 403 and "sweep" in refused.json()["detail"]
    assert service.post(f"sweeps/{id}/cancel").json()["state"] == "cancelling"
    done = ended(service, id, "cancelled")
    assert [t["state"] for t in done["trials"]] == ["cancelled", "cancelled"]
    assert [j["state"] for j in jobs(service, id)] == ["cancelled"]
    again = service.post(f"sweeps/{id}/cancel")
    assert again.status_code == 409 and "has ended" in again.json()["detail"]
