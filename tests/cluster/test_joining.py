"""A fifth host that may not join: one clear sentence in its agent's log, the same over REST and on
the page of nodes, with a way out; and once it is put right it is there, and nothing is said of it
any more."""
import os

import pytest

from clock import WallClock
from rack import QUOTAS, Machine, states, until

MISTAKES = ["name", "secret", "version", "device", "clock"]


def clock_of(folder, seconds):
    """Words before a program whose clock is to be off."""
    clock = WallClock(folder)
    clock.turn(seconds)
    return ["env", *(f"{name}={value}" for name, value in clock.env.items())]


def older_mpirun(folder):
    """Words before a program that is to find another Open MPI than ours."""
    script = folder / "mpirun"
    script.write_text('#!/bin/sh\necho "mpirun (Open MPI) 4.0.3"\n')
    script.chmod(0o755)
    return ["env", f"PATH={folder}:{os.environ['PATH']}"]


def mistaken(mistake, hub, place, folder):
    """An agent at this place that makes the mistake; what its log says, and what can be done about
    it."""
    if mistake == "name":
        told = "another agent offers the host 'fast' already, from 10.77.0.2"
        return Machine(hub, place, host="fast"), told, "--host"
    if mistake == "secret":
        (folder / "secret").write_text("not the secret of this cluster\n")
        told = "signed with another secret than this agent's"
        return Machine(hub, place, secret=folder / "secret"), told, "--secret-file"
    if mistake == "version":
        told = "with Open MPI 4.0.3, the coordinator has Evenstep"
        machine = Machine(hub, place, before=older_mpirun(folder))
        return machine, told, "the same versions on both"
    if mistake == "device":
        told = "--node 'guest=cuda:7': this host has"
        return Machine(hub, place, node="guest=cuda:7"), told, "GPUs are counted from 0"
    return Machine(hub, place, before=clock_of(folder, -312)), "s ago by the sender's clock", "NTP"


def refused(hub, host):
    return next((r for r in hub.get("nodes").json()["refused"] if r["host"] == host), None)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_host_that_may_not_join_is_told_why_and_joins_once_it_is_put_right(
        net, hub, machines, page, tmp_path, mistake):
    place = net["guest"]
    agent, sentence, way_out = mistaken(mistake, hub, place, tmp_path)
    with agent:
        agent.says(sentence, way_out)
        told = until("REST tells it", lambda: refused(hub, agent.host))
        assert told["address"] == place.address and way_out in told["hint"]
        assert (sentence in told["message"] or mistake == "secret"
                and "does not know the cluster's secret" in told["message"])
        if page:
            page.open("/nodes")
            page.wait_text(f'.refused [data-host="{agent.host}"]',
                           "may not join: " + told["message"].replace("(", r"\(").replace(
                               ")", r"\)")[:60])
            assert way_out in page.text(f'.refused [data-host="{agent.host}"]')
        assert set(states(hub)) - {"guest"} == set(QUOTAS) and states(hub)["fast"] != "lost"
        assert mistake != "device" or agent.process.wait(60) == 1
    with Machine(hub, place):
        until("guest is ready", lambda: states(hub).get("guest") == "ready")
        until("nothing is said of it any more", lambda: not refused(hub, "guest"))
        if page and mistake != "name":
            until("the page has taken it back",
                  lambda: not page.all('.refused [data-host="guest"]'))


def test_an_agent_that_cannot_reach_the_store_says_so_and_joins_when_it_can(net, hub, machines):
    place = net["guest"]
    place.down()
    with Machine(hub, place) as agent:
        agent.says("cannot join yet", "the store at 'redis://10.77.0.1:6379' is away")
        assert states(hub).get("guest") != "ready"
        place.up()
        until("guest is ready", lambda: states(hub).get("guest") == "ready")
