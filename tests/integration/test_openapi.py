"""/openapi.json before programs that others wrote: a validator, a client that is generated from it,
and schemathesis, which sends what the description allows and what it does not. They live in an
environment of their own (deploy/setup api-tools)."""
import json
import os
import pathlib
import re
import subprocess

import pytest
import requests

from service import PATIENCE, ROOT, Service, until

TOOLS = pathlib.Path(os.environ.get("EVENSTEP_API_TOOLS", ROOT / "run/api-tools")) / "bin"
pytestmark = pytest.mark.skipif(not (TOOLS / "schemathesis").exists(),
                                reason=f"{TOOLS} has no schemathesis (deploy/setup api-tools)")

# What no schema can say: keys that hang together, data sets and nodes that must be there. Such a
# spec is understood, and is 422. An archive is bytes to the description, and 400 if it cannot be
# read. The stream of events, which never ends, is left out.
CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "304", "401", "403", "404", "409", "412", "416", "422", "503"]
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "406", "409", "412", "415", "416", "422",
                     "429"]
"""
for upload in ("post_programs", "post_datasets"):  # most bytes are no archive
    CONFIG += f"""
[[operations]]
include-operation-id = "{upload}"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "401", "403", "409", "422", "429", "503"]
"""
for conditional in ("patch_jobs_id", "delete_jobs_id", "delete_nodes_name",
                    "get_jobs_id_artifacts_name"):  # it takes the quotes off an ETag: 400
    CONFIG += f"""
[[operations]]
include-operation-id = "{conditional}"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "304", "400", "401", "403", "404", "409", "412", "416", "422", "503"]
"""


@pytest.fixture(scope="module")
def service():
    with Service(nodes=("a=cpu:1", "b=cpu:1")) as s:
        yield s


@pytest.fixture(scope="module")
def description(service, tmp_path_factory):
    path = tmp_path_factory.mktemp("openapi") / "openapi.json"
    path.write_text(requests.get(service.url + "/openapi.json", timeout=60).text)
    return path


def run(*command, **more):
    """A tool's output; its failure is the test's."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          timeout=900 * PATIENCE, **more)
    assert done.returncode == 0, (done.stdout + done.stderr)[-12000:]
    return done.stdout


def test_the_description_is_valid(description):
    assert "OK" in run(TOOLS / "openapi-spec-validator", description)


def test_examples_and_answers_fit_their_schemas(service, description):
    """By a validator of JSON Schema, which also looks into oneOf."""
    program = r"""
import json, sys, jsonschema
d = json.load(open(sys.argv[1]))
for name, document in json.load(sys.stdin):
    schema = {"$ref": "#/components/schemas/" + name, "components": d["components"]}
    jsonschema.Draft202012Validator(schema).validate(document)
"""
    example = json.loads(
        description.read_text())["paths"]["/api/v1/jobs"]["post"]["requestBody"]["content"][
            "application/json"]["example"]
    dry = service.post("jobs?dryRun=true", example).json()
    warned = service.post("jobs?dryRun=true",
                          {**example, "batching": {"global_batch": 1_000_000}}).json()
    assert [w["code"] for w in warned["warnings"]] == ["batch_too_large"]
    id = service.submit(example)
    pairs = [("JobSpec", example), ("JobSpec", dry["spec"]), ("DryRun", dry),
             ("DryRun", warned),
             ("Job", service.job(id)), ("Job", service.wait(id, "succeeded"))]
    pairs += [(name, service.get(f"jobs/{id}/{part}").json())
              for name, part in [("WorkerList", "workers"), ("Staleness", "staleness"),
                                 ("AssignmentList", "assignments"),
                                 ("EvaluationList", "evaluations"),
                                 ("Curves", "series?names=all"), ("Steps", "steps"),
                                 ("ArtifactList", "artifacts")]]
    pairs += [(name, service.get(path).json())
              for name, path in [("JobList", "jobs"), ("NodeList", "nodes"), ("Catalog", "catalog"),
                                 ("DatasetList", "datasets"), ("ProgramList", "programs")]]
    run(TOOLS / "python", "-c", program, description, input=json.dumps(pairs))


def test_the_name_of_a_file_may_have_slashes_and_that_of_a_node_may_not(description):
    def fits(path, word):
        schema = json.loads(description.read_text())["paths"][path]["get"]["parameters"]
        return [re.search(p["schema"]["pattern"], word) for p in schema if p["name"] == "name"][0]
    assert fits("/api/v1/jobs/{id}/artifacts/{name}", "plots/loss.png")
    assert not fits("/api/v1/nodes/{name}", "plots/loss.png")


def test_a_generated_client_has_sound_types_submits_waits_and_downloads(service, description,
                                                                        tmp_path):
    run(TOOLS / "openapi-python-client", "generate", "--path", description,
        "--output-path", tmp_path / "client", "--meta", "none", "--fail-on-warning", cwd=tmp_path,
        env={**os.environ, "PATH": f"{TOOLS}:{os.environ['PATH']}"})
    (tmp_path / "use.py").write_text('''
import json, pathlib, sys, time
from client import AuthenticatedClient
from client.api.jobs import (get_jobs, get_jobs_id, get_jobs_id_artifacts,
                             get_jobs_id_artifacts_name, get_jobs_id_evaluations, post_jobs)
from client.models import GetJobsStateItem, JobSpec, Job
c = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
submit = json.load(open(sys.argv[3]))["paths"]["/api/v1/jobs"]["post"]
example = submit["requestBody"]["content"]["application/json"]["example"]
example["data"]["samples"] = 640
job = post_jobs.sync(client=c, body=JobSpec.from_dict(example), idempotency_key="generated")
assert isinstance(job, Job), job
while job.state not in ("succeeded", "failed", "cancelled"):
    time.sleep(0.2)
    job = get_jobs_id.sync(job.id, client=c)
assert job.state == "succeeded", job
ended = [GetJobsStateItem.FAILED, GetJobsStateItem.SUCCEEDED]
listed = get_jobs.sync_detailed(client=c, state=ended, fields=["name", "state"])
assert listed.parsed.jobs and all(j.state in ended for j in listed.parsed.jobs), listed
assert get_jobs_id_evaluations.sync(job.id, client=c).evaluations[-1].accuracy > 0
names = [a.name for a in get_jobs_id_artifacts.sync(job.id, client=c).artifacts]
assert "model.safetensors" in names, names
answer = get_jobs_id_artifacts_name.sync_detailed(job.id, "model.safetensors", client=c)
assert answer.status_code == 200 and len(answer.content) > 100000, answer
plot = pathlib.Path(sys.argv[4], "jobs", job.id, "artifacts", "plots", "loss 1.txt")
plot.parent.mkdir()
plot.write_text("of a program")
assert "plots/loss 1.txt" in [
    a.name for a in get_jobs_id_artifacts.sync(job.id, client=c).artifacts]
answer = get_jobs_id_artifacts_name.sync_detailed(job.id, "plots/loss 1.txt", client=c)
assert answer.content == b"of a program", answer
''')
    # client.client, which is the generator's own, has errors whatever it is generated from
    run(TOOLS / "mypy", "-p", "client.models", "-p", "client.api", "--follow-imports", "silent",
        "--no-incremental", cwd=tmp_path)
    run(TOOLS / "python", "use.py", service.url, service.token, description, service.dir,
        cwd=tmp_path)


def test_schemathesis_finds_nothing(service, description, tmp_path):
    """On nodes that take no jobs, so that what is submitted stays in the queue."""
    for name in "ab":
        assert service.post(f"nodes/{name}/drain").ok
    (tmp_path / "schemathesis.toml").write_text(CONFIG)

    def try_everything():
        run(TOOLS / "schemathesis", "--config-file", tmp_path / "schemathesis.toml", "run",
            description, "--url", service.url, "--checks", "all", "--exclude-path",
            "/api/v1/events", "--max-examples", "20", "--seed", "90210", "--request-timeout", "60",
            "--suppress-health-check", "all", "--continue-on-failure", "-H",
            f"Authorization: Bearer {service.token}", cwd=tmp_path)
    try:
        try:
            try_everything()
        except AssertionError as e:
            if "[503]" not in str(e):
                raise
            try_everything()  # the machine was so busy that Redis did not answer in time
    finally:
        until("the service answers", lambda: requests.get(service.url + "/healthz", timeout=60).ok)
