"""Hosts that are in no subnet together: each has an address with 32 bits and reaches the others by
way of a router, as pods do on Kubernetes; MPI has a range of ports, as a NetworkPolicy wants it."""
import pytest

from rack import RATE, Hub, Machine, Network, states, until
from service import spec


@pytest.fixture(scope="module")
def pods(net):
    """The hub of the pods; `net` says whether there can be any."""
    with Network("pod-hub", "pod-1", "pod-2", rate=RATE) as routed:
        routed.route()
        with Hub(routed["pod-hub"]) as hub:
            with Machine(hub, routed["pod-1"], 0.4) as one, Machine(
                    hub, routed["pod-2"], 0.4) as other:
                until("both are ready", lambda: list(states(hub).values()) == ["ready"] * 2)
                yield hub, one, other


def test_a_job_runs_on_hosts_with_nothing_but_routes_between_them(pods):
    hub, *machines = pods
    assert [hub.get("nodes/" + m.host).json()["address"] for m in machines] == [
        m.place.address for m in machines]
    done = hub.wait(hub.submit(spec(strategy={"type": "asgd"})), "succeeded")
    assert done["attempt"] == 1 and done["progress"]["samples"] == 2 * 2560
