"""Is a history of concurrent operations linearizable? (Herlihy and Wing 1990; the search is Wing
and Gong's, with the memory of configurations of Lowe, "Testing for linearizability", 2017.)

A history is a list of `Op`: what was asked, what was answered, and when the call began and ended.
It is linearizable if each operation can be given a moment between its two times so that a
sequential model, which takes them in the order of those moments, gives the same answers.

    client 1   ├── move queued→launching: ok ──┤
    client 2        ├── cancel: ok ──┤
    client 3                              ├── get: cancelling ──┤     ok: move, cancel, get

An operation without an answer (a time-out, a connection that broke) may have happened at any moment
after its beginning, or never. Where it is known until when it can have happened (the Redis that it
was sent to was killed), that time bounds the search.

The search walks through the beginnings and ends in order of time and keeps every configuration that
explains what is past: a state of the model, and which of the open operations have happened in it.
An answered operation must have happened when it ends. A configuration that is like another one but
has used more of the unanswered operations explains nothing that the other does not: it is left
out."""
import dataclasses

NEVER = float("inf")
UNKNOWN = None  # the result of an operation without an answer


@dataclasses.dataclass
class Op:
    name: str
    args: tuple
    result: object  # the model's answer, or UNKNOWN
    begin: float
    end: float  # of an unanswered operation: until when it can have happened
    who: str = ""

    def __str__(self):
        end = "never" if self.end == NEVER else f"{self.end:.4f}"
        answer = "no answer" if self.result is UNKNOWN else self.result
        return f"{self.begin:.4f} to {end}  {self.who}: {self.name} {self.args} -> {answer}"


class NotLinearizable(AssertionError):
    pass


def smallest(configurations, unanswered):
    """Drops a configuration if another one with the same state and the same answered operations
    uses fewer of the unanswered ones. `unanswered`: their bits."""
    groups = {}
    for state, used in configurations:
        kept = groups.setdefault((state, used & ~unanswered), [])
        if any(other & ~used == 0 for other in kept):
            continue
        kept[:] = [other for other in kept if used & ~other] + [used]
    return {(state, used) for (state, _), all_used in groups.items() for used in all_used}


def happened(configurations, target, pending, step):
    """Every configuration in which `target` has happened, after any of the pending operations."""
    bit, todo, seen, done = 1 << target, list(configurations), set(configurations), set()
    while todo:
        state, used = todo.pop()
        if used & bit:
            done.add((state, used))
            continue
        for number, op in pending.items():
            if used >> number & 1:
                continue
            for after in step(state, op):
                # without an answer and without an effect: as if it had not happened
                if op.result is UNKNOWN and after == state:
                    continue
                new = (after, used | 1 << number)
                if new not in seen:
                    seen.add(new)
                    todo.append(new)
    return done


def story(history, number, state):
    """The operations before one that nothing explains."""
    op = history[number]
    near = [o for o in history if o.begin <= op.end and o.end >= op.begin or o.end <= op.begin]
    lines = "\n".join(f"    {o}" for o in sorted(near, key=lambda o: o.begin)[-24:])
    return (f"no order explains\n    {op}\nafter {sorted(map(str, state))[:6]}, with\n{lines}")


def check(history, initial, step):
    """Raises NotLinearizable with the operation that nothing explains. step(state, op): the states
    that op can lead to with its result; empty if it cannot have that result."""
    events = sorted([(op.begin, 0, n) for n, op in enumerate(history)]
                    + [(op.end, 1, n) for n, op in enumerate(history) if op.end < NEVER])
    unanswered = sum(1 << n for n, op in enumerate(history) if op.result is UNKNOWN)
    configurations, pending = {(initial, 0)}, {}
    for _, ends, number in events:
        if not ends:
            pending[number] = history[number]
            continue
        if history[number].result is not UNKNOWN:
            fitting = happened(configurations, number, pending, step)
        else:
            fitting = configurations | happened(configurations, number, pending, step)
        if not fitting:
            raise NotLinearizable(story(history, number, {s for s, _ in configurations}))
        del pending[number]
        closed = {(state, used & ~(1 << number)) for state, used in fitting}
        configurations = smallest(closed, unanswered)
