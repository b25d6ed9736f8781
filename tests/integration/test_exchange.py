"""Strategies over real MPI: compared with one worker and with the virtual cluster (bit for bit if
the order of sums is fixed), and laws that hold for any timing."""
import array
import collections
import csv
import fcntl
import json
import os
import struct
import subprocess
import termios
import time

import numpy as np
import pytest

import rowtable
from programs import AT_ROOT, BUILD
from service import spec, until

CLUSTER = {"seed": 1,
           "nodes": [{"name": f"n{i}", "fixed_seconds": 0.001 * (i + 1),
                      "seconds_per_sample": 0.0001 * (i + 1)} for i in range(4)]}


def tensors(path):
    blob = path.read_bytes()
    n = struct.unpack("<Q", blob[:8])[0]
    head = json.loads(blob[8:8 + n])
    names = [k for k in head if k != "__metadata__"]
    return np.concatenate([np.frombuffer(blob[8 + n:][slice(*head[k]["data_offsets"])], "<f4")
                           for k in sorted(names)])


class Run:
    def __init__(self, model, rows, evaluations):
        self.model, self.rows, self.evaluations = model, rows, evaluations


def over_mpi(folder, job, order=None, fails=False):
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps(job))
    (folder / "order.json").write_text(json.dumps(order))
    env = {**os.environ, **AT_ROOT, "OMP_NUM_THREADS": "1"}
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca",
               "btl_vader_single_copy_mechanism", "none", "-np",
               str(job["workers"] + job["strategy"].get("servers", 1)),
               str(BUILD / "evenstep-worker"), "--local", str(folder / "job.json"), "--out",
               str(folder), "--lines", str(folder / "lines"),
               *(["--order", str(folder / "order.json")] if order else [])]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL)
    if fails:
        assert done.returncode != 0
        return done.stderr
    assert done.returncode == 0, done.stderr[-3000:]
    lines = list(csv.reader((folder / "lines").read_text().splitlines()))
    rows = rowtable.printed(lines)
    evaluations = [dict(step=int(l[1]), accuracy=float(l[5]))
                   for l in lines if l[0] == "evaluation"]
    return Run(tensors(folder / "artifacts" / "model.safetensors"), rows, evaluations)


def on_virtual_nodes(folder, job):
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps(job))
    (folder / "cluster.json").write_text(json.dumps(CLUSTER))
    done = subprocess.run([str(BUILD / "evenstep-simulate"), "--job", str(folder / "job.json"),
                           "--cluster", str(folder / "cluster.json"), "--out", str(folder / "out")],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return tensors(folder / "out" / "model.safetensors")


def small(**changes):
    return spec(data={"format": "glyphs", "samples": 640, "test_samples": 100}, **changes)


def sizes(*b):
    return {"global_batch": sum(b), "policy": "static", "sizes": list(b)}


TWO_BUCKETS = {
    "model": {"input": [28, 28, 1], "layers": [{"type": "dense", "units": 300}, {"type": "relu"},
                                               {"type": "dense", "units": 100}, {"type": "relu"},
                                               {"type": "dense", "units": 10}]},
               # both use a ring, whose parts are updated as they arrive
               "exchange": {"bucket_bytes": 65536}}
FIXED_ORDER = [
    small(workers=4, strategy={"type": "sync"}, batching=sizes(28, 20, 12, 4)),
    # the epoch is not a multiple of B
    small(workers=3, strategy={"type": "sync"}, batching=sizes(40, 33, 27)),
    small(workers=3, strategy={"type": "sync"}, batching=sizes(24, 20, 12),
          optimizer={"type": "adamw", "learning_rate": 0.002, "weight_decay": 0.01}, **TWO_BUCKETS),
    small(workers=4, strategy={"type": "sync"}, batching=sizes(24, 20, 12, 4),
          optimizer={"type": "sgd", "learning_rate": 0.05, "momentum": 0.9, "clip_norm": 0.5},
          **TWO_BUCKETS),
    small(workers=4, strategy={"type": "local-sgd", "k": 3}, batching=sizes(28, 20, 12, 4)),
    small(workers=4, strategy={"type": "hier-sgd", "k1": 2, "k2": 4, "group_size": 2},
          batching=sizes(28, 20, 12, 4)),
    small(workers=4, strategy={"type": "hpsgd", "k": 2}, batching=sizes(28, 20, 12, 4),
          optimizer={"type": "sgd", "learning_rate": 0.05}),
]


@pytest.mark.parametrize("job", FIXED_ORDER, ids=lambda j: j["strategy"]["type"]
                         + str(j["batching"]["global_batch"]))
def test_the_same_bits_over_mpi_and_on_virtual_nodes(tmp_path, job):
    real = over_mpi(tmp_path / "mpi", job)
    assert np.array_equal(real.model.view(np.uint32),
                          on_virtual_nodes(tmp_path / "virtual", job).view(np.uint32))


def order_of(folder, workers):
    """The order in which the virtual run's server took gradients: the order of their times."""
    rows = np.concatenate(
        [np.fromfile(folder / "out" / "history" / f"rows-{i}.bin", dtype=rowtable.dtype())
         for i in range(workers)])
    return [int(r["rank"]) for r in rows[np.lexsort((rows["rank"], rows["time"]))]], [
        int(t) for t in rows[np.lexsort((rows["rank"], rows["time"]))]["staleness"]]


SERVED = [{"type": "asgd"}, {"type": "asgd", "servers": 2},
          {"type": "softsync", "n": 2, "rate": "tau"},
          {"type": "softsync", "n": 1, "pull": "blocking"}, {"type": "ssp", "s": 1},
          {"type": "dc-asgd", "adaptive": True, "lambda": 2.0}, {"type": "dc-asgdk"},
          {"type": "ddc-asgd"}, {"type": "dbs-sgd", "c": 4}]


@pytest.mark.parametrize("strategy", SERVED, ids=lambda s: "-".join(str(v) for v in s.values()))
def test_in_the_order_of_a_virtual_run_a_server_over_mpi_makes_its_bits(tmp_path, strategy):
    own = strategy["type"] in ("dc-asgdk", "ddc-asgd")
    job = small(workers=4, strategy=strategy, batching=sizes(28, 20, 12, 4),
                evaluate={"every_epochs": 100},
                optimizer={"type": "sgd", "learning_rate": 0.05, "momentum": 0 if own else 0.5,
                           "weight_decay": 0.001})
    virtual = on_virtual_nodes(tmp_path / "virtual", job)
    order, staleness = order_of(tmp_path / "virtual", 4)
    real = over_mpi(tmp_path / "mpi", job, order=order)
    assert max(staleness) > 0 or strategy.get("pull") == "blocking"
    assert [sorted(r["staleness"] for r in real.rows if r["rank"] == i) for i in range(4)] == [
        sorted(t for r, t in zip(order, staleness) if r == i) for i in range(4)]
    assert np.array_equal(real.model.view(np.uint32), virtual.view(np.uint32))


def test_an_order_that_cannot_be_is_told(tmp_path):
    job = small(workers=2, strategy={"type": "softsync", "n": 1, "pull": "blocking"},
                batching=sizes(32, 32))
    assert "gradient 2 cannot be rank 0's" in over_mpi(tmp_path / "mpi", job, order=[0, 0],
                                                       fails=True)


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_sync_with_any_minibatches_is_one_worker_with_the_whole_batch(tmp_path, workers):
    split = {2: (50, 14), 3: (30, 30, 4), 4: (40, 11, 8, 5)}[workers]
    job = small(workers=workers, strategy={"type": "sync"}, batching=sizes(*split))
    alone = over_mpi(tmp_path / "alone",
                     small(workers=1, strategy={"type": "sync"},
                           batching={"global_batch": 64, "policy": "equal"}))
    together = over_mpi(tmp_path / "together", job)
    updates = 20
    library = over_mpi(tmp_path / "library", {**job, "exchange": {"allreduce": "mpi"}})
    assert np.abs(library.model - alone.model).max() <= 1e-6 * updates * max(
        1.0, np.abs(alone.model).max())
    assert np.abs(together.model - alone.model).max() <= 1e-6 * updates * max(
        1.0, np.abs(alone.model).max())
    assert len(together.rows) == updates * workers


@pytest.mark.parametrize("strategy", ["asgd", "dc-asgd", "ddc-asgd", "ssp"])
def test_staleness_is_conserved_and_every_sample_counts_once(tmp_path, strategy):
    W, job = 4, small(workers=4, strategy={"type": strategy},
                      batching={"global_batch": 64, "policy": "equal"},
                      optimizer={"type": "sgd", "learning_rate": 0.05},
                      evaluate={"every_epochs": 100})
    run = over_mpi(tmp_path / "run", job)
    U = len(run.rows)
    assert sum(r["batch"] for r in run.rows) == 2 * 640
    assert sorted(r["step"] for r in run.rows) == list(range(1, U + 1))
    if strategy != "ssp":  # a worker that has to wait pulls late
        assert sum(r["staleness"] for r in run.rows) == (W - 1) * (U - W) + W * (W - 1) // 2


def test_softsync_of_all_workers_with_a_blocking_pull_is_sync(tmp_path):
    batching = sizes(28, 20, 12, 4)
    soft = over_mpi(tmp_path / "soft",
                    small(workers=4, strategy={"type": "softsync", "n": 1, "pull": "blocking"},
                          batching=batching))
    sync = over_mpi(tmp_path / "sync",
                    small(workers=4, strategy={"type": "sync"}, batching=batching))
    assert np.abs(soft.model - sync.model).max() <= 1e-6 * 20 * max(1.0, np.abs(sync.model).max())
    assert all(r["staleness"] == 0 for r in soft.rows)


@pytest.mark.parametrize("strategy",
                         [{"type": "softsync", "n": 1, "pull": "blocking"},
                          {"type": "dc-asgd", "adaptive": True}])
def test_any_number_of_servers_gives_the_bits_of_one(tmp_path, strategy):
    # one worker: the order of arrivals is fixed
    one, job = {}, small(workers=1, batching={"global_batch": 64, "policy": "equal"})
    for servers in (1, 2, 3):
        one[servers] = over_mpi(tmp_path / str(servers),
                                dict(job, strategy=dict(strategy, servers=servers)))
    assert np.array_equal(one[1].model, one[2].model) and np.array_equal(one[1].model, one[3].model)
    assert one[1].evaluations == one[3].evaluations


def test_several_servers_serve_several_workers(tmp_path):
    run = over_mpi(tmp_path / "run",
                   small(workers=3, strategy={"type": "asgd", "servers": 3},
                         batching={"global_batch": 60, "policy": "equal"}))
    U = len(run.rows)
    assert sum(r["batch"] for r in run.rows) == 2 * 640 and sorted(
        r["step"] for r in run.rows) == list(range(1, U + 1))


def test_dc_asgd_without_compensation_is_asgd_on_one_worker(tmp_path):
    a = over_mpi(tmp_path / "dc", small(workers=1, strategy={"type": "dc-asgd", "lambda": 0}))
    b = over_mpi(tmp_path / "asgd", small(workers=1, strategy={"type": "asgd"}))
    assert np.array_equal(a.model, b.model)


def waiting(pipe):
    n = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, n)
    return n[0]


def test_lines_of_ranks_are_whole_however_slow_the_reader(tmp_path):
    """Two ranks fill a pipe that nobody reads; mpirun would pass on pieces of lines."""
    job = spec(model="mlp", data={"format": "glyphs", "samples": 1280, "test_samples": 100},
               workers=2, epochs=4, batching={"global_batch": 8})
    (tmp_path / "job.json").write_text(json.dumps(job))
    with subprocess.Popen([BUILD / "evenstep-worker", "--local", tmp_path / "job.json", "--out",
                           tmp_path / "out"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env={**os.environ, **AT_ROOT}) as ranks:
        until("the pipe is full", lambda: waiting(ranks.stdout) > 40 << 10)
        time.sleep(0.5)  # mpirun falls behind
        lines = ranks.stdout.read().decode().splitlines()
    seen = collections.Counter((line.split(",")[0], line.count(",")) for line in lines)
    rows = [n for (kind, _), n in seen.items() if kind == "row"]
    assert ranks.returncode == 0 and rows == [4 * 2 * 1280 // 8], seen
    assert {kind for kind, _ in seen} <= {"row", "evaluation", "profile", "saved"}, seen
