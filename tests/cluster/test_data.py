"""A data set that travels over a slow link: while a node waits for it, REST and the job's page say
how far it is; a second job finds it there."""
import re

import numpy as np

from rack import Machine, until
from service import spec

SAMPLES, WIDTH = 40_000, 100  # 16 MB
SLOW, FAST = "4mbit", "1gbit"  # 32 s: time enough to look at it; what is left then comes at once


def write_set(folder):
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    for prefix, n in (("", SAMPLES), ("test_", 200)):
        y = rng.integers(0, 2, n)
        np.save(folder / (prefix + "x.npy"),
                (rng.normal(0, 1, (n, WIDTH)) + y[:, None]).astype(np.float32))
        np.save(folder / (prefix + "y.npy"), y.astype(np.int32))


def job(seed):
    return spec(model={"input": [WIDTH], "layers": [{"type": "dense", "units": 2}]},
                data={"format": "npy", "path": "wide"}, workers=1, epochs=1, nodes=["guest"],
                batching={"global_batch": 400, "policy": "equal"}, seed=seed)


def test_how_much_of_its_data_set_a_node_has_is_told_while_it_comes(
        net, hub, machines, page, tmp_path):
    write_set(hub.data / "wide")
    net["guest"].set_rate(SLOW)
    with Machine(hub, net["guest"], 0.4, env={"EVENSTEP_DATA": str(tmp_path)}):
        until("guest is ready", lambda: hub.get("nodes/guest").json().get("state") == "ready")
        id = hub.submit(job(1))

        def receiving():
            return next((w["receiving"] for w in hub.job(id)["workers"] if "receiving" in w), None)
        first = until("REST tells of it", receiving)
        assert 0 < first["bytes"] < first["of_bytes"] and first["of_bytes"] >= SAMPLES * WIDTH * 4
        if page:
            page.open_job(id)
            page.wait_text("#verdict", r"guest\s+receives the data set: \d+\s*% of 16", 30)
            page.wait_text('.node-table tr[data-node="guest"]', r"data \d+\s*%")
            page.driver.get("about:blank")
        until("more of it has come", lambda: (receiving() or first)["bytes"] > first["bytes"])
        net["guest"].set_rate(FAST)
        done = hub.wait(id, "succeeded")
        assert "receiving" not in done["workers"][0] and done["progress"]["samples"] == SAMPLES
        log = "".join(p.read_text() for p in (hub.dir / "jobs" / id / "logs").iterdir())
        assert re.search(r"sends the data set.*percent=50", log)
        again = hub.submit(job(2))
        hub.wait(again, "succeeded")
        assert "sends the data set" not in "".join(
            p.read_text() for p in (hub.dir / "jobs" / again / "logs").iterdir())
