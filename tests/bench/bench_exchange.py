"""bench-exchange: all-reduces and pushes with their pulls between processes of one machine, against
gloo, Open MPI's own all-reduce and memcpy."""
from bench import AT_ROOT, BUILD, PEERS, TORCH, TURNS, Process, Report, have_torch, median, spread

SIZES = [1 << 10, 1 << 13, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26]


def name_of(n):
    return f"{n >> 20} M" if n >= 1 << 20 else f"{n >> 10} K"


def times_of(n):
    """So many that a turn takes some tens of milliseconds."""
    return max(2, min(200, (1 << 24) // n))


def rows(ranks):
    ours = Process("mpirun", "--oversubscribe", "--bind-to", "none", "-np", ranks + 1,
                   BUILD / "tests/bench/bench_exchange", env=AT_ROOT)
    gloo = Process(TORCH, "-W", "ignore", PEERS / "torch_gloo.py", ranks) if have_torch() else None
    for n in SIZES:
        times, t = {k: [] for k in ("ring", "native", "mpi", "push", "copy", "gloo")}, times_of(n)
        for turn in range(TURNS + 1):
            for kind in ("ring", "native", "mpi", "push", "copy"):
                times[kind].append(ours.ask(f"{kind} {n} {t}")[0])
            if gloo:
                times["gloo"].append(gloo.ask(f"{n} {t}")[0])
        times = {k: v[1:] for k, v in times.items()}  # the first one touched the memory
        # a ring reads and adds each float once and stores it twice in each of 2 (W - 1) rounds of n
        # / W floats, on every rank
        bound = [c * 2 * (ranks - 1) for c in times["copy"]]
        yield [ranks, name_of(n), f"{1e6 * median(times['ring']):.0f}",
               f"{4e-9 * n / median(times['ring']):.2f}",
               spread([g / r for g, r in zip(times["gloo"], times["ring"])]) if gloo else "",
               spread([m / r for m, r in zip(times["native"], times["ring"])]),
               spread([m / r for m, r in zip(times["mpi"], times["ring"])]),
               spread([b / r for b, r in zip(bound, times["ring"])]),
               f"{8e-9 * n / median(times['push']):.2f}",
               spread([2 * c / p for c, p in zip(times["copy"], times["push"])])]
    ours.close()
    if gloo:
        gloo.close()


def main():
    report = Report("bench-exchange", "Exchange between processes of one machine",
                    "All-reduce of n floats over 2 and 4 ranks, and a push of n floats to a "
                    "server with the pull of n floats. Ratios above 1 mean that ours is faster. "
                    "memcpy: time to copy as many bytes as all ranks together must move through "
                    "memory, one core, over the ring's time.")
    report.table("All-reduce, push and pull",
                 ["ranks", "floats", "ring, µs", "GB/s", "gloo / ring", "MPI's, polled / ring",
                  "MPI's, blocking / ring", "memcpy / ring", "push + pull, GB/s",
                  "memcpy / push + pull"],
                 (row for ranks in (2, 4) for row in rows(ranks)))
    report.close()


main()
