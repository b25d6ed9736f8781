"""bf16 on CPUs: offered by the nodes of a CPU that has it and by no others, refused when the job is
checked, and a job's curve near fp32's."""
import json
import os
import subprocess

import pytest

from gpus import OLD_CPU
from programs import BUILD
from service import Service, spec, tensors


def offered(**env):
    done = subprocess.run([BUILD / "evenstep-worker", "--probe", "cpu:1"],
                          env={**os.environ, **env}, capture_output=True, text=True, timeout=60,
                          check=True)
    return json.loads(done.stdout)["precisions"]


def test_a_cpu_without_bf16_does_not_offer_it_and_the_job_is_refused_when_it_is_checked():
    assert offered(**OLD_CPU) == ["fp32"]
    with Service(nodes=["a=cpu:1"], env=OLD_CPU) as s:
        assert s.get("nodes").json()["nodes"][0]["precisions"] == ["fp32"]
        answer = s.post("jobs?dryRun=true", spec(workers=1, precision="bf16"))
        assert answer.status_code == 422
        [problem] = answer.json()["errors"]
        assert (problem["pointer"] == "/precision"
                and "'a' (cpu:1) does not compute in bf16" in problem["message"])


@pytest.mark.skipif("bf16" not in offered(), reason="this CPU has no avx512_bf16")
def test_a_job_in_bf16_learns_as_in_fp32_and_repeats_its_bits():
    with Service(nodes=["a=cpu:1", "b=cpu:1"]) as s:
        assert all(n["precisions"] == ["fp32", "bf16"] for n in s.get("nodes").json()["nodes"])
        assert s.post("jobs?dryRun=true", spec(precision="bf16")).status_code == 200
        ids = [s.submit(spec(precision=p)) for p in ("fp32", "bf16", "bf16")]
        exact, rounded, again = (s.wait(id, "succeeded")["metrics"] for id in ids)
        assert rounded["train_loss"] == pytest.approx(exact["train_loss"], rel=0.1)
        assert rounded["test_accuracy"] == pytest.approx(exact["test_accuracy"], abs=0.03)
        assert (rounded["train_loss"] != exact["train_loss"]
                and again["train_loss"] == rounded["train_loss"])
        # not the whole files: the test loss in the header is a sum over shares of the test set that
        # follow the nodes' measured speeds
        assert tensors(s.artifact(ids[1])) == tensors(s.artifact(ids[2]))
