"""Programs that were not written for Evenstep: what people write, with its two lines added.

Each runs alone, under `sync` on two real ranks with unequal minibatches, where it ends with the
parameters that it had alone, and under a strategy with a server, where it ends well. The first two
need the same samples in each step: a batch is the whole set there, or the order is the set's.
"""

import numpy as np
import pytest

from compare import bit_identical, difference
from real_rank import COLUMNS, rows_of, run_local

# batch, and how far rounding may carry parameters
PROGRAMS = {
    "accumulate": (24, 5e-6),
    "amp": (96, 5e-3),
    "by_hand": (96, 2e-6),
    "closure_step": (32, 2e-5),
    "early_stopping": (96, 2e-6),
    "gan": (96, 2e-5),
    "lbfgs": (96, 1e-3),
    "lstm_packed": (32, 2e-5),
    "mnist_argparse": (192, 2e-6),
    "steps_not_epochs": (32, 2e-5),
    "tied_lm": (32, 2e-5),
    "trainer": (96, 2e-5),
}
SAMPLES = {"mnist_argparse": 192}  # of an epoch


def on_ranks(nursery, name, folder, sizes, strategy):
    """The finished process, and what each program ended with."""
    folder.mkdir(exist_ok=True)
    command = nursery.command("strangers.run", name, folder / "rank")
    done = run_local(command, sizes, strategy, folder, ["--out", str(folder / "job")])
    assert done.returncode == 0, done.stderr[-4000:]
    return done, [dict(np.load(folder / f"rank-{i}.npz")) for i in range(len(sizes))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_sync_on_unequal_ranks_equals_the_program_alone(torch_programs, run_programs, tmp_path,
                                                        name):
    batch, off = PROGRAMS[name]
    alone = run_programs(torch_programs, "strangers.run", name).results[0]
    sizes = [batch * 5 // 8, batch * 3 // 8]
    done, results = on_ranks(torch_programs, name, tmp_path / "sync", sizes, {"type": "sync"})
    assert bit_identical(results)
    found = difference(results[0], alone)
    print("%s: %.1e" % (name, found))
    assert found < off and rows_of(done)


# a loop over steps that ends with an epoch ends the run there, and other nodes have fewer steps
@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"steps_not_epochs"}))
def test_a_server_trains_it(torch_programs, tmp_path, name):
    batch, _ = PROGRAMS[name]
    sizes = [batch * 5 // 8, batch * 3 // 8]
    done, results = on_ranks(torch_programs, name, tmp_path, sizes, {"type": "dbs-sgd"})
    assert all(np.isfinite(v).all() for r in results for v in r.values())
    assert "changes between steps" not in done.stderr, "the program stepped beside the server"
    rows = [dict(zip(COLUMNS, row.split(","))) for row in rows_of(done)]
    # at least; of the epoch in which the first of them leaves, others may have begun a step
    assert sum(int(r["batch"]) for r in rows) >= 3 * SAMPLES.get(name, 96)


@pytest.mark.parametrize("name", ["early_stopping", "steps_not_epochs"])
def test_it_ends_where_it_likes_on_one_rank_too(torch_programs, run_programs, tmp_path, name):
    """Most steps of a single rank are made without asking it."""
    alone = run_programs(torch_programs, "strangers.run", name).results[0]
    _, results = on_ranks(torch_programs, name, tmp_path / "one", [PROGRAMS[name][0]],
                          {"type": "sync"})
    assert difference(results[0], alone) < PROGRAMS[name][1]
