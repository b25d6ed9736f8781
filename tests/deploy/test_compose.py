"""deploy/compose.yaml, as a user has it: it comes up, trains, is scaled, loses containers, is
stopped and goes on, and leaves nothing behind. The tests stand in the order in which they run, on
one cluster."""
import re

import pytest
import requests

from cluster import Cluster, Daemon, docker, find_base, inspect, why_not
from quota import served_first
from service import spec, until

ABSENT = why_not()
pytestmark = pytest.mark.skipif(bool(ABSENT), reason=f"the deployment is not tested: {ABSENT}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("docker")) as daemon:
        if not daemon.there:
            pytest.skip("the deployment is not tested: dockerd cannot run here: "
                        + daemon.log.read_text()[-300:])
        with Cluster(find_base()) as c:
            yield c
            c.compose("down", "-v", "-t", "40")
            assert c.left() == []


@pytest.fixture(autouse=True)
def logs(request, cluster):
    before = request.session.testsfailed
    yield
    if request.session.testsfailed > before:
        print(cluster.text()[-8000:])


def long_job(workers, **changes):
    """Minutes, if nobody ends it."""
    job = spec(workers=workers, epochs=400, max_restarts=5,
               batching={"global_batch": 16 * workers, "policy": "equal"},
               checkpoint={"every_steps": 50})
    job.update(changes)
    return job


def end(cluster, id):
    cluster.post(f"jobs/{id}/cancel")
    cluster.wait(id, "cancelled")


# ---- as it comes up ------------------------------------------------------------------------------

def demos(cluster):
    return [j for j in cluster.get("jobs").json()["jobs"] if j["name"] == "glyphs-compose"]


def test_the_demo_trains_on_drawn_digits(cluster):
    until("its job is there", lambda: demos(cluster))
    id = demos(cluster)[0]["id"]
    cluster.steps(id, 3)
    assert len(cluster.job(id)["workers"]) == 2
    end(cluster, id)


def test_workers_are_named_after_their_containers(cluster):
    cluster.ready(2)
    assert set(cluster.states()) == {cluster.host(c) for c in cluster.containers("worker")}


def test_the_log_has_an_address_that_signs_a_browser_in(cluster):
    link = re.search(r"http://127\.0\.0\.1:%d/#token=(\w+)" % cluster.port,
                     cluster.compose("logs", "--no-color", "coordinator"))
    browser = requests.Session()
    assert browser.get(cluster.url + "/").status_code == 200
    answer = browser.post(cluster.url + "/api/v1/session", json={"token": link.group(1)},
                          headers={"Origin": cluster.url})
    assert answer.status_code in (200, 201), answer.text
    assert browser.get(cluster.url + "/api/v1/nodes").status_code == 200


@pytest.mark.parametrize("service", ["redis", "coordinator", "worker"])
def test_containers_have_no_rights_that_they_do_not_need(cluster, service):
    c = inspect(cluster.one(service))
    host = c["HostConfig"]
    assert host["ReadonlyRootfs"] and host["CapDrop"] == [
        "ALL"] and not host["CapAdd"] and host["Init"] and not host["Privileged"]
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert docker("exec", c["Id"], "id", "-u").strip() == "10001"
    assert not [e for e in c["Config"]["Env"] if re.search("PASSWORD|SECRET|TOKEN", e)]
    assert list(host["PortBindings"] or {}) == ([f"{cluster.port}/tcp"] if service == "coordinator"
                                                else [])


def test_each_user_of_redis_may_do_what_its_role_needs_and_no_more(cluster):
    redis, worker = cluster.one("redis"), cluster.one("worker")
    assert docker("exec", worker, "ls", "/run/keys").split() == ["secret", "store-password"]
    password = {"host": docker("exec", worker, "cat", "/run/keys/store-password").strip(), "": ""}

    def ask(user, *words):
        return docker("exec", "-e", f"REDISCLI_AUTH={password[user]}", redis, "redis-cli",
                      *(["--user", user] if user else []), *words, check=False).strip()

    job = "es:job:0123456789abcdef"
    assert ask("host", "lpop", "es:mail:welcome.nobody") == ""
    refused = [("", "ping"), ("host", "get", job + ":plan"), ("host", "exists", job),
               ("host", "hset", job, "state", "failed"), ("host", "keys", "*"),
               ("host", "flushall"), ("host", "config", "get", "*"), ("host", "acl", "list"),
               ("host", "hgetall", "es:host:a"), ("host", "lpop", "es:mail:host.a"),
               ("host", "xadd", job + ":facts", "*", "j", "x"),
               ("host", "eval", f"return redis.call('HSET', '{job}', 'state', 'failed')", "0")]
    for words in refused:
        answer = ask(*words)
        assert re.search("NOPERM|NOAUTH|The user executing the script can't", answer), (
            words, answer)


def test_a_job_that_is_submitted_over_rest_succeeds(cluster):
    id = cluster.submit(spec())
    job = cluster.wait(id, "succeeded")
    assert job["attempt"] == 1 and job["progress"]["samples"] == 2 * 2560
    assert len(cluster.artifact(id)) > 100_000


# ---- scaled, and with losses ---------------------------------------------------------------------

def test_scaled_to_four_the_job_that_waited_for_them_uses_all(cluster):
    waiting = cluster.submit(spec(workers=4))
    cluster.compose("up", "-d", "--no-recreate", "--scale", "worker=4")
    job = cluster.wait(waiting, "succeeded")
    assert len(cluster.states()) == 4
    assert {w["node"] for w in job["workers"]} == {cluster.host(c)
                                                   for c in cluster.containers("worker")}


def test_a_killed_worker_is_lost_within_5_seconds_and_the_job_goes_on_without_it(cluster):
    id = cluster.submit(long_job(4, min_workers=3))
    cluster.steps(id, 60)
    victim = cluster.containers("worker")[1]
    name = cluster.host(victim)
    docker("kill", victim)
    until(f"{name} is lost", lambda: cluster.is_lost(name, within=5), 20)
    until("it goes on with three", lambda: cluster.job(id)["attempt"] == 2
          and cluster.job(id)["state"] == "running")
    assert name not in {w["node"] for w in cluster.job(id)["workers"]} and len(
        cluster.job(id)["workers"]) == 3
    end(cluster, id)
    docker("start", victim)
    cluster.ready(4)


def test_a_paused_worker_ends_the_attempt_and_is_used_again_once_it_goes_on(cluster):
    id = cluster.submit(long_job(4, min_workers=3))
    cluster.steps(id, 60)
    victim = cluster.containers("worker")[2]
    docker("pause", victim)
    try:
        until("it goes on with three", lambda: cluster.job(id)["attempt"] >= 2
              and cluster.job(id)["state"] == "running")
        assert cluster.host(victim) not in {w["node"] for w in cluster.job(id)["workers"]}
    finally:
        docker("unpause", victim)
    end(cluster, id)
    cluster.ready(4)
    after = cluster.submit(spec(workers=4))
    assert cluster.host(victim) in {w["node"] for w in cluster.wait(after, "succeeded")["workers"]}


def sixty_epochs(**changes):
    return spec(workers=3, epochs=60, batching={"global_batch": 48, "policy": "equal"}, **changes)


def test_a_restart_of_redis_loses_nothing_and_does_not_stop_the_training(cluster):
    id = cluster.submit(sixty_epochs())
    cluster.steps(id, 100)
    cluster.compose("restart", "redis")
    job = cluster.wait(id, "succeeded")
    assert job["attempt"] == 1 and job["progress"]["samples"] == 60 * 2560


def test_a_restart_of_the_coordinator_checkpoints_the_job_and_takes_it_up_again(cluster):
    id = cluster.submit(sixty_epochs(max_restarts=0))
    cluster.steps(id, 100)
    # compose takes seconds before it begins, by which the job may have ended
    docker("restart", "-t", "40", cluster.one("coordinator"))
    job = cluster.wait(id, "succeeded")
    assert job["attempt"] == 2 and job["progress"]["samples"] == 60 * 2560


def test_a_killed_coordinator_takes_the_job_up_from_its_checkpoint(cluster):
    id = cluster.submit(sixty_epochs(max_restarts=3, checkpoint={"every_steps": 50}))
    cluster.steps(id, 200)
    coordinator = cluster.one("coordinator")
    docker("kill", coordinator)
    docker("start", coordinator)
    job = cluster.wait(id, "succeeded")
    assert job["attempt"] == 2 and job["progress"]["samples"] == 60 * 2560


# ---- stopped -------------------------------------------------------------------------------------

def test_a_stop_is_clean_and_the_next_up_goes_on(cluster):
    id = cluster.submit(sixty_epochs(max_restarts=0, checkpoint={"every_seconds": 3600}))
    cluster.steps(id, 100)
    cluster.compose("stop")
    codes = {s: [inspect(c)["State"]["ExitCode"] for c in cluster.containers(s)]
             for s in ("worker", "coordinator", "redis")}
    assert codes == {"worker": [0] * 4, "coordinator": [0], "redis": [0]}
    cluster.up("--scale", "worker=4")
    job = cluster.wait(id, "succeeded")
    assert job["attempt"] == 2 and job["progress"]["samples"] == 60 * 2560
    said = cluster.compose("logs", "--no-color", "coordinator")
    assert len(demos(cluster)) == 1, "the demo submits once"
    assert "a host of it leaves" in said and "ended without a checkpoint" not in said


# ---- unequal -------------------------------------------------------------------------------------

def test_workers_with_unequal_quotas_get_minibatches_that_fit(cluster):
    cluster.files.append("compose.unequal.yaml")
    cluster.up("--scale", "worker=1")
    cluster.ready(3)
    names = {s: cluster.host(cluster.one(s)) for s in ("worker", "worker-half", "worker-quarter")}
    id = cluster.submit(spec(workers=3, epochs=1000, model="lenet5", strategy={"type": "asgd"},
                             batching={"global_batch": 96, "policy": "dynamic"}))
    pid = inspect(cluster.one("worker"))["State"]["Pid"]

    def fitted():
        batch = {w["node"]: w["batch"] for w in cluster.job(id)["workers"]}
        full, half, quarter = (batch.get(names[s], 0)
                               for s in ("worker", "worker-half", "worker-quarter"))
        return full > half > quarter > 0 and full >= 1.5 * quarter
    with served_first(pid):  # beside other suites nobody would reach its quota
        until("the minibatches fit the quotas", fitted)
    end(cluster, id)
