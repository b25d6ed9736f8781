"""What must hold when the faults are over, asked from outside: of the API, the store and /proc.
Each check returns sentences about what does not hold; an empty list is good."""
from service import until

LEFT_WAITS = 60  # seconds to wait for what ends by itself: processes, claims


def job_ended_right(world, job):
    told = world.job(job.id)
    wrong = []
    if told["state"] != job.expected:
        wrong.append(f"is {told['state']} and not {job.expected}: {told['error']}")
    if told["state"] == "succeeded":
        wrong += counted_once(job, told) + curve_is_whole(world, job, told)
        wrong += world.wrong_with(job, told)
    if told["state"] == "failed" and not (told["error"] or {}).get("message"):
        wrong.append("has failed without a reason")
    return [f"job {job.id} ({job.spec['name']}) {w}" for w in wrong]


def counted_once(job, told):
    """Each epoch's samples count once, as the progress shows them."""
    wrong = []
    progress = told["progress"]
    if progress["samples"] != job.samples or progress["fraction"] != 1.0:
        wrong.append(f"has counted {progress['samples']} of {job.samples} samples")
    if told["error"]:
        wrong.append(f"has succeeded with an error: {told['error']}")
    return wrong


def curve_is_whole(world, job, told):
    """No step comes twice, and the job reports every missing one."""
    answer = world.get(f"jobs/{job.id}/series?names=train_loss&points=20000").json()
    x = answer["series"][0]["x"] if answer["series"] else []
    wrong = []
    if x != sorted(set(x)):
        wrong.append("has steps twice in its curve")
    missing = told["progress"]["step"] - len(x)
    if missing > told["rows_dropped"]:
        wrong.append(f"has {missing} holes in its curve and tells of {told['rows_dropped']}")
    return wrong


def nothing_is_left(world, jobs):
    """After all jobs have ended: no process, file or claim is left, and no key except records."""
    ids = [job.id for job in jobs]
    wrong = []

    def settled(what, condition):
        try:
            until(what, condition, LEFT_WAITS)
        except AssertionError:
            wrong.append(f"not {what}: {condition.left()}")

    settled("all processes and files of jobs are gone", Emptied(lambda: world.leftovers(ids)))
    r = world.redis()
    settled("all claims are given back", Emptied(lambda: sorted(r.scan_iter("es:claim:*"))))
    settled("the queue is empty", Emptied(lambda: r.zrange("es:queue", 0, -1)))
    states = {job.id: r.hget(f"es:job:{job.id}", "state") for job in jobs}
    for state in set(states.values()):
        of_state = set(r.zrange(f"es:state:{state}", 0, -1))
        if of_state != {id for id, s in states.items() if s == state}:
            wrong.append(f"the index of {state} is {of_state}, the jobs say {states}")
    for id in ids:
        answer = world.ask("DELETE", f"jobs/{id}")
        if answer.status_code != 204:
            wrong.append(f"job {id} cannot be deleted: {answer.text}")
    settled("all keys of deleted jobs are gone", Emptied(lambda: keys_of_jobs(r)))
    settled("all folders of deleted jobs are gone", Emptied(
        lambda: sorted(p.name for p in (world.dir / "jobs").glob("*"))))
    return wrong


class Emptied:
    """A condition that holds once the list is empty, and can say what it still contains."""

    def __init__(self, left):
        self.left = left

    def __call__(self):
        return not self.left()


def keys_of_jobs(r):
    patterns = ("es:job:*", "es:state:*", "es:jobs", "es:claim:*", "es:lease:*")
    return sorted(key for pattern in patterns for key in r.scan_iter(pattern))
