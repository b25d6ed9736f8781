"""The interpreters that --python names: a virtual environment given to `serve` or to an agent runs
programs that ask for python3, nodes report which packages can be imported and why others cannot,
and a job goes to nodes that have its interpreter."""
import pathlib
import subprocess

import pytest

from agents import Agent, ready
import test_program
from programs import BUILD, ROOT
from service import Service, until
from test_program_upload import counting, errors, job, taken

# of the program's folder, before counting.py begins: which interpreter it is
TELLS = {"who.py": "import sys\nprint('runs in', sys.prefix, flush=True)\n"
                   "import runpy\nrunpy.run_path('counting.py', run_name='__main__')\n"}


def fake(folder, name, version, text):
    """A package as pip installs it."""
    at = pathlib.Path(subprocess.run(
        [folder / "bin/python", "-c", "import site; print(site.getsitepackages()[0])"],
        capture_output=True, check=True, text=True).stdout.strip())
    (at / (name + ".py")).write_text(text)
    about = at / f"{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.fixture(scope="module")
def venv(tmp_path_factory):
    folder = tmp_path_factory.mktemp("python") / "venv"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", "--system-site-packages",
                    folder], check=True)
    fake(folder, "torch", "2.5.1", "")
    fake(folder, "jax", "0.4.1", "raise ImportError('no such thing as libfast.so')")
    return folder


def interpreters(service, node):
    """Waits until each package was imported."""
    def told():
        all = service.get(f"nodes/{node}").json().get("interpreters", [])
        return all if all and "broken" in all[0] else None
    return until(f"{node} tells what cannot be imported", told, 60)


def ran_in(service, id):
    return "".join(p.read_text() for p in (service.dir / "jobs" / id / "logs").iterdir())


def test_a_virtual_environment_runs_what_asks_for_python3(venv):
    path = str(venv / "bin/python")
    options = ["--allow-programs", "--python", path]
    with Service(nodes=["a=cpu:1", "b=cpu:1"], options=options) as service:
        first, = interpreters(service, "a")
        assert first["path"] == path and first["packages"]["torch"] == "2.5.1", first
        assert "libfast.so" in first["broken"]["jax"], first
        assert service.get("nodes/b").json()["packages"] == first["packages"]

        digest = taken(service, counting(**TELLS))
        for command in (["python3", "who.py"], [path, "who.py"]):
            id = service.submit(job(digest=digest, command=command))
            service.wait(id, "succeeded")
            assert f"runs in {venv}" in ran_in(service, id)

        elsewhere = job(digest=digest, command=["/opt/bin/python", "who.py"])
        other = errors(service.post("jobs", elsewhere))
        assert ("needs the interpreter /opt/bin/python, and node 'a' has " + path
                in other["/program"]), other
        asks = '{"command": ["python3", "x.py"], "needs": {"jax": ""}}'
        needs = counting(**{"evenstep.json": asks})
        told = errors(service.post("jobs", job(digest=taken(service, needs))))["/program"]
        assert "needs jax, and node 'a' cannot import its own" in told and "libfast.so" in told


def test_an_agents_interpreter_is_its_own(venv):
    options = ["--no-local-node", "--allow-programs"]
    with Service(nodes=[], options=options) as service:
        given = ["--python", str(venv / "bin/python")]
        with Agent(service, "far", "f=cpu:1", options=given), Agent(service, "bare", "b=cpu:1"):
            ready(service, "f", "b")
            interpreters(service, "f")
            until("the other one tells its python3",
                  lambda: "python3" in service.get("nodes/b").json().get("packages", {}), 60)
            files = counting(**TELLS)
            files["evenstep.json"] = ('{"command": ["python3", "who.py"], '
                                      '"needs": {"torch": "2.5"}}')
            id = service.submit(job(workers=1, digest=taken(service, files)))
            done = service.wait(id, "succeeded")
            assert [w["node"] for w in done["workers"]] == ["f"]
            assert f"runs in {venv}" in ran_in(service, id)


def test_an_interpreter_that_is_not_there_is_told_at_the_start(tmp_path):
    answer = subprocess.run(
        [BUILD / "evenstep", "serve", "--data-dir", tmp_path, "--listen", "127.0.0.1:0",
         "--python", "/nowhere/python"], capture_output=True, text=True, timeout=60)
    assert answer.returncode != 0 and "--python '/nowhere/python'" in answer.stderr, answer.stderr


def test_what_is_installed_has_the_package_that_programs_import(tmp_path):
    there = tmp_path / "usr"
    subprocess.run(["make", "-s", "CUDA=0", f"BUILD={BUILD}", f"PREFIX={there}", "install"],
                   cwd=ROOT, check=True, capture_output=True, text=True)
    show = tmp_path / "show.py"
    show.write_text("import evenstep, evenstep.library as l\n"
                    "l.Library()\n"
                    "open(__file__ + '.found', 'w').write(evenstep.__file__ + ' ' + l._path())\n")
    spec = test_program.job({"type": "sync"}, sizes=(64,))
    spec["program"] = {"command": ["/usr/bin/python3", str(show)]}
    test_program.Run(tmp_path / "run", spec, program=there / "bin" / "evenstep-worker")
    package, library = (tmp_path / "show.py.found").read_text().split()
    assert package == f"{there}/share/evenstep/python/evenstep/__init__.py"
    assert library == f"{there}/bin/../lib/libevenstep.so"
