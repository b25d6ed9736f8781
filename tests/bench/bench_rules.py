"""bench-rules: the server's rules against memcpy. A push should cost what moving its bytes costs,
so the figure is bytes read and written per second over those of a copy of arrays of the same
length, in turns in one process, one thread each."""
from bench import BUILD, TURNS, Process, Report, median, spread

RULES = {"sgd": "`asgd`, `ssp`, `softsync`", "sgd-decay": "the same, weight decay",
         "momentum": "the same, momentum", "momentum-decay": "the same, both",
         "dc-asgd": "`dc-asgd`, constant",
         "dc-asgd-momentum": "`dc-asgd`, constant, momentum and decay",
         "dc-asgd-adaptive": "`dc-asgd`, adaptive", "dc-asgdk": "`dc-asgdk`",
         "ddc-asgd": "`ddc-asgd`, decay",
         "collect": "a gradient of a group (`softsync`, `dbs-sgd`)",
         "collect-decay": "the same, decay"}
SIZES = {"1.66 M": 1663370, "16 M": 1 << 24}


def rows(ours):
    for name, n in SIZES.items():
        times = max(2, (1 << 25) // n)
        for rule, text in RULES.items():
            ratios, rates = [], []
            for turn in range(TURNS + 1):
                seconds, size = ours.ask(f"{rule} {n} {times}")
                copied, both = ours.ask(f"copy {n} {times}")
                if turn:  # the first one touched the memory
                    rates.append(size / seconds / 1e9)
                    ratios.append(size / seconds * copied / both)
            yield [name, text, f"{size / n:.0f}", f"{median(rates):.1f}", spread(ratios)]


def main():
    report = Report("bench-rules", "Server rules against memcpy",
                    "One pass of a rule over a server's shard, one thread. Bytes: the arrays that "
                    "it touches, each once for reading and once for writing. Over copy: bytes per "
                    "second over those of memcpy (which reads and writes) of as many floats, in "
                    "turns.")
    with Process(BUILD / "tests/bench/bench_rules") as ours:
        report.table("A push", ["floats", "rule", "bytes a float", "GB/s", "over copy"], rows(ours))
    report.close()


main()
