"""The faults, and the schedule of them.

The schedule follows from the seed alone: which kind comes, when (in a job's launch, or after so
many steps), and which of the jobs and ranks it hits. What those are at that moment depends on how
far the processes have come. Each fault is logged with what it hit, and the log is printed when
something is wrong."""
import dataclasses
import os
import random
import signal
import time
from concurrent import futures

from jobs import programs_of
from service import program_of, ranks_of, until
from world import parent_of

PACE = 180  # seconds within which a job makes a step; otherwise something is wrong


@dataclasses.dataclass
class Moment:
    """When a fault comes, and a number that decides what it hits."""
    kind: str
    launching: bool
    steps: int
    pick: int
    seconds: float


def schedule(seed, faults, kinds):
    """Makes a list of moments from {kind: weight}. If the list is long enough, each kind comes once
    before any kind is drawn again."""
    draw = random.Random(f"{seed} schedule")
    names = list(kinds)
    draw.shuffle(names)
    names += draw.choices(list(kinds), list(kinds.values()), k=max(0, faults - len(names)))
    moments = [Moment(kind, draw.random() < 0.2, draw.randint(1, 15), draw.randrange(10**6),
                      draw.uniform(0.2, 2.0)) for kind in names[:faults]]
    for moment in moments:  # a rank that stands still while it starts is noticed after two minutes
        moment.launching = moment.launching and not moment.kind.startswith("freeze") and (
            moment.kind != "pause_job")  # a job in its launch cannot be paused
    return moments


def shot(pid, number):
    """Sends the signal; false if there was no such process."""
    try:
        os.kill(pid, number)
        return True
    except (ProcessLookupError, TypeError):  # it had ended, or there was none
        return False


def stop_for(pid, seconds):
    """Stops the process for a time; false if there was no such process."""
    if not shot(pid, signal.SIGSTOP):
        return False
    try:
        time.sleep(seconds)  # the fault itself: nothing is waited for
    finally:
        shot(pid, signal.SIGCONT)  # it may have been given up and killed
    return True


class Faults:
    """One method per kind. It returns the words for the log, or None if its target was gone before
    it was hit."""

    def __init__(self, world):
        self.world = world

    def rank(self, job, moment, keeper):
        """The number and the pid of one of the job's ranks."""
        ranks = ranks_of(job.id)
        keepers = {r for r in ranks if r >= job.spec["workers"] or r == max(ranks)}
        some = sorted(r for r in ranks if (r in keepers) == keeper)
        number = some[moment.pick % len(some)] if some else None
        return number, ranks.get(number)

    def strike(self, job, moment):
        """What was hit; None: it had just ended or, in a launch, did not exist yet. If several
        kinds are joined by "+", each one comes that much later than the previous one."""
        kinds = moment.kind.split("+")
        with futures.ThreadPoolExecutor(len(kinds)) as at_once:
            told = [at_once.submit(self.later, n, kind, job, moment)
                    for n, kind in enumerate(kinds[1:], 1)]
            words = [getattr(self, kinds[0])(job, moment), *(t.result() for t in told)]
        when = " in its launch" if moment.launching else ""
        job.hits += [f"{kind} {w}{when}" for kind, w in zip(kinds, words) if w]
        return " + ".join(str(w) for w in words) if words[0] else None

    def later(self, n, kind, job, moment):
        with self.world.network():
            time.sleep(n * (moment.seconds - 0.2))  # the time is part of the fault
            return getattr(self, kind)(job, dataclasses.replace(moment, pick=moment.pick // 7**n))

    def hit_rank(self, job, moment, keeper, number):
        rank, pid = self.rank(job, moment, keeper)
        return f"rank {rank} of {job.id}" if shot(pid, number) else None

    def kill_worker(self, job, moment):
        return self.hit_rank(job, moment, False, signal.SIGKILL)

    def kill_keeper(self, job, moment):
        return self.hit_rank(job, moment, True, signal.SIGKILL)

    def freeze_worker(self, job, moment):
        """Stops it for ever: its heartbeats end."""
        return self.hit_rank(job, moment, False, signal.SIGSTOP)

    def freeze_keeper(self, job, moment):
        return self.hit_rank(job, moment, True, signal.SIGSTOP)

    def stop_worker(self, job, moment):
        rank, pid = self.rank(job, moment, False)
        stopped = stop_for(pid, moment.seconds)
        return f"rank {rank} of {job.id} for {moment.seconds:.1f} s" if stopped else None

    def still(self, pid, moment):
        """Stops it for 0.05 to 6 s, where each length is as likely as half of it. Returns the
        words, or None."""
        seconds = 0.05 * 120 ** (moment.pick % 997 / 996)
        return f"for {seconds:.2f} s" if stop_for(pid, seconds) else None

    def still_worker(self, job, moment):
        rank, pid = self.rank(job, moment, False)
        words = self.still(pid, moment)
        return words and f"rank {rank} of {job.id} {words}"

    def still_keeper(self, job, moment):
        rank, pid = self.rank(job, moment, True)
        words = self.still(pid, moment)
        return words and f"rank {rank} of {job.id} {words}"

    def program(self, job, moment):
        programs = programs_of(job.id)
        rank = sorted(programs)[moment.pick % len(programs)] if programs else None
        return rank, programs.get(rank)

    def still_program(self, job, moment):
        rank, pid = self.program(job, moment)
        words = self.still(pid, moment)
        return words and f"of rank {rank} of {job.id} {words}"

    def kill_program(self, job, moment):
        rank, pid = self.program(job, moment)
        return f"of rank {rank} of {job.id}" if shot(pid, signal.SIGKILL) else None

    def kill_guard(self, job, moment):
        rank, pid = self.rank(job, moment, False)
        guard = pid and parent_of(pid)
        if not guard or program_of(guard) != "evenstep-guard":
            return None
        return f"of rank {rank} of {job.id}" if shot(guard, signal.SIGKILL) else None

    def kill_mpirun(self, job, moment):
        return f"of {job.id}" if shot(self.world.mpirun(job.id), signal.SIGKILL) else None

    def stop_mpirun(self, job, moment):
        stopped = stop_for(self.world.mpirun(job.id), moment.seconds)
        return f"of {job.id} for {moment.seconds:.1f} s" if stopped else None

    def kill_redis(self, job, moment):
        pid = self.world.redis_pid()
        os.kill(pid, signal.SIGKILL)
        self.world.redis_is_back(pid)
        return f"process {pid}"

    def stop_redis(self, job, moment):
        """For longer than a call may take."""
        stop_for(self.world.redis_pid(), moment.seconds + 1.5)
        return f"for {moment.seconds + 1.5:.1f} s"

    def kill_coordinator(self, job, moment):
        with self.world.coordinator_hit():
            self.world.restart_coordinator()
        return "and started it again"

    def stop_coordinator(self, job, moment):
        with self.world.coordinator_hit():
            stop_for(self.world.process.pid, moment.seconds)
        return f"for {moment.seconds:.1f} s"

    def freeze_coordinator(self, job, moment):
        """Stops it for longer than its lease lasts."""
        with self.world.coordinator_hit():
            self.world.freeze_coordinator()
        return "until it was replaced"

    def agent(self, moment):
        agents = self.world.agents
        return agents[sorted(agents)[moment.pick % len(agents)]]

    def kill_agent(self, job, moment):
        agent = self.agent(moment)
        agent.kill()
        agent.start()
        return f"of {agent.host}, and started it again"

    def stop_agent(self, job, moment):
        """For up to twice as long as a host may be silent."""
        agent = self.agent(moment)
        stop_for(agent.process.pid, 4 * moment.seconds)
        return f"of {agent.host} for {4 * moment.seconds:.1f} s"

    def kill_daemon(self, job, moment):
        """Open MPI's daemon, on a host with an agent."""
        daemons = self.world.daemons(job.id)
        pid = daemons[moment.pick % len(daemons)] if daemons else None
        return f"of {job.id}" if shot(pid, signal.SIGKILL) else None

    def cut_link(self, job, moment):
        agent = self.agent(moment)
        with self.world.cut(agent.host):
            time.sleep(4 * moment.seconds)  # the fault itself
        return f"of {agent.host} for {4 * moment.seconds:.1f} s"

    def slow_link(self, job, moment):
        agent = self.agent(moment)
        self.world.slow_link(agent.host, 2 * moment.seconds)
        return f"of {agent.host} for {2 * moment.seconds:.1f} s"

    def turn_clock(self, job, moment):
        """Sets a host's clock wrong, and right again."""
        seconds = (-1 if moment.pick % 2 else 1) * (2, 90, 5000)[moment.pick // 2 % 3]
        clocks = self.world.clocks
        name = sorted(clocks)[moment.pick % len(clocks)]
        clocks[name].turn(seconds)
        try:
            time.sleep(2 * moment.seconds)  # the fault itself
        finally:
            clocks[name].turn(0)
        return f"of {name} by {seconds} s for {2 * moment.seconds:.1f} s"

    def lose_power(self, job, moment):
        """Of a whole machine: all of its processes end at once, and it is started again."""
        return self.world.lose_power(moment)

    def fill_disk(self, job, moment):
        return self.world.fill_disk(moment.seconds)

    def pause_job(self, job, moment):
        """As a user: pauses it, and resumes it once it is paused."""
        world = self.world
        if not world.post(f"jobs/{job.id}/pause").ok:
            return None
        state = until(f"job {job.id} is paused or over", lambda: (
            s := world.job(job.id)["state"]) in ("paused", "succeeded", "queued", "running") and s,
            seconds=PACE)
        return f"{job.id}, resumed" if state == "paused" and world.post(
            f"jobs/{job.id}/resume").ok else f"{job.id}, which was {state} then"

    def cancel_job(self, job, moment):
        if not self.world.post(f"jobs/{job.id}/cancel").ok:
            return None
        job.expected = "cancelled"
        return job.id
