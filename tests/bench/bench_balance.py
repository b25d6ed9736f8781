"""bench-balance: how often minibatches change on constant speeds, and how soon a real change of
speed is met, by the noise of steps and by the standard errors that a change must promise. On the
virtual clock, so the page is the same on every machine."""
from bench import BUILD, ROOT, Process

NOISES = (0.02, 0.05, 0.1, 0.2)
ERRORS = (0.01, 1, 2, 3, 3.5, 4, 5)
LOADS = (("no load", 1, 1, 1), ("a load of 2 for 3 s, 20 s apart", 2, 3, 20),
         ("a load of 2 for 8 s, 40 s apart", 2, 8, 40),
         ("a load of 1.5 for 20 s, 60 s apart", 1.5, 20, 60))
TEXT = """# When minibatches change

Four nodes of speeds 1, 1, 1/2, 1/4 under `dynamic` batching, 50 seeds. A step takes about a second.
Steps are noisy; the slowest node has a load that comes and goes (its steps take 1.5 or 2 times as
long; presence and absence have exponential durations with the means given). In each cell: changes
of minibatches in 500 steps, after 500 to settle / steps until minibatches fit a fast node that has
become twice as slow for good, in nine of ten runs (100: longer). Columns: how many standard errors
of itself the predicted gain of a change must have; 0.01 is hysteresis alone. Evenstep asks for 3.5
([why](../decisions/0018-minibatches-do-not-thrash.md)).

`sync`: all wait for the slowest. Servers (`asgd`, `dbs-sgd`, …): each node goes at its own pace,
and a step is as many gradients as there are nodes.

Command: `make bench-balance`. Virtual clock: the same figures everywhere.
"""


def table(ours, strategy, load):
    title, *numbers = load
    yield f"\n## {strategy}, {title}\n"
    yield "| noise | " + " | ".join(f"{e:g}" for e in ERRORS) + " |"
    yield "|" + "---|" * (1 + len(ERRORS))
    for noise in NOISES:
        cells = []
        for errors in ERRORS:
            changes, _, late = ours.ask(
                " ".join(map(str, (strategy, noise, *numbers, errors))))
            cells.append(f"{changes:.2f} / {late:.0f}")
        yield f"| {100 * noise:g} % | " + " | ".join(cells) + " |"


def main():
    lines = [TEXT.rstrip()]
    with Process(BUILD / "tests/bench/bench_balance") as ours:
        for strategy in ("sync", "servers"):
            for load in LOADS:
                for line in table(ours, strategy, load):
                    print(line, flush=True)
                    lines.append(line)
    (ROOT / "docs" / "results" / "bench-balance.md").write_text("\n".join(lines) + "\n")


main()
