"""Our sides of the benchmarks (tests/bench) run and answer; their figures are not checked. A
benchmark runs rarely, so nobody would notice that a change of the worker has broken it."""
import json
import subprocess

import pytest

from programs import BUILD, LOCAL
from rowtable import printed

MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "3"]


def run(command, lines=None):
    """Its output; without lines it has no standard input, as under a benchmark."""
    given = {"input": lines} if lines else {"stdin": subprocess.DEVNULL}
    done = subprocess.run(list(map(str, command)), env=LOCAL, capture_output=True, text=True,
                          timeout=120, **given)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_overlapped_job_prints_its_rows(tmp_path):
    spec = {"name": "overlap", "model": "mlp", "strategy": {"type": "sync"}, "workers": 2,
            "epochs": 1, "data": {"format": "glyphs", "samples": 64, "test_samples": 16}, "seed": 1,
            "batching": {"global_batch": 16, "policy": "equal"}}
    (tmp_path / "job.json").write_text(json.dumps(spec))
    said = [line.split(",") for line in run([*MPIRUN, BUILD / "tests/bench/bench_overlap", "0.001",
                                             "--local", tmp_path / "job.json"]).splitlines()]
    assert [r["step"] for r in printed(said) if r["rank"] == 0] == [1, 2, 3, 4]
    assert {"alone", "cpu", "first"} <= {line[0] for line in said}


@pytest.mark.parametrize("command, lines, answers", [
    (["bench_step", "cpu:1", "lenet5", "fp32"], "flops 8\n8 1\npeak\nmemory\n", 4),
    ([*MPIRUN, "bench_exchange"], "ring 1024 2\npush 1024 2\ncopy 1024 2\n", 3)])
def test_a_bench_answers_each_line_with_a_figure(command, lines, answers):
    command = [BUILD / "tests/bench" / c if c.startswith("bench_") else c for c in command]
    said = run(command, lines).splitlines()
    assert len(said) == answers and all(float(a.split()[0]) > 0 for a in said), said
