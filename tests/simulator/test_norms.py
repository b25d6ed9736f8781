"""Norms of the model's tensors and gradients: those of the first step follow from the parameters
before and after it, whatever the strategy."""
import json
import os
import struct

import numpy as np
import pytest

from harness import Case, read_safetensors

RATE = 0.2


def norms(out):
    """norms.bin as store/history/norms.h has it: names, then (step, weights, gradients) of each."""
    history = os.path.join(out, "history")
    tensors = json.load(open(os.path.join(history, "meta.json")))["tensors"]
    names, n = tensors["names"], len(tensors["names"])
    blob, size, records = open(os.path.join(history, "norms.bin"), "rb").read(), 24 + 8 * n, []
    assert len(blob) % size == 0
    for at in range(0, len(blob), size):
        step, = struct.unpack_from("<q", blob, at)
        values = np.frombuffer(blob, "<f4", 2 * n, at + 24)
        records.append((step, dict(zip(names, values[:n])), dict(zip(names, values[n:]))))
    return tensors, records


@pytest.mark.parametrize("strategy, workers", [("sync", 1), ("asgd", 1), ("sync", 4)])
def test_the_first_ones_are_those_of_the_first_step(tmp_path, strategy, workers):
    """One sample over and over: every worker has the same gradient, which is that of the step."""
    case = Case(tmp_path, {"type": strategy}, steps=1, workers=workers,
                cluster={"seed": 7, "nodes": [
                    {"name": f"n{i}", "fixed_seconds": 1, "seconds_per_sample": 0.05}
                    for i in range(workers)]}, optimizer={"learning_rate": RATE})
    run = case.run()
    tensors, records = norms(run.out)
    after = read_safetensors(os.path.join(run.out, "model.safetensors"))
    assert tensors["names"] == ["hidden.weight", "hidden.bias", "out.weight", "out.bias"]
    assert tensors["elements"] == [20, 4, 16, 4]
    step, weights, gradients = records[0]
    assert (len(records), step) == (1, 1)
    for name, before in case.init.items():
        assert weights[name] == pytest.approx(np.linalg.norm(before), rel=1e-5), name
        assert gradients[name] == pytest.approx(
            np.linalg.norm((before - after[name]) / RATE), rel=1e-3, abs=1e-6), name


def test_they_are_measured_now_and_then_and_alike_in_every_run(tmp_path):
    case = Case(tmp_path, {"type": "sync"}, steps=3000, samples=64 * 3000)
    first, second = case.run("a"), case.run("b")
    assert [step for step, *_ in norms(first.out)[1]][:4] == [1, 11, 21, 31]
    assert 100 <= len(norms(first.out)[1]) <= 250  # of 3,000 steps
    read = [open(os.path.join(r.out, "history", "norms.bin"), "rb").read() for r in (first, second)]
    assert read[0] == read[1]
