"""`evenstep run --check`: a program on one worker and on several of unequal minibatches, and
whether both models are the same. The figures come from `evenstep-worker --compare`."""
import json
import math
import pathlib
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import plain  # noqa: E402
from command import ended, program, run  # noqa: E402, F401
from service import BUILD, Service  # noqa: E402

SHORT = ["--epochs", "2", "--samples", "96", "--batch", "32"]


@pytest.fixture(scope="module")
def service():
    with Service(nodes=["a=cpu:1", "b=cpu:1", "c=cpu:1"], options=["--allow-programs"]) as s:
        yield s


def jobs_of(out, service):
    return [service.job(id) for id in out.split()]


def test_a_program_that_trains_alike_on_any_number_of_workers_is_the_same(service, program):
    out, err, status = run("--check", program / "counting.py", *SHORT, service=service)
    assert status == 0 and err.endswith("several workers train this program as one does\n"), err
    alone, several = jobs_of(out, service)
    assert len(alone["workers"]) == 1 and [w["batch"] for w in several["workers"]] == [16, 11, 5]
    assert several["spec"]["strategy"]["type"] == alone["spec"]["strategy"]["type"] == "sync"
    assert err.index("check, 1 of 2") < err.index(alone["id"]) < err.index("check, 2 of 2")


def test_a_weight_that_is_not_told_makes_another_model(service, program):
    right = (program / "counting.py").read_text()
    (program / "wrong.py").write_text(
        right.replace("float(sum(map(tokens, s.indices)))", "float(s.count)"))
    assert (program / "wrong.py").read_text() != right
    args = ["--check", "--workers", "2", "--json", "--set",
            '/batching={"policy": "static", "sizes": [27, 5]}']
    out, err, status = run(*args, program / "counting.py", *SHORT, "--tokens", service=service)
    assert status == 0 and json.loads(out)["same"] is True, err
    out, err, status = run(*args, program / "wrong.py", *SHORT, "--tokens", service=service)
    told = json.loads(out)
    assert status == 1 and told["same"] is False and "evenstep: not the same" in err
    assert told["largest"][0]["difference"] > 1e-3 and told["tensors"] == 5
    alone, several, beside = map(service.job, told["jobs"])
    assert [w["batch"] for w in several["workers"]] == [27, 5] and len(alone["workers"]) == 1
    assert len(beside["workers"]) == 1 and told["rounding"] < 1e-6


def test_a_job_that_fails_ends_the_check(service, program):
    out, err, status = run("--check", "--set", "/max_restarts=0", program / "counting.py", *SHORT,
                           "--fault", "refused", "--after", "1", service=service)
    assert status == 1 and len(out.split()) == 1 and "nothing to go on with" in err


@pytest.mark.parametrize("options, sentence", [
    (["--strategy", "asgd"], "only sync computes the same"),
    (["--workers", "1"], "one worker is compared with several"),
    (["--workers", "2..3"], "say how many"),
    (["--detach"], "when both jobs have ended"),
    (["--output", "results"], "for comparison alone"),
    (["--ddp"], "equal minibatches"),
])
def test_options_that_two_jobs_cannot_have_are_refused(program, options, sentence):
    out, err, status = run("--check", *options, program / "counting.py")
    assert (status, out) == (2, "") and sentence in err


# ---- evenstep-worker --compare -------------------------------------------------------------------


def compare(one, other, *more):
    done = subprocess.run([BUILD / "evenstep-worker", "--compare", one, "--with", other, *more],
                          capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout), done.returncode


@pytest.fixture
def saved(tmp_path):
    def save(name, **tensors):
        plain.save(tmp_path / name, {k: np.float32(v) for k, v in tensors.items()})
        return tmp_path / name
    return save


def test_a_difference_is_measured_by_the_values_of_the_whole_model(saved):
    one = saved("one", a=[[3, 4]], b=[0, 0])  # the root mean square of all is 2.5
    told, status = compare(one, saved("other", a=[[3, 4.5]], b=[0, 1]))
    assert status == 0 and (told["tensors"], told["values"]) == (2, 4)
    assert [(t["name"], t["difference"]) for t in told["largest"]] == [
        ("b", pytest.approx(math.sqrt(1 / 2) / 2.5)), ("a", pytest.approx(math.sqrt(1 / 8) / 2.5))]
    told, _ = compare(one, saved("nan", a=[[3, math.nan]], b=[0, 1]))
    assert told["largest"][0] == {"name": "a", "difference": None, "rounding": 0}


def test_what_rounding_explains_is_told_last(saved):
    one, other = saved("one", a=[[3, 4]], b=[0, 0]), saved("other", a=[[3, 4.5]], b=[0, 1])
    told, _ = compare(one, other, "--beside", saved("beside", a=[[3, 4]], b=[0, 0.5]))
    assert [t["name"] for t in told["largest"]] == ["a", "b"]
    half = pytest.approx(math.sqrt(1 / 8) / 2.5)
    assert [t["rounding"] for t in told["largest"]] == [0, half]
    assert told["rounding"] == pytest.approx(math.sqrt(1 / 16) / 2.5)
    told, status = compare(one, other, "--beside", saved("beside", a=[[3], [4]], b=[0, 0]))
    assert status == 1 and "another shape" in told["error"]["message"]


@pytest.mark.parametrize("tensors, sentence", [
    ({"a": [[3], [4]], "b": [0, 0]}, "tensor 'a': it has another shape"),
    ({"a": [[3, 4]], "c": [0, 0]}, "tensor 'b': only one of them has it"),
    ({"a": [[3, 4]], "b": [0, 0], "c": [1]}, "have 2 and 3 tensors"),
])
def test_models_of_other_tensors_are_not_compared(saved, tensors, sentence):
    told, status = compare(saved("one", a=[[3, 4]], b=[0, 0]), saved("other", **tensors))
    assert status == 1 and sentence in told["error"]["message"]
