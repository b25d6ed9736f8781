"""A program on one worker, whose rank grants several short steps at a time and hears of them late
(worker/program/step/granted.c), as a job of the service."""
import json
import subprocess

import pytest

from programs import BUILD, LOCAL, ROOT
from service import Service


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    program = tmp_path_factory.mktemp("quick") / "quick"
    subprocess.run(["cc", "-O2", "-o", program, ROOT / "tests/program/quick.c",
                    f"-I{ROOT}/client/include", f"-L{BUILD}", f"-Wl,-rpath,{BUILD}", "-levenstep"],
                   check=True)
    return program


def undisturbed(quick, folder):
    """Its result on a rank without a service."""
    spec = {"program": {"command": [str(quick), str(folder / "end")]}, "workers": 1,
            "strategy": {"type": "sync"}, "batching": {"global_batch": 8}}
    (folder / "job.json").write_text(json.dumps(spec))
    subprocess.run([BUILD / "evenstep-worker", "--local", folder / "job.json"], env=LOCAL,
                   check=True, stdout=subprocess.DEVNULL)
    return (folder / "end").read_bytes()


def test_a_pause_comes_between_two_steps_and_none_is_lost(quick, tmp_path):
    """The request comes while steps are granted: these are made first, and then the job pauses."""
    place = tmp_path / "service/programs/quick"
    place.mkdir(parents=True)
    (place / "quick").symlink_to(quick)
    command = "TEST_STEP=0.0019 exec ./quick $EVENSTEP_OUTPUT/end"  # 8 s for the pauses to come
    (place / "manifest.json").write_text(json.dumps({"command": ["/bin/sh", "-c", command]}))
    with Service(folder=tmp_path / "service") as service:
        id = service.submit({"program": {"name": "quick"}, "workers": 1,
                             "strategy": {"type": "sync"}, "batching": {"global_batch": 8}})
        for least in (100, 500):
            service.steps(id, least)
            service.post(f"jobs/{id}/pause")
            paused = service.wait(id, "paused")["progress"]
            assert least <= paused["step"] < 4000 and paused["samples"] == 8 * paused["step"]
            service.post(f"jobs/{id}/resume")
        ended = service.wait(id, "succeeded")
        assert ended["progress"]["step"] == 4000 and ended["progress"]["samples"] == 32000
        assert service.artifact(id, "end") == undisturbed(quick, tmp_path)
