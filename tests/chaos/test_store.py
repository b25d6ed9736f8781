"""The store under faults, against a model of what it promises, in the way of Jepsen.

    SEED=7 STORE_FAULTS=500 tests/run chaos/test_store.py      # a longer run, of another seed"""
import os

import pytest
import redis

import models
from linear import check
from stores import KEYS, NODES, Run

SEED, FAULTS = int(os.environ.get("SEED") or 1), int(os.environ.get("STORE_FAULTS") or 25)


@pytest.fixture(scope="module")
def run():
    run = Run(SEED, FAULTS)
    run.play()
    print(f"seed {SEED}: {run.count} answers, {len(run.unanswered)} without one, "
          f"{sum(len(i) for i in run.ids.values())} jobs; {', '.join(run.log)}")
    yield run
    run.close()


@pytest.mark.parametrize("key", KEYS)
def test_a_job_has_one_history_whoever_asks_and_whatever_dies(run, key):
    assert len(run.ids[key]) > 1, "nothing was deleted and made again"
    check(run.history[key], models.JOB, models.job_step)


@pytest.mark.parametrize("node", NODES)
def test_a_node_is_claimed_by_one_job_at_a_time(run, node):
    assert any(op.result == "lost" for op in run.history[node])
    check(run.history[node], models.NODE, models.node_step)


def test_who_lost_the_lease_changes_nothing_more(run):
    lease = run.history["lease"]
    check(lease, models.LEASE, models.lease_step)
    assert {op.result for op in lease if op.name == "change"} == {"ok", "fenced"}


def test_the_indexes_say_what_the_jobs_say(run):
    r = redis.Redis(unix_socket_path=run.redis.url.removeprefix("unix:"), decode_responses=True)
    jobs = {key.split(":")[2]: r.hgetall(key) for key in r.scan_iter("es:job:*")}
    assert set(r.zrange("es:jobs", 0, -1)) == set(jobs)
    for state in [*models.ARROWS, *models.ENDED]:
        of_state = {id for id, job in jobs.items() if job["state"] == state}
        assert set(r.zrange("es:state:" + state, 0, -1)) == of_state, state
    queue = r.zrange("es:queue", 0, -1)
    assert set(queue) == {id for id, job in jobs.items() if job["state"] == "queued"}
    assert queue == sorted(queue, key=lambda id: (-int(jobs[id]["priority"]),
                                                  int(jobs[id]["number"])))
