"""Workers with users' programs that are killed on hosts of their own, one or two at once, under a
strategy that averages parameters (docs/decisions/0080, 0081): the others average without them, over
the addresses of their hosts, and compute their samples."""
import pytest

from rack import until, wired, with_programs
from test_lost_averaged_program import Run, assert_as_made
from test_lost_worker import open_gate

HOSTS = ("north", "east", "south", "west")


@pytest.fixture(scope="module")
def net():
    with wired(*HOSTS) as made:
        yield made


@pytest.fixture(scope="module")
def hub(net):
    with with_programs(net, HOSTS) as made:
        yield made


@pytest.mark.parametrize("strategy,ranks,after", [
    ({"type": "local-sgd", "k": 6}, [2], 14), ({"type": "local-sgd", "k": 60}, [0, 3], 45),
    ({"type": "hier-sgd", "k1": 2, "k2": 8, "group_size": 2}, [1, 2], 21)])
def test_the_hosts_that_are_left_go_on(hub, strategy, ranks, after):
    run = Run(hub, strategy, "--on", *ranks, after=after, point="half", holds=0.5)
    open_gate(hub, run.id, run.gate)
    until("they have left", lambda: [w["rank"] for w in hub.job(run.id)["workers"]
                                     if w["state"] == "left"] == ranks)
    run.hold.touch()
    job = hub.wait(run.id, "succeeded")
    assert sorted(w["node"] for w in job["workers"]) == sorted(HOSTS)
    assert_as_made(run, job, [{"rank": r, "step": 0} for r in ranks], True)
