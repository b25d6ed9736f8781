"""The time that a step of a user's own program waits for its samples counts as loading data: a
program with a slow data set, and the same with a fast one."""
import json
import shutil

import pytest

from programs import python_with
from service import Service

PROGRAM = """
import sys, time, torch, evenstep
slow = float(sys.argv[2])

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 768
    def __getitem__(self, i):
        time.sleep(slow)
        return torch.full((8,), float(i % 7)), i % 2

model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = torch.utils.data.DataLoader(Data(), batch_size=32, shuffle=True)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        time.sleep(0.02)  # in place of computing
        loss.backward()
        optimizer.step()
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    python = python_with("torch")
    folder = tmp_path_factory.mktemp("loading")
    place = folder / "programs/loading"
    place.mkdir(parents=True)
    (place / "loading.py").write_text(PROGRAM)
    (place / "manifest.json").write_text(
        json.dumps({"command": [python, "loading.py"], "arguments": {"--slow": "number"}}))
    with Service(folder=folder) as s:
        yield s
    shutil.rmtree(folder, ignore_errors=True)


def steps(service, slow, strategy="sync"):
    """Seconds of loading and computing in the steps after the first."""
    id = service.submit({"program": {"name": "loading", "args": ["--slow", str(slow)]},
                         "workers": 2, "epochs": 2, "strategy": {"type": strategy},
                         "batching": {"global_batch": 32, "policy": "equal"}})
    job = service.wait(id, "succeeded", seconds=300)
    rows = [row for node in service.get(f"jobs/{id}/steps", params={"last": 40}).json()["nodes"]
            for row in node["rows"][1:]]
    middle = lambda name: sorted(row[name] for row in rows)[len(rows) // 2]
    return job, middle("load_seconds"), middle("compute_seconds")


@pytest.mark.parametrize("strategy", ["sync", "asgd"])
def test_a_slow_data_set_is_loading_and_not_computing(service, strategy):
    """16 samples of 5 ms each, and then 20 ms in the pass."""
    job, load, compute = steps(service, 0.005, strategy=strategy)
    assert load >= 0.08 and 0.02 <= compute < load, (load, compute)
    for worker in job["workers"]:
        assert worker["load_seconds"] >= 0.08 > worker["compute_seconds"] >= 0.02, worker
        # minibatches follow the time per sample, including loading
        assert worker["samples_per_second"] == pytest.approx(16 / (load + compute), rel=0.3), worker


def test_a_fast_data_set_is_computing(service):
    _, load, compute = steps(service, 0)
    assert compute >= 0.02 > load, (load, compute)
