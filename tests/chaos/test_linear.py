"""Tests of the checker itself: it says no if no order explains the answers, yes if one does, and
agrees with a search through all orders."""
import itertools
import random

import pytest

import models
from linear import NEVER, UNKNOWN, NotLinearizable, Op, check

JOB, OTHER = "1111111111111111", "2222222222222222"


def history(*rows):
    """A history from rows of (begin, end, name, args, result)."""
    return [Op(name, args, result, begin, end) for begin, end, name, args, result in rows]


def is_fine(ops, initial, step):
    try:
        check(ops, initial, step)
        return True
    except NotLinearizable:
        return False


MADE = (0, 1, "create", ("key", 0), ("new", JOB))
MOVED = (2, 3, "move", (JOB, "queued", "launching"), "ok")
WRONG_JOBS = {
    "an acknowledged change is lost": [MADE, MOVED, (4, 5, "get", (JOB,), "queued-0-0-0")],
    "two movers of one state both succeed": [
        MADE, MOVED, (2, 4, "move", (JOB, "queued", "cancelling"), "ok")],
    "a request is refused that had to be taken": [MADE, (2, 3, "ask", (JOB, "cancel"), "conflict")],
    "a job is deleted that has not ended": [MADE, (2, 3, "delete", (JOB, None), "ok")],
    "the priority of a job that has ended changes": [
        MADE, (2, 3, "move", (JOB, "queued", "failed"), "ok"),
        (4, 5, "priority", (JOB, 3, None), "ok")],
    "one key makes two jobs": [MADE, (2, 3, "create", ("key", 0), ("new", OTHER))],
    "a deleted job comes back": [
        MADE, (2, 3, "move", (JOB, "queued", "failed"), "ok"),
        (4, 5, "delete", (JOB, "failed-0-0-0"), "ok"), (6, 7, "get", (JOB,), "failed-0-0-0")],
    "a version is believed that is no more": [
        MADE, MOVED, (4, 5, "priority", (JOB, 3, "queued-0-0-0"), "ok")],
    "an attempt is counted twice": [MADE, (2, 3, "attempt", (JOB,), 2)],
    "a change without an answer happens twice": [
        MADE, (2, NEVER, "attempt", (JOB,), UNKNOWN), (4, 5, "get", (JOB,), "queued-2-0-0")],
    "a change happens after the end of the Redis that it was sent to": [
        MADE, (2, 4, "attempt", (JOB,), UNKNOWN), (5, 6, "get", (JOB,), "queued-0-0-0"),
        (7, 8, "get", (JOB,), "queued-1-0-0")],
    "a change without an answer comes and goes": [
        MADE, (2, NEVER, "attempt", (JOB,), UNKNOWN), (3, 4, "get", (JOB,), "queued-1-0-0"),
        (5, 6, "get", (JOB,), "queued-0-0-0")],
}
RIGHT_JOBS = {
    "concurrent changes come in either order": [
        MADE, (2, 5, "ask", (JOB, "cancel"), "ok"), (2, 5, "move", MOVED[3], "ok"),
        (6, 7, "get", (JOB,), "cancelling-0-0-0")],
    "a change without an answer has happened": [
        MADE, (*MOVED[:1], NEVER, *MOVED[2:4], UNKNOWN), (4, 5, "get", (JOB,), "launching-0-0-0")],
    "a change without an answer has not happened": [
        MADE, (*MOVED[:1], NEVER, *MOVED[2:4], UNKNOWN), (4, 5, "get", (JOB,), "queued-0-0-0")],
    "a change without an answer happens late": [
        MADE, (2, NEVER, "attempt", (JOB,), UNKNOWN), (4, 5, "get", (JOB,), "queued-0-0-0"),
        (6, 7, "get", (JOB,), "queued-1-0-0")],
    "a job made without an answer is known by its key": [
        (0, NEVER, "create", ("key", 5), UNKNOWN), (2, 3, "create", ("key", 0), ("before", JOB)),
        (4, 5, "get", (JOB,), "queued-0-5-0")],
    "what two answered calls did, a third that is still open may have undone": [
        MADE, (2, 9, "move", (JOB, "queued", "failed"), "ok"), (3, 8, "delete", (JOB, None), "ok"),
        (4, 10, "get", (JOB,), "queued-0-0-0"), (5, 7, "get", (JOB,), "queued-0-0-0")],
}
CLAIM = (0, 1, "claim", ("node", JOB), "ours")
WRONG_NODES = {
    "two jobs have one node": [CLAIM, (2, 3, "claim", ("node", OTHER), "ours")],
    "another job releases it": [CLAIM, (2, 3, "release", ("node", OTHER), "released")],
    "a free node is refused": [(0, 1, "claim", ("node", JOB), "lost")],
}
FIRST = (0, 1, "take", ("a", 0), ("self", 1))
SECOND = (2, 3, "take", ("b", 0), ("self", 2))
WRONG_LEASES = {
    "one token for two": [FIRST, (2, 3, "take", ("b", 0), ("self", 1))],
    "an old token still changes": [FIRST, SECOND, (4, 5, "change", (1,), "ok")],
    "the newest token does not": [FIRST, SECOND, (4, 5, "change", (2,), "fenced")],
    "who was replaced renews": [FIRST, SECOND, (4, 5, "take", ("a", 1), ("self", 1))],
    "a token goes back": [FIRST, SECOND, (4, 5, "give", ("b",), "ok"),
                          (6, 7, "take", ("c", 0), ("self", 1))],
}


@pytest.mark.parametrize("name", WRONG_JOBS)
def test_no_order_explains_a_job_where(name):
    assert not is_fine(history(*WRONG_JOBS[name]), models.JOB, models.job_step)


@pytest.mark.parametrize("name", RIGHT_JOBS)
def test_an_order_explains_a_job_where(name):
    check(history(*RIGHT_JOBS[name]), models.JOB, models.job_step)


@pytest.mark.parametrize("name", WRONG_NODES)
def test_no_order_explains_a_node_where(name):
    assert not is_fine(history(*WRONG_NODES[name]), models.NODE, models.node_step)


@pytest.mark.parametrize("name", WRONG_LEASES)
def test_no_order_explains_a_lease_where(name):
    assert not is_fine(history(*WRONG_LEASES[name]), models.LEASE, models.lease_step)


def some_order_explains(ops, initial, step):
    """Tries all orders, with all choices of which unanswered operations happened."""
    answered = [op for op in ops if op.result is not UNKNOWN]
    unanswered = [op for op in ops if op.result is UNKNOWN]
    for n in range(len(unanswered) + 1):
        for some in itertools.combinations(unanswered, n):
            for order in itertools.permutations([*answered, *some]):
                in_time = all(not order[j].end < order[i].begin
                              for i in range(len(order)) for j in range(i + 1, len(order)))
                states = {initial}
                for op in order if in_time else ():
                    states = {after for state in states for after in step(state, op)}
                if in_time and states:
                    return True
    return False


def drawn(draw):
    """Calls about a node, at drawn times with drawn answers."""
    ops = []
    for _ in range(draw.randint(2, 6)):
        name = draw.choice(("claim", "release"))
        answers = ("ours", "lost") if name == "claim" else ("released", "not")
        result = draw.choice((*answers, *answers, UNKNOWN))
        begin = draw.random()
        ops.append(Op(name, ("node", draw.choice((JOB, OTHER))), result, begin,
                      begin + draw.random() / 2))
    return ops


def test_it_says_what_a_search_through_all_orders_says():
    said = []
    for seed in range(1500):
        ops = drawn(random.Random(seed))
        said.append(is_fine(ops, models.NODE, models.node_step))
        assert said[-1] == some_order_explains(ops, models.NODE, models.node_step), seed
    assert 300 < sum(said) < 1200, "both answers are tried"
