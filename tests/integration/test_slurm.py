"""Evenstep inside Slurm: deploy/slurm/evenstep.sbatch on a Slurm of two nodes (tests/lab/slurm.py),
and a coordinator that was started in somebody's allocation."""
import json
import os
import pathlib
import sys

import pytest
import requests

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
import slurm  # noqa: E402
from service import BUILD, ROOT, Service, free_port, spec, until  # noqa: E402

ABSENT = slurm.reason_against()
SCRIPT = ROOT / "deploy" / "slurm" / "evenstep.sbatch"


def test_a_coordinator_inside_an_allocation_starts_its_own_ranks(monkeypatch):
    for name, value in {"JOB_ID": "7", "JOBID": "7", "NODELIST": "elsewhere",
                        "JOB_NODELIST": "elsewhere", "NNODES": "1", "TASKS_PER_NODE": "1"}.items():
        monkeypatch.setenv("SLURM_" + name, value)
    with Service() as s:
        assert s.wait(s.submit(spec()), "succeeded")["attempt"] == 1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if ABSENT:
        pytest.skip(f"Slurm is not tested: {ABSENT}")
    with slurm.Slurm(tmp_path_factory.mktemp("slurm")) as s:
        yield s


class Under:
    """The script's jobs with one EVENSTEP_HOME."""

    def __init__(self, cluster, folder):
        self.cluster, self.home, self.folder = cluster, folder / "home", folder
        self.listen = f"127.0.0.1:{free_port()}"
        self.env = {"EVENSTEP_HOME": str(self.home), "EVENSTEP_LISTEN": self.listen,
                    "PATH": f"{BUILD}:{os.environ['PATH']}", "TMPDIR": str(folder)}

    def start(self, *specs):
        return self.cluster.batch("--nodes=2", "-o", self.folder / "out-%j", SCRIPT, *specs,
                                  **self.env)

    def text(self, job):
        out = self.folder / f"out-{job}"
        return out.read_text() if out.exists() else ""

    def ended(self, job):
        def over():
            return self.cluster.state(job).split()[0] not in (
                "PENDING", "RUNNING", "COMPLETING", "CONFIGURING")
        try:
            until(f"Slurm's job {job} has ended", over, every=0.2)
        finally:
            print(self.text(job)[-4000:])
        return self.cluster.state(job)

    def get(self, path):
        try:
            token = (self.home / "token").read_text().strip()
            answer = requests.get(f"http://{self.listen}/api/v1/{path}",
                                  headers={"Authorization": "Bearer " + token}, timeout=10)
            return answer.json() if answer.status_code == 200 else None
        except (OSError, requests.ConnectionError):
            return None


def write(folder, name, job):
    (folder / name).write_text(json.dumps(job))
    return folder / name


def test_a_spec_is_trained_on_both_nodes_and_the_slurm_job_ends(cluster, tmp_path):
    under = Under(cluster, tmp_path)
    job = under.start(write(tmp_path, "a.json", spec()))
    assert under.ended(job) == "COMPLETED 0:0"
    text = under.text(job)
    assert text.count(
        'msg="daemon started"') == 2 and "joined\" host=n1" in text and "joined\" host=n2" in text
    (model,) = under.home.glob("jobs/*/artifacts/model.safetensors")
    assert model.stat().st_size > 100_000
    assert not list(tmp_path.glob("evenstep-*")), "what the agents kept is gone"


def test_a_spec_that_is_wrong_fails_the_slurm_job(cluster, tmp_path):
    under = Under(cluster, tmp_path)
    job = under.start(write(tmp_path, "b.json", spec(workers=0)))
    assert under.ended(job) == "FAILED 1:0"
    assert "/workers" in under.text(job)


def test_when_the_time_is_over_jobs_write_checkpoints_and_the_next_slurm_job_goes_on(
        cluster, tmp_path):
    under, epochs = Under(cluster, tmp_path), 150  # it must still run when Slurm's signal arrives
    first = under.start(
        write(tmp_path, "c.json",
              spec(epochs=epochs, evaluate={"every_epochs": epochs}, max_restarts=0,
                   checkpoint={"every_seconds": 3600})))
    running = until("it trains",
                    lambda: next(
                        (j for j in (under.get("jobs") or {"jobs": []})["jobs"]
                         if (j["progress"] or {}).get("step", 0) > 100), None))
    cluster.ask("scancel", "--signal=TERM", "--batch", str(first))
    assert under.ended(first) == "COMPLETED 0:0"
    second = under.start()

    def over():
        job = under.get("jobs/" + running["id"])
        return job if job and job["state"] in ("succeeded", "failed") else None
    done = until("it has ended", over)
    assert (done["state"] == "succeeded" and done["attempt"] == 2
            and done["progress"]["samples"] == epochs * 2560)
    cluster.ask("scancel", "--signal=TERM", "--batch", str(second))
    assert under.ended(second) == "COMPLETED 0:0"
