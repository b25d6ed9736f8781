"""The Debian packages (make deb) in a fresh Debian with systemd: they install with what they need,
run as their own user, and an upgrade leaves a running job alone."""
import json
import os
import re
import shutil
import subprocess

import pytest

from cluster import Daemon, docker, find_base, run, why_not
from service import BUILD, ROOT, spec, until

ABSENT = why_not() or (None if shutil.which("dh") else
                       "debhelper is not installed (deploy/setup deb)")
pytestmark = pytest.mark.skipif(bool(ABSENT), reason=f"packages are not tested: {ABSENT}")

IMAGE = """FROM {base}
RUN apt-get update && apt-get install -y --no-install-recommends systemd systemd-sysv dbus procps
STOPSIGNAL SIGRTMIN+3
CMD ["/sbin/init"]
"""
UNITS = ("evenstep", "evenstep-agent")


def packages(version):
    """Those of this version, made of the programs that are built."""
    listed = run(str(ROOT / "deploy/debian/make"), os.path.relpath(BUILD, ROOT),
                 env={**os.environ, "DEB_VERSION": version})
    return [line for line in listed.split() if "dbgsym" not in line]


class Machine:
    """A container that systemd runs."""

    def __init__(self, folder):
        (folder / "Dockerfile").write_text(IMAGE.format(base=find_base()))
        docker("build", "-q", "-t", "evenstep-systemd", str(folder))
        # all rights that a container can be given without those over the machine's limits
        self.id = docker("run", "-d", "--cap-add", "ALL", "--cap-drop", "SYS_RESOURCE",
                         "--security-opt", "seccomp=unconfined", "--security-opt",
                         "apparmor=unconfined", "--tmpfs", "/run", "--tmpfs", "/run/lock",
                         "--tmpfs", "/tmp:exec", "-v", "/sys/fs/cgroup:/sys/fs/cgroup:rw",
                         "evenstep-systemd").strip()

    def boots(self):
        """Does systemd come up? Not on every machine may a container have control groups."""
        try:
            until("systemd is up", lambda: self.tells("systemctl is-system-running") in
                  ("running", "degraded"), 60)
        except AssertionError:
            return False
        return True

    def sh(self, text, **kw):
        return docker("exec", self.id, "sh", "-ec", text, **kw).strip()

    def tells(self, text):
        return self.sh(text, check=False)

    def install(self, files):
        self.sh("rm -rf /debs; mkdir /debs")
        for file in files:
            docker("cp", str(ROOT / file), f"{self.id}:/debs")
        self.sh("apt-get install -y -q --no-install-recommends /debs/*.deb")

    def cli(self, text):
        return self.sh(f"export EVENSTEP_TOKEN=$(cat /var/lib/evenstep/token); evenstep {text}")

    def job(self, id):
        return json.loads(self.cli(f"show {id} --json"))

    def step(self, id):
        return (self.job(id)["progress"] or {}).get("step", 0)

    def ended(self):
        docker("rm", "-f", self.id)


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("docker")) as daemon:
        if not daemon.there:
            pytest.skip("packages are not tested: dockerd cannot run here")
        m = Machine(tmp_path_factory.mktemp("image"))
        try:
            if not m.boots():
                pytest.skip("packages are not tested: systemd does not run in a container here")
            m.sh("apt-get update -q")
            m.install(packages("0.1.0"))
            yield m
        finally:
            if m.tells("systemctl is-active evenstep") != "active":
                print(m.tells("journalctl --no-pager -u evenstep | tail -n 40"))
            m.ended()


def pid_of(machine, unit="evenstep"):
    return machine.sh(f"systemctl show -P MainPID {unit}")


def ranks(machine):
    return set(machine.tells("pgrep -u evenstep evenstep-worker").split())


def test_the_service_runs_as_its_own_user_and_trains(machine):
    assert machine.sh("systemctl is-active evenstep") == "active"
    assert machine.sh("systemctl show -P StatusText evenstep") == "works"
    assert machine.sh(f"stat -c %U /proc/{pid_of(machine)}") == "evenstep"
    assert machine.sh("stat -c '%U %a' /var/lib/evenstep") == "evenstep 700"
    id = submit(machine, epochs=1)
    until("it ends", lambda: machine.job(id)["state"] == "succeeded")


def test_an_agent_without_settings_waits_for_them(machine):
    assert machine.tells("systemctl start evenstep-agent; systemctl is-active evenstep-agent") \
        == "inactive"
    machine.sh("echo 'store = redis://127.0.0.1:6379' >/etc/evenstep/agent.conf; "
               "install -o evenstep -m 600 /var/lib/evenstep/secret /etc/evenstep/secret; "
               "echo 'secret-file = /etc/evenstep/secret' >>/etc/evenstep/agent.conf; "
               "systemctl start evenstep-agent")
    assert machine.sh("systemctl is-active evenstep-agent") == "active"


def test_an_upgrade_leaves_a_running_job_alone(machine):
    id = submit(machine, epochs=2000)
    until("it trains", lambda: machine.step(id) > 20)
    before, service, agent = ranks(machine), pid_of(machine), pid_of(machine, "evenstep-agent")
    machine.sh("echo '# an operator was here' >>/etc/evenstep/serve.conf")
    machine.install(packages("0.1.1"))
    assert machine.sh("dpkg-query -W -f '${Version}' evenstep-service") == "0.1.1"
    assert machine.job(id)["state"] == "running" and before
    assert pid_of(machine) != service and ranks(machine) == before
    step = machine.step(id)
    until("it goes on", lambda: machine.step(id) > step)
    assert machine.job(id)["attempt"] == 1
    assert machine.sh("tail -n 1 /etc/evenstep/serve.conf") == "# an operator was here"
    assert machine.sh("systemctl is-active evenstep-agent") == "active"
    assert pid_of(machine, "evenstep-agent") != agent, "it runs as the old version"


def test_an_agent_that_was_not_started_is_not_started_by_an_upgrade(machine):
    machine.sh("systemctl stop evenstep-agent")
    machine.install(packages("0.1.2"))
    assert machine.tells("systemctl is-active evenstep-agent") == "inactive"
    machine.sh("systemctl start evenstep-agent")


def test_a_stop_leaves_no_process_and_the_job_goes_on_after_the_next_start(machine):
    id = next(j["id"] for j in json.loads(machine.cli("jobs --json"))["jobs"]
              if j["state"] == "running")
    machine.sh("systemctl stop evenstep evenstep-agent")
    until("no process is left", lambda: not machine.tells("pgrep -u evenstep"))
    machine.sh("systemctl start evenstep evenstep-agent")
    until("it runs again", lambda: machine.job(id)["state"] == "running")
    machine.cli(f"cancel {id}")


def test_a_purge_leaves_data_and_user_and_no_process_or_unit(machine):
    assert machine.sh("systemctl is-active evenstep evenstep-agent") == "active\nactive"
    machine.sh("apt-get purge -y -q 'evenstep*'")
    assert not machine.tells("pgrep -u evenstep") and not machine.tells("command -v evenstep")
    assert "evenstep" not in machine.sh("systemctl list-units --all; systemctl list-unit-files")
    assert "evenstep" not in machine.sh("find /lib/systemd /etc/systemd /usr/lib/sysusers.d")
    assert not machine.tells("ls /etc/evenstep/serve.conf") and machine.sh("getent passwd evenstep")


def test_packages_that_come_back_find_the_jobs(machine):
    machine.install(packages("0.1.2"))
    assert machine.sh("systemctl is-active evenstep; systemctl is-enabled evenstep") \
        == "active\nenabled"
    assert len(json.loads(machine.cli("jobs --json"))["jobs"]) == 2


def test_the_loader_is_told_of_the_library(tmp_path):
    [made] = [path for path in packages("0.1.0") if "evenstep-worker_" in path]
    run("dpkg-deb", "-e", str(ROOT / made), str(tmp_path))
    assert "activate-noawait ldconfig" in (tmp_path / "triggers").read_text()


@pytest.mark.parametrize("unit", UNITS)
def test_units_expose_little(unit):
    told = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=30",
                           str(ROOT / f"deploy/systemd/{unit}.service")], capture_output=True,
                          text=True)
    level = re.search(r"exposure level for \S+: ([0-9.]+)", told.stdout + told.stderr)
    assert told.returncode == 0 and float(level.group(1)) < 3, told.stdout[-300:] + told.stderr


def submit(machine, epochs):
    job = json.dumps(spec(model="lenet5", workers=1, epochs=epochs, batching={"global_batch": 64},
                          checkpoint={"every_steps": 100}))
    machine.sh(f"cat >/tmp/job.json <<'END'\n{job}\nEND")
    return machine.cli("submit /tmp/job.json").split()[0]
