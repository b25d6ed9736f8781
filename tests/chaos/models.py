"""What the store promises, as small sequential models (docs/semantics.md#states-of-a-job,
docs/store-schema.md): a job, a node's claim, and the coordinators' lease. The table of a job's
states is written out once more here, on purpose.

Each model is an initial state and a function step(state, op): the states that op can lead to with
the result that it had. An op without an answer has the result None; then every effect that it may
have counts."""
from linear import UNKNOWN

ARROWS = {
    "queued": ("launching", "cancelling", "failed"),
    "launching": ("running", "queued", "failed", "cancelling"),
    "running": ("succeeded", "failed", "pausing", "cancelling", "queued"),
    "pausing": ("paused", "queued", "failed", "cancelling"),
    "paused": ("queued", "cancelled"),
    "cancelling": ("cancelled",),
}
ENDED = ("succeeded", "failed", "cancelled")
CONFLICT, NOT_FOUND, ANOTHER = "conflict", "not_found", "another"


def agree(op, result, after):
    """The state after an op that answers `result`, if that was the answer."""
    return [after] if op.result is UNKNOWN or op.result == result else []


# ---- a job: the object is its idempotency key ---------------------------------------------------
# state: None, or (id, state, attempt, priority, revision); the id is "?" while the request that
# made the job got no answer and nobody has been told its id
JOB = None


def version(job):
    return f"{job[1]}-{job[2]}-{job[3]}-{job[4]}"


def create(job, op):
    priority = op.args[1]
    if job is None:
        if op.result is UNKNOWN:
            return [("?", "queued", 0, priority, 0)]
        how, id = op.result
        return [(id, "queued", 0, priority, 0)] if how == "new" else []
    if op.result is UNKNOWN:
        return [job]
    how, id = op.result
    if how != "before" or job[0] not in (id, "?"):
        return []
    return [(id, *job[1:])]


def asked(state, what):
    """The state after a user's request; None: it is refused."""
    if what == "cancel":
        if state in ENDED:
            return state if state == "cancelled" else None
        return "cancelled" if state == "paused" else "cancelling"
    if what == "pause":
        return {"running": "pausing", "pausing": "pausing", "paused": "paused"}.get(state)
    return "queued" if state == "paused" else None


def ask(job, op):
    to = asked(job[1], op.args[1])
    return agree(op, CONFLICT, job) if to is None else agree(op, "ok", (job[0], to, *job[2:]))


def move(job, op):
    start, to = op.args[1:]
    if job[1] != start or to not in ARROWS.get(start, ()):
        return agree(op, CONFLICT, job)
    return agree(op, "ok", (job[0], to, *job[2:]))


def delete(job, op):
    seen = op.args[1]
    if job[1] not in ENDED:
        return agree(op, CONFLICT, job)
    return agree(op, ANOTHER, job) if seen and seen != version(job) else agree(op, "ok", None)


def priority(job, op):
    value, seen = op.args[1:]
    if seen and seen != version(job):
        return agree(op, ANOTHER, job)
    if job[1] in ENDED:
        return agree(op, CONFLICT, job)
    return agree(op, "ok", (*job[:3], value, job[4] + 1))


def attempt(job, op):
    return agree(op, job[2] + 1, (*job[:2], job[2] + 1, *job[3:]))


def get(job, op):
    return agree(op, version(job), job)


OF_JOB = {f.__name__: f for f in (ask, move, delete, priority, attempt, get)}


def job_step(job, op):
    if op.name == "create":
        return create(job, op)
    if job is None or job[0] != op.args[0]:
        return agree(op, NOT_FOUND, job)
    return OF_JOB[op.name](job, op)


# ---- a node: which job has it -------------------------------------------------------------------
NODE = None


def node_step(holder, op):
    job = op.args[1]
    if op.name == "claim":
        return agree(op, "ours", job) if holder in (None, job) else agree(op, "lost", holder)
    return agree(op, "released", None) if holder == job else agree(op, "not", holder)


# ---- the lease: (instance that holds it or None, token) -----------------------------------------
# Whether a lease has run out depends on time; a model without clocks lets anybody take it who has
# none. What it does not let pass: a token that was given twice or went back, a renewal by whoever
# was replaced, a change that carries another token than the newest.
LEASE = (None, 0)


def take(lease, op):
    holder, token = lease
    me, mine = op.args
    ours, fresh = (me, token), (me, max(token, mine) + 1)
    may_renew = holder == me
    may_take = holder != me and (mine == 0 or (holder is None and token <= mine))
    if op.result is UNKNOWN:
        return [ours] * may_renew + [fresh] * may_take
    kind, value = op.result
    if kind == "other":
        return [lease] if holder == value and holder != me else []
    return [s for s in [ours] * may_renew + [fresh] * may_take if s[1] == value]


def lease_step(lease, op):
    holder, token = lease
    if op.name == "take":
        return take(lease, op)
    if op.name == "give":
        return agree(op, "ok", (None, token) if holder == op.args[0] else lease)
    return agree(op, "ok" if op.args[0] == token else "fenced", lease)
