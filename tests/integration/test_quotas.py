"""CPU quotas with the usual period of 100 ms, and steps of a few ms: minibatches fit the quotas,
although nearly every step is computed without being stopped."""
import contextlib
import json
import pathlib
import shutil
import sys

import pytest
import redis

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
import quota  # noqa: E402
from agents import Agent  # noqa: E402
from programs import ROOT  # noqa: E402
from service import Service, spec, until  # noqa: E402

ABSENT = quota.reason_against()
pytestmark = pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT))

CORES = {"full": 0.8, "half": 0.4, "quarter": 0.2}  # as deploy/compose.unequal.yaml has them
STEPS = 2000


@pytest.fixture
def service():
    with contextlib.ExitStack() as stack:
        quotas = [quota.Quota(name, cores, quota.USUAL_US) for name, cores in CORES.items()]
        for q in quotas:
            stack.callback(q.remove)
        s = stack.enter_context(Service(nodes=(), options=("--no-local-node",)))
        for name, q in zip(CORES, quotas):
            agent = Agent(s, name, f"{name}=cpu:1")
            agent.command = q.command(*agent.command)
            stack.enter_context(agent)
        until("the nodes are there", lambda: [n["state"] for n in s.get("nodes").json()["nodes"]]
              == len(CORES) * ["ready"])
        yield s


def test_tiny_steps_under_quotas_get_minibatches_that_fit_and_stay(service):
    id = service.submit(spec(workers=len(CORES), epochs=100000, evaluate={"every_epochs": 100000},
                             batching={"global_batch": 768, "policy": "dynamic"}))

    def fit():
        job = service.job(id)
        batch = {w["node"]: w["batch"] for w in job["workers"]}
        full, half, quarter = (batch.get(name, 0) for name in CORES)
        return job["progress"]["step"] if full >= 1.5 * half > 1.5 * quarter > 0 else 0

    def changes(since):
        all = service.get(f"jobs/{id}/assignments").json()["assignments"]
        return [a for a in all if a["step"] > since]
    step = until("the minibatches fit the quotas", fit)
    # the fixed part of a step, such as the exchange, is known after some more changes
    settled = until("they have stayed for 500 steps",
                    lambda: not changes(service.job(id)["progress"]["step"] - 500) and fit())
    assert settled > step
    service.steps(id, settled + STEPS)
    assert fit(), service.job(id)["workers"]
    assert len(changes(settled)) <= STEPS / 500, changes(settled)


def test_the_cpu_time_of_a_users_program_counts_under_the_quota(service):
    """Its steps take some 2 ms of CPU time, and its worker's 0.05 ms."""
    folder = service.dir / "programs" / "counting"
    folder.mkdir(parents=True)
    for name in ("counting.py", "wire.py"):
        shutil.copy(ROOT / "tests/program" / name, folder)
    (folder / "manifest.json").write_text(json.dumps({"command": ["/usr/bin/python3",
                                                                  "counting.py"]}))
    id = service.submit({"name": "counting", "program": {"name": "counting"}, "workers": 1,
                         "nodes": ["quarter"], "epochs": 100000, "strategy": {"type": "sync"}})
    store = redis.Redis(unix_socket_path=str(service.dir / "redis.sock"), decode_responses=True)

    def told():
        beat = (store.hget(f"es:job:{id}:beats", "0") or "").partition("\n")[2]
        return json.loads(beat or "{}").get("quota")
    step = until("a heartbeat tells what the quota makes of a step", told)
    assert step["step_seconds"] * CORES["quarter"] > 0.0005, step
