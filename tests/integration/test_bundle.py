"""The bundle (`make bundle`): at most 40 MiB, moved, and then run in a root folder that has nothing
but libc, /proc, /dev, /sys, /tmp and a line of /etc/passwd: no shell, no Open MPI, no Redis, no
oneDNN of this machine can be reached. A real job runs there from its submission to its artifact."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest
import requests

from programs import AT_ROOT, BUILD, ROOT, SANITIZED
from service import processes_of, spec, until

LIBC = ["ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libmvec.so.1", "libpthread.so.0",
        "libdl.so.2", "librt.so.1", "libresolv.so.2", "libutil.so.1"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The root folder, with the bundle in another place than where it was made."""
    probe = subprocess.run(["unshare", "--mount", "true"], capture_output=True)
    if probe.returncode != 0 or os.geteuid() != 0:
        pytest.skip("a root folder of its own needs the rights to mount")
    if SANITIZED:
        pytest.skip("a sanitizer's build is larger than a bundle may be, and needs its runtime")
    made = tmp_path_factory.mktemp("bundle") / "made"
    done = subprocess.run(["deploy/bundle/make", str(BUILD), str(made)], cwd=ROOT,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    size = sum(p.stat().st_size
               for p in {p.stat().st_ino: p for p in made.rglob("*") if p.is_file()}.values())
    assert size <= 40 << 20
    # of static/ what browsers get, and nothing for people who change it
    page = made / "share/evenstep/static"
    assert sorted(p.name for p in page.iterdir()) == ["css", "favicon.svg", "index.html", "js"]
    assert not list(page.rglob("README.md"))
    top = made.parent / "root"
    for folder in ("proc", "dev", "tmp", "sys", "lib64", "lib/x86_64-linux-gnu", "opt/some where"):
        (top / folder).mkdir(parents=True)
    for name in LIBC:
        source = pathlib.Path("/lib/x86_64-linux-gnu") / name
        shutil.copy(source, top / "lib/x86_64-linux-gnu")
    shutil.copy("/lib64/ld-linux-x86-64.so.2", top / "lib64")
    (top / "etc").mkdir()
    # Open MPI requires its user to have a name
    (top / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    made.rename(top / "opt/some where/evenstep")
    yield top
    shutil.rmtree(top.parent, ignore_errors=True)


def inside(root, *command):
    mounts = "".join(f"mount --rbind /{m} '{root}/{m}' && " for m in ("proc", "dev", "sys"))
    words = " ".join(f"'{w}'" for w in command)
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c",
            f"{mounts} exec chroot '{root}' {words}"]


BIN = "/opt/some where/evenstep/bin"
BARE = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **AT_ROOT}


def test_a_moved_bundle_runs_a_job_where_there_is_only_libc(root):
    log = open(root / "serve.log", "wb")
    (root / "data").mkdir()
    service = subprocess.Popen(inside(root, BIN + "/evenstep", "serve", "--data-dir", "/data",
                                      "--listen", "127.0.0.1:0", "--local-node", "a=cpu:1",
                                      "--local-node", "b=auto"), env=BARE, stdout=log, stderr=log)
    text = lambda: (root / "serve.log").read_text(errors="replace")
    try:
        def ready():
            assert service.poll() is None, text()
            return re.search(r"url=(\S+)", text())
        url = until("the service is ready", ready, 60).group(1)
        http = requests.Session()
        http.headers["Authorization"] = "Bearer " + (root / "data/token").read_text().strip()
        assert "Evenstep" in http.get(url + "/", timeout=30).text
        jobs = {}
        for strategy in ("sync", "asgd"):
            job = spec(data={"format": "glyphs", "samples": 1280, "test_samples": 200},
                       strategy={"type": strategy}, epochs=4)
            answer = http.post(url + "/api/v1/jobs", json=job, timeout=30)
            assert answer.status_code == 201, answer.text
            jobs[strategy] = answer.json()["id"]
        for id in jobs.values():
            def ended():
                job = http.get(f"{url}/api/v1/jobs/{id}", timeout=30).json()
                assert job["state"] != "failed", json.dumps(job["error"]) + text()[-3000:]
                return job if job["state"] == "succeeded" else None
            job = until("the job has succeeded", ended)
            assert job["metrics"]["test_accuracy"] > 0.15
            assert len(http.get(f"{url}/api/v1/jobs/{id}/artifacts/model.safetensors", timeout=30)
                       .content) > 400000
        maps = [pathlib.Path(f"/proc/{pid}/maps").read_text()
                for pid in processes_of("redis-server") if os.path.realpath(f"/proc/{pid}/root")
                == str(root)]
        # its libraries are the bundle's
        assert maps and all("/opt/some where/evenstep/lib/" in m for m in maps)
    finally:
        service.send_signal(signal.SIGTERM)
        try:
            service.wait(60)
        finally:
            service.kill()
            log.close()


def test_the_other_programs_of_a_bundle_start(root):
    for program, text in {"evenstep-agent": "--store", "evenstep-simulate": "--job",
                          "evenstep-worker": "--probe", "mpirun": "mpirun"}.items():
        done = subprocess.run(inside(root, f"{BIN}/{program}", "--help"), env=BARE,
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and text in done.stdout, done.stdout + done.stderr
    done = subprocess.run(inside(root, BIN + "/evenstep-worker", "--probe", "auto"), env=BARE,
                          capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["device"].startswith(
        "cpu:") and "no NVIDIA driver" in json.loads(done.stdout)["why"], done.stdout + done.stderr
