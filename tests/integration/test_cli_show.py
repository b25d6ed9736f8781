"""`evenstep show`: a job in a few lines; and `compare`: two jobs side by side."""
import json
import re

import pytest

from service import Service, spec
from test_cli import run

CLUSTER = {"nodes": [{"name": "fast", "count": 3, "seconds_per_sample": 1e-4},
                     {"name": "slow", "seconds_per_sample": 4e-4}]}


@pytest.fixture(scope="module")
def service():
    with Service(nodes=["a=cpu:1"]) as s:
        yield s


def test_updates_of_a_server_are_no_steps_of_the_cluster(service):
    """An asynchronous run of 40 global batches was shown at "step 160"."""
    for strategy, said in (("asgd", r"step 40, 1\d\d updates, 2560 samples\n"),
                           ("sync", r"step 40, 2560 samples\n")):
        id = service.submit(spec(workers=4, epochs=4, cluster=CLUSTER,
                                 strategy={"type": strategy}, batching={"global_batch": 64},
                                 data={"format": "glyphs", "samples": 640, "test_samples": 64}))
        service.wait(id, "succeeded")
        out, _, status = run("show", id, service=service)
        assert status == 0 and re.search(said, out), out
        assert ("ms per update" in out) is (strategy == "asgd"), out


def test_a_job_without_files_says_so_when_they_are_asked_for(service, tmp_path):
    """`download` succeeded, printed nothing and fetched nothing."""
    service.post("nodes/a/drain")
    id = service.submit(spec(workers=1))
    out, err, status = run("download", id, service=service, cwd=tmp_path)
    service.post(f"jobs/{id}/cancel")
    service.post("nodes/a/enable")
    assert (out, status) == ("", 0) and "has no files" in err and not list(tmp_path.iterdir())


def test_several_lines_of_a_note_are_one_and_as_they_were_in_json(service):
    """Line ends were shown as \\u000a, in notes and in exceptions of several lines."""
    id = service.submit(spec(name="noted", epochs=1, workers=1))
    service.wait(id, "succeeded")
    service.http.patch(f"{service.url}/api/v1/jobs/{id}", json={"note": "one\n\ttwo"}, timeout=60)
    assert run("tag", id, service=service)[0] == f"{id}\none  two\n"
    told = json.loads(run("tag", id, "--json", service=service)[0])
    assert told["note"] == "one\n\ttwo"


def test_a_job_without_a_server_has_a_keeper(service):
    """A job of sync showed "server on host, version 357, serving"."""
    for strategy in ("sync", "asgd"):
        id = service.submit(spec(name="kept", epochs=1, workers=1, strategy={"type": strategy}))
        service.wait(id, "succeeded")
        out = run("show", id, service=service)[0]
        assert ("server on" in out) is (strategy == "asgd"), out
        assert ("keeper on" in out) is (strategy == "sync"), out


def test_jobs_are_compared_by_the_speed_of_their_whole_run(service):
    """The speed of the last five seconds depends on what else ran then."""
    ids = [service.submit(spec(workers=1, epochs=epochs)) for epochs in (2, 3)]
    jobs = [service.wait(id, "succeeded") for id in ids]
    out, _, status = run("compare", *ids, service=service)
    speeds = [f"{job['progress']['samples'] / job['seconds']:.0f}" for job in jobs]
    assert status == 0 and re.search(rf"^samples/s +{speeds[0]} +{speeds[1]}$", out, re.M), out
    on = service.submit(spec(workers=1, epochs=4, init={"path": f"{ids[1]}/checkpoints",
                                                        "continue": True}))
    service.wait(on, "succeeded")
    out = run("compare", ids[1], on, service=service)[0]
    assert re.search(rf"^samples/s +{speeds[1]} +-$", out, re.M), "it counts another job's samples"
