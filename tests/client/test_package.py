"""The wheel, the C library's installation, and the C example: alone, and on two ranks."""

import os
import subprocess
import sys
import zipfile

import pytest

from conftest import ROOT, environment
from rank import Ranks

BUILD = os.environ.get("EVENSTEP_BUILD", os.path.join(ROOT, "build"))


def make(*arguments, **environ):
    command = ["make", "-s", "CUDA=0", "BUILD=" + BUILD, *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def wheel():
    return os.path.join(ROOT, make("wheel").split()[-1])


def test_the_wheel_installs_without_compiler_and_dependencies(wheel, tmp_path):
    """An installer unpacks a wheel: that is all this one needs."""
    name = os.path.basename(wheel)
    assert name.startswith("evenstep-") and "-py3-none-manylinux_2_" in name
    with zipfile.ZipFile(wheel) as f:
        f.extractall(tmp_path)
    (info,) = tmp_path.glob("*.dist-info")
    assert "Requires-Dist" not in (info / "METADATA").read_text()
    code = "import evenstep, evenstep.library as l; l.Library(); print(evenstep.__file__)"
    plain = {"PYTHONPATH": str(tmp_path), "PATH": "/nowhere"}
    shown = subprocess.run(
        [sys.executable, "-c", code], env=plain, capture_output=True, text=True, cwd=tmp_path
    )
    assert shown.stdout.strip() == str(tmp_path / "evenstep/__init__.py"), shown.stderr


def test_the_same_files_make_the_same_wheel(wheel):
    first = open(wheel, "rb").read()
    make("wheel")
    assert open(wheel, "rb").read() == first


def test_a_program_builds_against_the_installed_library(tmp_path):
    make("install-client", "PREFIX=" + str(tmp_path))
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "evenstep"],
        env=dict(os.environ, PKG_CONFIG_PATH=str(tmp_path / "lib/pkgconfig")),
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    program = tmp_path / "digits"
    source = os.path.join(ROOT, "client/examples/digits.c")
    subprocess.run(["gcc", "-O2", source, "-o", program, *flags, "-lm"], check=True)
    shown = subprocess.run(
        [program],
        env=dict(os.environ, LD_LIBRARY_PATH=str(tmp_path / "lib")),
        check=True,
        capture_output=True,
        text=True,
    )
    assert float(shown.stdout.split()[1]) > 0.95


def test_the_c_example_trains_on_two_unequal_ranks(tmp_path):
    ranks = Ranks(tmp_path, [40, 20], 5)
    program = os.path.join(BUILD, "client/examples/digits")
    running = [
        subprocess.Popen(
            [program],
            env=dict(environment(), EVENSTEP_SOCKET=ranks.path(i)),
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    ranks.join()
    shown = [p.communicate(timeout=30)[0] for p in running]
    assert [p.returncode for p in running] == [0, 0]
    assert shown[0] == shown[1] and float(shown[0].split()[1]) > 0.95
    assert [s["samples"] for s in ranks.sides[1].steps] == [20] * 500
    assert all(side.left for side in ranks.sides)


def test_a_plain_make_leaves_what_evenstep_run_needs():
    """The library that a rank puts on its program's path, too."""
    told = subprocess.run(["make", "-C", ROOT, "-n", "-W", "client/lib/join.c", "all"],
                          capture_output=True, text=True, check=True)
    assert "libevenstep.so" in told.stdout
