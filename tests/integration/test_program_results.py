"""What the main rank's program writes beneath $EVENSTEP_OUTPUT becomes the job's artifacts, also
where it runs on a host that does not see the coordinator's folder."""
import os
import subprocess

import pytest

from agents import Agent, ready
from service import Service, until
from test_program_upload import counting, job, taken

# beside counting.py's own file: folders, an empty file, a large one, a file that is named as one of
# the service's, a link
WRITES = """import os, runpy
out = os.environ['EVENSTEP_OUTPUT']
runpy.run_path('counting.py', run_name='__main__')
os.makedirs(out + '/plots/late')
open(out + '/plots/empty.txt', 'w').close()
with open(out + '/plots/late/large.bin', 'wb') as f:
    f.write(bytes(range(256)) * 4099 + b'end')
with open(out + '/run.sh', 'w') as f:
    f.write('#!/bin/sh')
os.chmod(out + '/run.sh', 0o755)
with open(out + '/state.bin', 'w') as f:
    f.write('not the state')
os.symlink('/etc/passwd', out + '/link')
print('rank', os.environ['EVENSTEP_RANK'], 'wrote', flush=True)
"""
ISOLATED = ["unshare", "--mount", "sh", "-c",
            'mount -t tmpfs -o mode=0755 tmpfs "$0" && exec "$@"']


class Elsewhere(Agent):
    """An agent whose host cannot see the coordinator's folder of jobs."""

    def start(self):
        hidden = self.service.dir / "jobs"
        hidden.mkdir(exist_ok=True)
        self.command = [*ISOLATED, str(hidden), *self.command]
        return super().start()


@pytest.fixture(scope="module")
def service():
    if subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
                      capture_output=True).returncode:
        pytest.skip("a folder cannot be hidden from a process: no mount namespaces")
    with Service(nodes=[], options=["--no-local-node", "--allow-programs"]) as made:
        with Elsewhere(made, "far", "f1=cpu:1", "f2=cpu:1") as agent:
            ready(made, "f1", "f2")
            yield made, agent


@pytest.mark.parametrize("strategy", ["sync", "asgd", "local-sgd"])
def test_files_come_from_another_host(service, strategy):
    service, agent = service
    digest = taken(service, counting(**{"writes.py": WRITES}))
    spec = job(digest=digest, command=["/usr/bin/python3", "writes.py"])
    id = service.submit({**spec, "strategy": {"type": strategy}})
    service.wait(id, "succeeded")
    names = {a["name"]: a for a in service.get(f"jobs/{id}/artifacts").json()["artifacts"]}
    folder = service.dir / "jobs" / id / "artifacts"
    assert {"rank-0.json", "run.sh", "plots/empty.txt", "plots/late/large.bin"} <= set(names), names
    large = service.get(f"jobs/{id}/artifacts/plots/late/large.bin")
    assert large.content == (folder / "plots/late/large.bin").read_bytes()
    # as a client encodes it that was made from the API's description
    encoded = service.get(f"jobs/{id}/artifacts/plots%2Flate%2flarge.bin")
    assert encoded.content == large.content
    assert "link" not in names and "rank-1.json" not in names
    assert (folder / "plots/late/large.bin").read_bytes() == bytes(range(256)) * 4099 + b"end"
    assert (folder / "plots/empty.txt").read_bytes() == b""
    assert os.access(folder / "run.sh", os.X_OK)
    state = folder / "state.bin"
    assert not state.exists() or state.read_bytes() != b"not the state"
    assert not list(folder.rglob("*.part"))
    until("no folder of the run is left",
          lambda: not list((agent.dir / "received").glob(".run-*")), 60)
