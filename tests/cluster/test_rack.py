"""Four hosts on links of 1 Gbit/s with unequal shares of a core: what a user of a rack sees when
all is well, and when a link goes down in the middle of a job and comes back."""
import contextlib
import pathlib
import statistics

from rack import QUOTAS, node, states, until
from service import processes_of, spec

EPOCHS = 15


def job(**changes):
    return spec(**{"workers": 4, "batching": {"global_batch": 64, "policy": "equal"}, **changes})


def long_job(**changes):
    return job(epochs=EPOCHS, checkpoint={"every_steps": 20}, **changes)


def nodes_of(job):
    return {w["node"] for w in job["workers"]}


def of_attempt(id, attempt):
    """Processes of an attempt's ranks, wherever they are."""
    def command(pid):
        with contextlib.suppress(OSError):
            return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
        return ""
    return [pid for pid in processes_of(f"--job\0{id}")
            if command(pid).startswith("evenstep-worker")
            and f"--attempt\0{attempt}\0" in command(pid)]


def test_each_host_is_known_by_its_own_address(net, hub, machines):
    assert {n: node(hub, n)["address"] for n in QUOTAS} == {n: net[n].address for n in QUOTAS}


def test_the_job_of_one_machine_runs_on_the_rack(hub, machines):
    done = hub.wait(hub.submit(job()), "succeeded")
    assert done["attempt"] == 1 and done["progress"]["samples"] == 2 * 2560
    assert nodes_of(done) == set(QUOTAS)


def test_minibatches_follow_the_quotas_and_the_page_shows_them(hub, machines, page):
    id = hub.submit(
        job(epochs=1000, model="lenet5", batching={"global_batch": 110, "policy": "dynamic"}))

    def fitted():
        b = {w["node"]: w["batch"] for w in hub.job(id)["workers"]}
        return len(b) == 4 and min(b["fast"], b["even"]) > b["half"] > b["slow"] > 0 and min(
            b["fast"], b["even"]) >= 2 * b["slow"]
    until("the minibatches fit the quotas", fitted)

    def steps():
        """When each node ended each step that is known of all of them, a tuple a step."""
        series = hub.get(f"jobs/{id}/series?names=batch&x=time&points=5000").json()["series"]
        return list(zip(*(s["x"] for s in series))) if len(series) == 4 else []
    # minibatches may fit before the first step of the slowest node is known
    ends = until("20 steps of all nodes are known", lambda: (e := steps())[19:] and e)
    last = [max(step) for step in ends]
    lasts = statistics.median(after - before for before, after in zip(last, last[1:]))
    assert statistics.median(max(step) - min(step) for step in ends) < max(0.5, lasts), (
        "a step does not end at one time on all nodes")
    if page:
        def shown(name):
            return page.number(f'.node-table tr[data-node="{name}"] td.num b') or 0
        page.open_job(id)
        until("the page shows minibatches that fit",
              lambda: min(shown("fast"), shown("even")) > shown("half") > shown("slow") > 0)
        page.open("/nodes")
        for name in QUOTAS:
            page.wait_text(f'tr[data-node="{name}"]', rf"busy[\s\S]*cpu:1[\s\S]*{name}")
        page.driver.get("about:blank")


def test_a_link_that_goes_down_loses_its_node_within_5_seconds_and_the_job_goes_on(
        net, hub, machines):
    id = hub.submit(long_job(min_workers=3))
    hub.steps(id, 60)
    assert len(of_attempt(id, 1)) == 5
    net["even"].down()
    until("even is lost", lambda: hub.is_lost("even", within=5))
    until("the job goes on with three", lambda: hub.job(id)["attempt"] == 2
          and hub.job(id)["state"] == "running")
    assert nodes_of(hub.job(id)) == set(QUOTAS) - {"even"}
    net["even"].up()
    until("even is seen again", lambda: states(hub)["even"] == "ready")
    until("nothing of the lost attempt is left", lambda: not of_attempt(id, 1))
    done = hub.wait(id, "succeeded")
    assert done["attempt"] == 2 and done["progress"]["samples"] == EPOCHS * 2560
    after = hub.wait(hub.submit(job(epochs=1)), "succeeded")
    assert after["attempt"] == 1 and nodes_of(after) == set(QUOTAS)


def test_a_hub_whose_link_goes_down_finds_all_its_hosts_again_and_the_job_ends_right(
        net, hub, machines):
    id = hub.submit(long_job(min_workers=4))
    hub.steps(id, 60)
    net["hub"].down()
    until("all are lost", lambda: set(states(hub).values()) == {"lost"})
    net["hub"].up()
    until("all are back", lambda: "lost" not in states(hub).values())
    done = hub.wait(id, "succeeded")
    assert done["progress"]["samples"] == EPOCHS * 2560 and nodes_of(done) == set(QUOTAS)
