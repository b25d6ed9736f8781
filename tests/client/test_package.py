"""The wheel, the C library's installation, and the C example: alone, and on two ranks."""

import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from tree import ROOT, environment
from rank import Ranks

BUILD = os.environ.get("EVENSTEP_BUILD", os.path.join(ROOT, "build"))


def make(*arguments, **environ):
    command = ["make", "-s", "CUDA=0", "BUILD=" + BUILD, *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def wheel():
    return os.path.join(ROOT, make("wheel").split()[-1])


def test_the_wheel_installs_without_compiler_and_dependencies(wheel, tmp_path):
    """An installer unpacks a wheel; this one needs nothing more."""
    name = os.path.basename(wheel)
    glibc = re.fullmatch(r"evenstep-.*-py3-none-manylinux_2_(\d+)_\w+\.whl", name)
    assert int(glibc[1]) <= 28, "systems of 2018 cannot install it"
    assert os.listdir(os.path.dirname(wheel)) == [name]
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


def output_of(*command, **variables):
    return subprocess.run(
        command, env=dict(os.environ, **variables), check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    make("install-client", "PREFIX=" + str(folder))
    return folder


def build(installed, compiler, source, program):
    if not shutil.which(compiler):
        pytest.skip("%s is not installed" % compiler)
    at = str(installed / "lib/pkgconfig")
    flags = output_of("pkg-config", "--cflags", "--libs", "evenstep", PKG_CONFIG_PATH=at).split()
    strict = ["-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
    output_of(compiler, *strict, source, "-o", program, *flags, "-lm")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_program_builds_against_the_installed_library(installed, tmp_path, compiler):
    program = tmp_path / "digits"
    build(installed, compiler, os.path.join(ROOT, "client/examples/digits.c"), program)
    said = output_of(program, LD_LIBRARY_PATH=str(installed / "lib"))
    assert float(said.split()[1]) > 0.95


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_a_program_in_cpp_builds_against_it(installed, tmp_path, compiler):
    source, program = tmp_path / "alone.cpp", tmp_path / "alone"
    source.write_text(
        "#include <evenstep.h>\n#include <cstdio>\n"
        'int main() { std::printf("%d %d\\n", es_abi() == ES_ABI, es_alone()); }\n'
    )
    build(installed, compiler, source, program)
    assert output_of(program, LD_LIBRARY_PATH=str(installed / "lib")) == "1 1\n"


def test_the_library_needs_libc_alone_and_its_calls_have_a_version(installed):
    library = installed / "lib/libevenstep.so"
    needed = re.findall(r"NEEDED\s+(\S+)", output_of("objdump", "-p", library))
    assert [name for name in needed if not name.startswith("ld-linux")] == ["libc.so.6"]
    defined = output_of("nm", "-D", "--defined-only", library)
    calls = re.findall(r" T (\S+)", defined)
    assert calls and all(re.fullmatch(r"es_\w+@@EVENSTEP_1", call) for call in calls)


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
    """Including the library that a rank puts on its program's path."""
    told = subprocess.run(["make", "-C", ROOT, "-n", "-W", "client/lib/join.c", "all"],
                          capture_output=True, text=True, check=True)
    assert "libevenstep.so" in told.stdout


def python(code, *arguments, **variables):
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True,
                          env={**environment(), **variables}, check=True).stdout


@pytest.mark.parametrize("framework, version, said", [
    ("torch", "2.0.1+cu117", "evenstep takes torch 2.1 or newer, and this program has 2.0.1+cu117"),
    ("torch", "2.1.0", ""), ("torch", "2.15.0a0", ""), ("keras", "3.10.0", ""),
    ("keras", "2.15.0", "evenstep takes keras 3.3 or newer, and this program has 2.15.0")])
def test_a_framework_that_is_too_old_is_refused_by_its_version(framework, version, said):
    code = """
import sys, types
sys.modules[sys.argv[1]] = types.ModuleType(sys.argv[1])
sys.modules[sys.argv[1]].__version__ = sys.argv[2]
import evenstep.versions
try:
    evenstep.versions.check(sys.argv[1])
except evenstep.Error as refused:
    print(refused)
"""
    assert python(code, framework, version).strip() == said


def test_in_a_check_unseeded_programs_draw_the_same_numbers():
    """`evenstep run --check` compares two runs of a program."""
    draw = "import random, evenstep, numpy; print(random.random(), numpy.random.rand())"
    of_zero = python(draw, CHECK_SEED="0")
    assert of_zero == python(draw, CHECK_SEED="0") != python(draw, CHECK_SEED="1")
    assert python(draw) != python(draw)
