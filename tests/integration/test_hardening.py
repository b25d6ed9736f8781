"""How programs and libraries are linked: what makes a mistake in memory harder to use is there."""
import os
import re
import shutil
import signal
import subprocess

import pytest

from programs import BUILD, ROOT
from service import until

PROGRAMS = ["evenstep", "evenstep-worker", "evenstep-agent", "evenstep-launch", "evenstep-simulate"]
LIBRARIES = ["libevenstep.so"]


def readelf(name, what):
    return subprocess.run(["readelf", "--wide", what, BUILD / name], capture_output=True,
                          text=True, check=True).stdout


@pytest.mark.parametrize("name", PROGRAMS + LIBRARIES)
def test_a_program_is_hardened(name):
    header = readelf(name, "--file-header")
    assert re.search(r"Type:\s+DYN", header), "not position-independent"
    segments = readelf(name, "--program-headers")
    assert "GNU_RELRO" in segments
    assert re.search(r"GNU_STACK.* RW ", segments), "its stack can be executed"
    assert re.search(r"\bNOW\b", readelf(name, "--dynamic")), "symbols are bound late"
    symbols = readelf(name, "--symbols")
    assert "__stack_chk_fail" in symbols
    sanitized = (BUILD / "tests" / "sanitizer" / "options.o").exists()
    fortified = set(re.findall(r"__\w+_chk\b", symbols)) - {"__stack_chk"}
    assert sanitized or fortified or name in LIBRARIES, "no call is fortified"


@pytest.mark.parametrize("unit", ["evenstep.service", "evenstep-agent.service"])
def test_a_unit_is_kept_from_what_it_does_not_need(unit):
    path = ROOT / "deploy/systemd" / unit
    assert re.search(r"^Type=notify$", path.read_text(), re.M)
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    said = subprocess.run(["systemd-analyze", "security", "--offline=true", path],
                          capture_output=True, text=True)
    level = re.search(r"Overall exposure level for .*: ([0-9.]+)", said.stdout)
    if not level:
        pytest.skip(f"this systemd-analyze reads no files: {said.stderr[-200:]}")
    assert float(level[1]) < 3, said.stdout


LISTENS = "0A"  # the state of /proc/net/tcp


def listening(pid):
    """Addresses on which anybody listens in the network namespace of this process."""
    found = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as f:
            found += [line.split()[1] for line in f if line.split()[3] == LISTENS]
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own is made by root only")
def test_without_an_address_only_loopback_is_listened_on(tmp_path):
    with open(tmp_path / "log", "wb") as log:
        serve = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh",
             BUILD / "evenstep", "serve", "--data-dir", tmp_path / "data"], stdout=log, stderr=log)
    try:
        until("it is ready", lambda: b"msg=\"ready\"" in (tmp_path / "log").read_bytes())
        assert listening(serve.pid) == ["0100007F:1F90"]  # 127.0.0.1:8080
    finally:
        serve.send_signal(signal.SIGTERM)
        serve.wait(60)
