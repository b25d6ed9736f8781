"""Nodes of other hosts: agents join, jobs run on them, and forged, replayed, late or incompatible
messages are refused with a reason."""
import contextlib
import os
import pathlib
import re
import secrets
import signal

import pytest

from agents import Agent, Wire, now, openmpi, ready, states
from service import Service, spec, until
from test_cli import run

NO_NODE = ["--no-local-node"]


@pytest.fixture(scope="module")
def service():
    with Service(nodes=[], options=NO_NODE) as s:
        yield s


@pytest.fixture(scope="module")
def agents(service):
    with Agent(service, "alpha", "a1=cpu:1", "a2=cpu:1", options=["--label", "rack=1"]) as a, Agent(
            service, "beta", "b1=cpu:1") as b:
        ready(service, "a1", "a2", "b1")
        yield a, b


@pytest.fixture(scope="module")
def wire(service):
    return Wire(service)


def marked(job, *programs):
    """Processes of a job, by their program's name."""
    found = []
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name = (p / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace").rsplit(
                "/", 1)[-1]
            if name in programs and f"EVENSTEP_JOB={job}".encode() in (p / "environ").read_bytes():
                found.append(int(p.name))
        except OSError:
            pass
    return found


def orteds(job):
    return marked(job, "orted")


@pytest.mark.parametrize("strategy", ["sync", "asgd"])
def test_a_job_runs_over_two_hosts_and_leaves_nothing_behind(service, agents, strategy):
    id = service.submit(spec(workers=3, batching={"global_batch": 66, "policy": "equal"},
                             strategy={"type": strategy}))
    job = service.wait(id, "succeeded")
    assert job["attempt"] == 1 and job["progress"]["samples"] == 2 * 2560
    assert {w["node"] for w in job["workers"]} == {"a1", "a2", "b1"}
    until("the daemons have ended", lambda: not orteds(id))
    until("the nodes are free", lambda: set(states(service).values()) == {"ready"})
    until("their folders are gone",
          lambda: not list(pathlib.Path("/tmp").glob(f"es-*-{id[:8]}-*"))
          and not list(pathlib.Path("/dev/shm").glob(f"es-*-{id[:8]}-*")))


def test_ranks_on_several_hosts_give_the_very_parameters_of_ranks_on_one(service, agents):
    with Service(nodes=["x=cpu:1", "y=cpu:1", "z=cpu:1"]) as alone:
        job = spec(workers=3, batching={"global_batch": 60, "policy": "equal"})
        ids = [s.submit(job) for s in (alone, service)]
        for s, id in zip((alone, service), ids):
            s.wait(id, "succeeded")
        blobs = [s.artifact(id) for s, id in zip((alone, service), ids)]
        heads = [int.from_bytes(b[:8], "little") + 8 for b in blobs]
        assert blobs[0][heads[0]:] == blobs[1][heads[1]:]


def test_an_agent_on_the_coordinators_own_machine_trains_beside_its_nodes():
    with Service(nodes=["a=cpu:1"]) as s, Agent(s, "other", "b=cpu:1"):
        ready(s, "a", "b")
        for strategy in ("sync", "asgd"):
            job = s.wait(s.submit(spec(workers=2, strategy={"type": strategy})), "succeeded")
            assert {w["node"] for w in job["workers"]} == {"a", "b"} and job["attempt"] == 1


def test_a_job_may_name_a_label_of_a_host(service, agents):
    id = service.submit(spec(nodes=["rack=1"]))
    assert {w["node"] for w in service.wait(id, "succeeded")["workers"]} == {"a1", "a2"}


def test_a_cancelled_job_ends_its_daemons(service, agents):
    id = service.submit(
        spec(workers=3, epochs=1000, batching={"global_batch": 66, "policy": "equal"}))
    service.steps(id, 5)
    assert len(orteds(id)) == 2
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")
    until("the daemons have ended", lambda: not orteds(id))


def test_daemons_end_when_mpirun_and_its_launch_agents_are_killed(service, agents):
    id = service.submit(
        spec(workers=3, epochs=1000, batching={"global_batch": 66, "policy": "equal"},
             checkpoint={"every_steps": 20}))
    service.steps(id, 5)
    first = orteds(id)
    for pid in marked(id, "evenstep-launch", "mpirun"):
        with contextlib.suppress(ProcessLookupError):  # the end of one may end another
            os.kill(pid, signal.SIGKILL)
    until("the daemons of the lost attempt have ended", lambda: not set(first) & set(orteds(id)))
    until("it goes on", lambda: service.job(id)["attempt"] == 2
          and service.job(id)["state"] == "running")
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")


def test_a_host_that_is_lost_ends_the_attempt_and_the_job_goes_on_without_it_and_later_with_it(
        service, agents):
    with Agent(service, "gamma", "g1=cpu:1") as gamma:
        ready(service, "a1", "a2", "b1", "g1")
        id = service.submit(
            spec(workers=4, min_workers=3, epochs=1000,
                 batching={"global_batch": 64, "policy": "equal"}, checkpoint={"every_steps": 20}))
        service.steps(id, 40)
        gamma.kill()
        until("g1 is lost", lambda: states(service)["g1"] == "lost")
        until("the job goes on with three", lambda: service.job(id)["attempt"] >= 2
              and service.job(id)["state"] == "running")
        assert "g1" not in {w["node"] for w in service.job(id)["workers"]}
        gamma.start()
        ready(service, "g1")
        service.post(f"jobs/{id}/cancel")
        service.wait(id, "cancelled")
        again = service.submit(
            spec(workers=4, epochs=1, batching={"global_batch": 64, "policy": "equal"}))
        assert "g1" in {w["node"] for w in service.wait(again, "succeeded")["workers"]}


def test_a_node_is_forgotten_as_soon_as_it_is_lost_and_comes_back_with_its_agent(service):
    """The page offered it, and the service refused for 6 s more, with "it still reports"."""
    with Agent(service, "delta", "d1=cpu:1", "d2=cpu:1") as delta:
        ready(service, "d1", "d2")
        answer = service.http.delete(service.url + "/api/v1/nodes/d1")
        assert answer.status_code == 409 and "still reports" in answer.json()["detail"]
        service.post("nodes/d2/disable")
        delta.kill()
        until("d1 is lost", lambda: states(service)["d1"] == "lost")
        out, err, status = run("forget", "d1", "d2", service=service)
        assert status == 0, err
        assert not {"d1", "d2"} & set(states(service))
        assert run("forget", "d1", service=service)[2] == 6
        delta.start()
        ready(service, "d1", "d2")


def test_an_agent_that_is_killed_again_and_again_gets_no_attempt_before_it_has_joined_again(
        service, agents):
    with Agent(service, "iota", "i1=cpu:1") as iota:
        ready(service, "i1")
        id = service.submit(spec(workers=1, nodes=["i1"], max_restarts=10, epochs=100000,
                                 checkpoint={"every_steps": 20}))
        for attempt in (1, 2, 3, 4):
            until(f"attempt {attempt} runs", lambda: (j := service.job(id))["attempt"] >= attempt
                  and j["state"] == "running")
            assert service.job(id)["attempt"] == attempt, "each one began where somebody was"
            iota.kill()
            iota.start()
        assert not [o for o in (service.dir / "jobs" / id / "logs").glob("attempt-*.out")
                    if "before it answered" in o.read_text(errors="replace")]
        service.post(f"jobs/{id}/cancel")
        service.wait(id, "cancelled")


def test_a_host_that_is_told_to_stop_has_its_job_write_a_checkpoint_and_no_restart_is_counted(
        service, agents):
    with Agent(service, "theta", "t1=cpu:1") as theta:
        ready(service, "a1", "a2", "b1", "t1")
        id = service.submit(spec(workers=4, min_workers=3, max_restarts=0, epochs=1000,
                                 batching={"global_batch": 64, "policy": "equal"},
                                 checkpoint={"every_seconds": 3600}))
        service.steps(id, 40)
        assert theta.stop() == 0
        assert "t1" not in states(service)
        done = service.job(id)["progress"]["step"]
        job = until("the job goes on with three", lambda: (j := service.job(id))["attempt"] == 2
                    and j["state"] == "running" and j["progress"]["step"] and j)
        assert job["progress"]["step"] >= min(done,
                                              40), "from the checkpoint that was written for it"
        service.post(f"jobs/{id}/cancel")
        service.wait(id, "cancelled")
        assert not (theta.dir / "alive").exists()


def test_a_coordinator_that_was_killed_finds_its_hosts_again():
    with Service(nodes=[], options=NO_NODE) as s, Agent(s, "delta", "d1=cpu:1,slowdown=12",
                                                        "d2=cpu:1,slowdown=12") as agent:
        ready(s, "d1", "d2")
        id = s.submit(spec(epochs=60))
        s.steps(id, 20)
        s.kill()
        s.start()
        assert s.wait(id, "succeeded")["attempt"] == 1
        after = s.submit(spec(epochs=1))
        s.wait(after, "succeeded")
        assert agent.text().count("joined") == 1, "the keys outlive the coordinator"


# ---- what is refused -----------------------------------------------------------------------------

def counted(wire, cause, before):
    until(f"{cause} was counted", lambda: wire.refused().get(cause, 0) == before.get(cause, 0) + 1)


def test_a_forged_a_replayed_an_expired_and_a_malformed_request_start_nothing_and_are_counted(
        service, agents, wire):
    before = wire.refused()
    wire.launch("beta", key=secrets.token_bytes(32))
    counted(wire, "launch.forged", before)
    wire.launch("beta", key=wire.host_key("alpha"))
    until("the second was counted",
          lambda: wire.refused()["launch.forged"] == before.get("launch.forged", 0) + 2)
    nonce, text = wire.launch("beta")
    assert wire.answer(nonce)["state"] == "started"
    wire.put("host.beta", text)
    counted(wire, "launch.replayed", before)
    nonce, _ = wire.launch("beta", at=now() - 100_000)
    counted(wire, "launch.expired", before)
    assert "ago by the sender's clock" in wire.answer(nonce)["message"]
    bad = [{"nodes": "vm,es-beta;touch /tmp/x"}, {"mpirun": "77.0;tcp://127.0.0.1:9 -mca x y"},
           {"mpirun": "78.0;tcp://127.0.0.1:9"}, {"daemon": 2},
           {"daemons": 1 << 40}, {"job": "../../../etc/abcd"}, {"attempt": "1"},
           {"program": "/bin/sh"}, {"host": "alpha"}, {"family": -1}]
    for change in bad:
        nonce, _ = wire.launch("beta", **({**change} if "host" not in change else {}),
                               **({} if "host" not in change else {"attempt": 0}))
        answer = wire.answer(nonce)
        assert answer["state"] == "refused" and "request" in answer["message"], change
    # signed by beta's key, for alpha, put into beta's box
    nonce, text = wire.launch("alpha", key=wire.host_key("beta"))
    wire.put("host.beta", text)
    assert wire.answer(nonce)["message"].startswith("the request is for the host 'alpha'")
    shown = until("the host's document counts them",
                  lambda: wire.redis.hget("es:host:beta", "json"))
    until("the heartbeat tells", lambda: '"replayed":1' in wire.redis.hget("es:host:beta", "json"))
    assert "address" in shown


def test_a_daemon_whose_mpirun_never_existed_ends_with_its_lease(service, agents, wire):
    nonce, _ = wire.launch("beta", job="00000000deadbeef")
    assert wire.answer(nonce)["state"] == "started"
    assert wire.answer(nonce)["state"] == "ended"
    until("nothing is left", lambda: not orteds("00000000deadbeef"))


def test_a_join_with_the_wrong_secret_is_refused_and_says_so(service, wire, tmp_path):
    before = wire.refused()
    (tmp_path / "secret").write_text("not the secret of this cluster\n")
    with Agent(service, "mallory", "m1=cpu:1", secret=tmp_path / "secret") as agent:
        agent.says("signed with another secret", "--secret-file")
        told = "a host that calls itself 'mallory' does not know the cluster's secret"
        until("the coordinator says it too", lambda: told in service.text())
        assert "m1" not in states(service)
    assert wire.refused()["join.forged"] > before.get("join.forged", 0)


def test_a_join_of_another_version_names_both(service, wire):
    answer = wire.join("oldhost", versions={"evenstep": "0.0.9", "openmpi": "4.0.3", "protocol": 1})
    assert not answer["accepted"]
    assert ("has Evenstep 0.0.9 (protocol 1) with Open MPI 4.0.3, the coordinator has Evenstep "
            "0.1.0") in answer["message"]
    assert f"Open MPI {openmpi()}" in answer["message"]


def test_a_join_with_a_clock_that_is_minutes_off_says_by_how_much(service, wire):
    before = now()
    late = wire.join("clock", at=before - 312_000)
    told = re.search(r"(\d+) s ago by the sender's clock", late["message"])
    assert not late["accepted"] and told and "NTP" in late["hint"], late
    assert 312 <= int(told.group(1)) <= 312 + (now() - before) / 1000 + 1
    early = wire.join("clock", at=now() + 200_000)
    assert not early["accepted"] and "in the future" in early["message"]


def test_a_join_that_is_sent_again_gives_no_second_key(service, wire):
    nonce = secrets.token_hex(32)
    assert wire.join("twice", nonce=nonce)["accepted"]
    key = wire.host_key("twice")
    again = wire.join("twice", nonce=nonce)
    assert not again["accepted"] and "second time" in again["message"]
    assert wire.host_key("twice") == key


def test_two_agents_of_one_name_and_two_nodes_of_one_name_are_told_apart(service, agents):
    with Agent(service, "alpha", "other=cpu:1", options=[]) as second:
        second.says("another agent offers the host 'alpha' already", "--host")
    with Agent(service, "epsilon", "a1=cpu:1") as third:
        third.says("the node 'a1' of the host 'epsilon' is offered by the host 'alpha' already")
    assert states(service)["a1"] == "ready"


@pytest.mark.parametrize("options, words", [
    (["--node", "g=cuda:7"], "this host has"),
    (["--node", "a=cpu:0"], "is not a device"),
    (["--node", "a=cpu:1", "--node", "a=cpu:2"], "two nodes of this name"),
    (["--interface", "203.0.113.0/24"], "no interface of this host is in"),
    (["--mpi-ports", "80-90"], "--mpi-ports '80-90'"),
    (["--host", "a_b"], "a name of at most 40 letters, digits and '-'"),
])
def test_mistakes_of_an_agents_options_are_told_at_once(service, options, words):
    with Agent(service, "zeta", options=options) as agent:
        agent.says(words)


def test_an_agent_waits_for_a_store_that_is_away(service, tmp_path):
    with Agent(service, "eta", store="redis://127.0.0.1:1") as agent:
        agent.says("cannot join yet", "127.0.0.1:1")
        assert agent.process.poll() is None
        assert agent.stop() == 0
