"""How programs and libraries are linked: what makes a mistake in memory harder to use is there."""
import re
import subprocess

import pytest

from programs import BUILD

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
