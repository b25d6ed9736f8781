"""A worker that dies on a host of its own is started again there and joins its attempt
(docs/decisions/0103): it and the others reach each other over the addresses of their hosts."""
import json
import os
import signal

import numpy as np
import pytest

from rack import until, wired, with_programs
from service import ranks_of, spec
from test_lost_worker import COUNTING, TWO_EPOCHS, assert_whole, job_spec, rank_on
from test_returned_worker import RETURNING, worker

HOSTS = ("north", "east", "south")
SLOWDOWN = 320  # some 30 steps a second


@pytest.fixture(scope="module")
def net():
    with wired(*HOSTS) as made:
        yield made


@pytest.fixture(scope="module")
def hub(net):
    with with_programs(net, HOSTS, f"%s=cpu:1,slowdown={SLOWDOWN}") as made:
        yield made


def submit(hub, strategy, **changes):
    of = {k: 3 if k in ("c", "group_size") else v for k, v in RETURNING[strategy].items()}
    id = hub.submit(job_spec(of, workers=3, epochs=8, evaluate={"every_epochs": 10}, **changes))
    hub.steps(id, 40)
    return id


def kill(id, rank):
    """At any moment."""
    os.kill(until("all ranks run", lambda: rank in (r := ranks_of(id)) and r)[rank], signal.SIGKILL)


def comes_back(hub, id):
    """The job when it has ended, in its first attempt; east's worker dies in it."""
    before = worker(hub, id, "east")["updates"]
    kill(id, rank_on(hub, id, "east"))
    until("it has left", lambda: worker(hub, id, "east")["state"] == "left", every=0.02)
    until("it is there again", lambda: worker(hub, id, "east")["state"] != "left")
    until("it makes steps", lambda: worker(hub, id, "east")["updates"] > before + 20)
    job = hub.wait(id, "succeeded")
    assert job["attempt"] == 1 and job["restarts"] == 0
    assert [w["state"] for w in job["workers"]] == ["done"] * 3
    return job


@pytest.mark.parametrize("strategy", ["sync", "local-sgd", "asgd"])
def test_a_worker_that_died_on_a_host_of_its_own_comes_back(hub, strategy):
    id = submit(hub, strategy)
    assert_whole(hub, id, comes_back(hub, id))


def test_it_finds_the_data_set_that_its_host_has_received(hub):
    """Which only the keeper had."""
    folder = hub.data / "small"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    for prefix, n in (("", 2560), ("test_", 64)):
        y = rng.integers(0, 2, n)
        x = rng.normal(0, 1, (n, 10)) + y[:, None]
        np.save(folder / (prefix + "x.npy"), x.astype(np.float32))
        np.save(folder / (prefix + "y.npy"), y.astype(np.int32))
    id = hub.submit(spec(model={"input": [10], "layers": [{"type": "dense", "units": 2}]},
                         data={"format": "npy", "path": "small"}, workers=3, epochs=150,
                         strategy={"type": "sync"}, evaluate={"every_epochs": 50},
                         batching={"global_batch": 64, "policy": "equal"}))
    hub.steps(id, 40)
    assert comes_back(hub, id)["progress"]["samples"] == 150 * 2560


def test_a_program_comes_back_to_those_of_the_other_hosts(hub):
    """Its samples count once: all end at the parameters that this gives, to the bit."""
    gate, hold = hub.dir / "gate", hub.dir / "hold"
    args = ["--samples", 2560, "--reduction", "sum", "--rate", 1 / 512, "--ahead", 2, "--fault",
            "rank", "--after", 10, "--point", "half", "--on", 1, "--times", 1, "--hold", hold,
            "--hold-for", 0.3, "--gate", gate, "--everyone", "--state"]
    id = hub.submit({
        "program": {"command": ["/usr/bin/python3", str(COUNTING)], "args": [str(a) for a in args]},
        "workers": 3, "epochs": 2, "strategy": {"type": "sync"},
        "batching": {"global_batch": 64, "policy": "equal"}, "checkpoint": {"every_steps": 3}})
    until("steps of all ranks are known",
          lambda: [w for w in hub.job(id)["workers"] if w["updates"] > 0][2:])
    gate.touch()
    until("it has left", lambda: hub.job(id)["workers"][1]["state"] == "left", every=0.02)
    until("it is there again", lambda: hub.job(id)["workers"][1]["state"] != "left")
    hold.touch()
    job = hub.wait(id, "succeeded")
    assert job["attempt"] == 1 and [w["state"] for w in job["workers"]] == ["done"] * 3
    assert job["progress"]["samples"] == 2 * 2560
    for rank in range(3):
        params = json.loads(hub.artifact(id, f"rank-{rank}.json"))["params"]
        assert (np.array(params, "f4") == TWO_EPOCHS).all(), f"of rank {rank}"
