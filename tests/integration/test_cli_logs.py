"""Logs from the command line: complete, in part, while they grow, and when a log is empty."""
import json
import os
import subprocess

import pytest

from service import Service, spec
from test_cli import EVENSTEP, run


@pytest.fixture(scope="module")
def service():
    with Service() as s:
        yield s


@pytest.fixture(scope="module")
def job(service):
    id = service.submit(spec(name="level"))
    service.wait(id, "succeeded")
    return id


def test_logs_are_printed_whole_in_part_and_until_the_job_ends(service, job):
    whole = run("logs", "level", "--rank", "0", service=service)[0]
    assert whole.endswith("\n") and "rank=0" in whole
    lines = [json.loads(line) for line in
             run("logs", "level", "--rank", "0", "--json", service=service)[0].splitlines()]
    assert [line["line"] for line in lines] == whole.splitlines() and lines[0]["rank"] == 0
    id = service.submit(spec(name="told", epochs=2))
    out, err, status = run("logs", id, "--rank", "1", "-f", service=service)
    assert (status, err) == (0, "") and service.job(id)["state"] == "succeeded"
    assert out == run("logs", id, "--rank", "1", service=service)[0] != ""
    assert run("logs", id, "--rank", "7", service=service)[2] == 6


def test_a_log_without_a_line_says_so_and_where_there_are_some(service, job):
    """mpirun writes nothing about a healthy job."""
    assert run("logs", job, service=service) == (
        "", "this log is empty; --rank N and --all show those of the ranks\n", 0)
    assert run("logs", job, "--json", service=service) == ("", "", 0)


def test_a_virtual_job_without_a_line_sends_nobody_to_its_ranks(service):
    """It is one process: it has no log of a rank, which the hint named."""
    id = service.submit(spec(cluster={"nodes": [{"name": "v", "count": 2,
                                                 "seconds_per_sample": 0.001}]}))
    service.wait(id, "succeeded")
    for options in ((), ("--rank", "0"), ("--all",)):
        out, err, status = run("logs", id, *options, service=service)
        assert (out, status) == ("", 0) and "a virtual job is one process" in err
        assert "--rank" not in err


@pytest.mark.parametrize("words", ["logs --rank 0 --follow", "events", "events --json"])
def test_what_goes_on_ends_where_it_cannot_be_written(service, words):
    """On a full disk it continued until the job's end, or for ever, and printed nothing."""
    id = service.submit(spec(name="unwritten", epochs=1000000))
    env = dict(os.environ, EVENSTEP_URL=service.url, EVENSTEP_TOKEN=service.token)
    try:
        service.steps(id, 5)
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([EVENSTEP, *words.split(), id], stdout=full, text=True, env=env,
                                  stderr=subprocess.PIPE, timeout=60, check=False)
    finally:
        service.post(f"jobs/{id}/cancel")
        service.wait(id, "cancelled")
    assert done.returncode == 5 and done.stderr.count("\n") == 1, done.stderr
    assert "cannot write the answer" in done.stderr
