"""A user's PyTorch program on workers of deploy/Dockerfile.torch. Its image downloads gigabytes, so
nothing is built here: EVENSTEP_TORCH_TAG names images that deploy/compose.torch.yaml has made."""
import io
import os
import tarfile

import pytest

from cluster import Cluster, Daemon, docker, why_not

TAG = os.environ.get("EVENSTEP_TORCH_TAG")
ABSENT = why_not() or (None if TAG else "EVENSTEP_TORCH_TAG names no images of "
                       "deploy/compose.torch.yaml, which have 6 GB")
pytestmark = pytest.mark.skipif(bool(ABSENT), reason=f"PyTorch's image is not tested: {ABSENT}")

PROGRAM = """
import torch
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(1)
x = torch.randn(512, 20)
y = (x @ torch.randn(20, 3)).argmax(1)
model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
opt = torch.optim.SGD(model.parameters(), 0.2, momentum=0.9)
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
model, opt, loader = evenstep.prepare(model, opt, loader)
for epoch in evenstep.epochs(5):
    for a, b in loader:
        opt.zero_grad()
        torch.nn.functional.cross_entropy(model(a), b).backward()
        opt.step()
    evenstep.log(test_accuracy=(model(x).argmax(1) == y).float().mean().item())
"""


class Torch(Cluster):
    """The images as they are."""

    def __init__(self):
        super().__init__("unused")
        self.files.append("compose.torch.yaml")
        self.env.update(EVENSTEP_TAG=TAG, EVENSTEP_DEMO="none")

    def __enter__(self):
        try:
            self.up("--no-build")
        except BaseException:
            print(self.text()[-6000:])
            self.__exit__(None, None, None)
            raise
        return self


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("docker")) as daemon:
        if not daemon.there:
            pytest.skip("dockerd cannot run here: " + daemon.log.read_text()[-300:])
        with Torch() as c:
            yield c


def packed(text):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo("train.py")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


def test_a_pytorch_program_is_uploaded_and_trains_on_two_containers(cluster):
    cluster.ready(2, seconds=180)
    answer = cluster.http.post(cluster.url + "/api/v1/programs", data=packed(PROGRAM),
                               headers={"Content-Type": "application/x-tar"})
    assert answer.status_code == 201, answer.text
    program = {"digest": answer.json()["digest"], "command": ["python3", "train.py"]}
    id = cluster.submit({"program": program, "workers": 2, "strategy": {"type": "sync"}})
    job = cluster.wait(id, "succeeded", seconds=300)
    assert job["attempt"] == 1 and job["progress"]["samples"] == 5 * 512
    assert {w["node"] for w in job["workers"]} == {cluster.host(c)
                                                   for c in cluster.containers("worker")}
    assert len(cluster.artifact(id)) > 1000 and job["metrics"]["best_test_accuracy"] > 0.8


def test_the_nodes_tell_which_pytorch_they_have(cluster):
    said = docker("exec", cluster.one("worker"), "python3", "-c",
                  "from importlib import metadata; print(metadata.version('torch'))").strip()
    nodes = cluster.get("nodes").json()["nodes"]
    assert [n["packages"]["torch"] for n in nodes] == [said, said]
