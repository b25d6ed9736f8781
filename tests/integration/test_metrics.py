"""/metrics and the alert rules before Prometheus' own checker (Debian's package prometheus)."""
import os
import shutil
import subprocess

import pytest

from service import ROOT, Service

PROMTOOL = os.environ.get("EVENSTEP_PROMTOOL") or shutil.which("promtool")
pytestmark = pytest.mark.skipif(not PROMTOOL, reason="promtool is not installed (prometheus)")


def promtool(*arguments, **more):
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_metrics_are_as_prometheus_wants_them():
    with Service(nodes=("a=cpu:1",)) as s:
        assert s.get("jobs").ok
        text = s.http.get(s.url + "/metrics", timeout=60).text
    assert "evenstep_http_request_seconds_bucket" in text
    promtool("check", "metrics", input=text)


def test_the_alert_rules_are_valid():
    assert "6 rules" in promtool("check", "rules", ROOT / "deploy/prometheus/alerts.yml")
