"""/metrics and deploy/monitoring before Prometheus itself: its checker, and a server that scrapes a
service with a running job and answers every query of the dashboard (Debian's package prometheus,
which `deploy/setup api-tools` installs)."""
import json
import os
import re
import shutil
import subprocess

import pytest
import requests

from service import ROOT, Service, free_port, spec, until

PROMTOOL = os.environ.get("EVENSTEP_PROMTOOL") or shutil.which("promtool")
PROMETHEUS = os.environ.get("EVENSTEP_PROMETHEUS") or shutil.which("prometheus")
FILES = ROOT / "deploy/monitoring"
pytestmark = pytest.mark.skipif(not PROMTOOL, reason="promtool is not installed (prometheus)")
# nothing of these has happened, or is there, in the service of this test
QUIET = {"Ended jobs", "Failures", "Refused between hosts", "GPUs", "GPUs: temperature"}


def promtool(*arguments, **more):
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def queries():
    """[(panel, query)] of the dashboard, with values for its variables."""
    put = {"$instance": ".*", "$run": ".*", "$__rate_interval": "1m"}
    found = []
    for panel in json.loads((FILES / "grafana.json").read_text())["panels"]:
        for target in panel.get("targets", []):
            text = target["expr"]
            for name, value in put.items():
                text = text.replace(name, value)
            assert "$" not in text, text
            found.append((panel["title"], text))
    return found


@pytest.fixture(scope="module")
def service():
    with Service() as s:
        job = s.submit(spec(name="watched", epochs=10**6))  # runs until it is cancelled
        s.wait(job, "running")
        until("it has evaluated", lambda: s.job(job)["metrics"]["test_accuracy"] is not None)
        yield s
        s.post(f"jobs/{job}/cancel")
        s.wait(job, "cancelled")


def metrics(service):
    return service.http.get(service.url + "/metrics", timeout=60).text


def test_the_metrics_are_as_prometheus_wants_them(service):
    text = metrics(service)
    assert "evenstep_http_request_seconds_bucket" in text
    promtool("check", "metrics", input=text)


def test_the_alert_rules_fire_when_they_should_and_only_then():
    assert "10 rules" in promtool("check", "rules", FILES / "alerts.yml")
    promtool("test", "rules", FILES / "alerts_test.yml")


def test_rules_and_dashboard_name_only_metrics_that_there_are(service):
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", metrics(service), re.M))
    there = {"up"} | {name for name, kind in types.items() if kind != "histogram"} | {
        f"{name}_{end}" for name, kind in types.items() if kind == "histogram"
        for end in ("bucket", "sum", "count")}
    rules = (FILES / "alerts.yml").read_text()
    texts = re.findall(r"expr: (.*)", rules) + [text for _, text in queries()]
    named = {name for text in texts
             for name in re.findall(r"\b(?:evenstep|process)_[a-z_]+|\bup\b", text)}
    assert len(texts) > 30 and named - there == set()


@pytest.fixture(scope="module")
def prometheus(service, tmp_path_factory):
    """Asks a Prometheus that scrapes the service once a second, configured by deploy/monitoring."""
    if not PROMETHEUS:
        pytest.skip("prometheus is not installed")
    folder = tmp_path_factory.mktemp("prometheus")
    shutil.copy(FILES / "alerts.yml", folder)
    (folder / "viewer-token").write_text(service.token)
    config = (FILES / "prometheus.yml").read_text()
    changed = config.replace("127.0.0.1:8080", service.url.split("//")[1]).replace("15s", "1s")
    assert changed.count(service.url.split("//")[1]) == 1 and "1s" in changed
    (folder / "prometheus.yml").write_text(changed)
    promtool("check", "config", folder / "prometheus.yml")
    at = f"127.0.0.1:{free_port()}"
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(
            [PROMETHEUS, f"--config.file={folder}/prometheus.yml",
             f"--storage.tsdb.path={folder}/db", f"--web.listen-address={at}"],
            stdout=log, stderr=log)

    def ask(query):
        answer = requests.get(f"http://{at}/api/v1/query", params={"query": query}, timeout=60)
        assert answer.status_code == 200, f"{query}: {answer.text}"
        return answer.json()["data"]["result"]

    def up():
        assert process.poll() is None, (folder / "log").read_text()
        try:
            return ask('up{job="evenstep"} == 1')
        except (requests.ConnectionError, AssertionError):  # it is starting
            return None

    try:
        until("Prometheus has scraped the service", up)
        yield ask
    finally:
        process.terminate()
        process.wait()


def test_every_query_of_the_dashboard_is_answered(prometheus):
    assert len(queries()) > 25
    for panel, query in queries():
        if panel in QUIET:
            prometheus(query)
        else:  # a rate needs two scrapes
            until(f"the panel '{panel}' has a figure", lambda q=query: prometheus(q))
