"""Workers on the CUDA device, in its host build (gpus.py): jobs of every strategy next to a CPU,
precisions, telemetry, and the messages if a GPU cannot be used. Nothing here ran on a GPU."""
import json
import os
import re
import shutil
import struct
import subprocess

import numpy
import pytest
import redis

from gpus import NVML, PLUGIN, WITH_GPU, service_with_gpus
from programs import BUILD
from service import Service, spec, until


DEVICES = {"c": "cpu:1", "g1": "cuda:0", "g2": "cuda:0", "h": "cuda:1"}


@pytest.fixture(scope="module")
def service():
    with service_with_gpus(*(f"{n}={d}" for n, d in DEVICES.items())) as s:
        yield s


def small(**changes):
    return spec(**{"data": {"format": "glyphs", "samples": 1280, "test_samples": 200}, "epochs": 2,
                   **changes})


def parameters(blob):
    n = struct.unpack("<Q", blob[:8])[0]
    return numpy.frombuffer(blob[8 + n:], "<f4")


@pytest.fixture(scope="module")
def alone(service):
    """The same job on one CPU worker, which sync must equal within rounding."""
    id = service.submit(small(workers=1, nodes=["c"]))
    return service.wait(id, "succeeded"), parameters(service.artifact(id))


@pytest.mark.parametrize("nodes", [["c", "g1"], ["g1", "g2"], ["g1", "h"], ["g1"]])
def test_sync_on_a_gpu_beside_a_cpu_or_another_or_shared_equals_the_cpu(service, alone, nodes):
    id = service.submit(small(workers=len(nodes), nodes=nodes))
    job, expected = service.wait(id, "succeeded"), alone[0]
    assert {w["node"]: w["device"] for w in job["workers"]} == {n: DEVICES[n] for n in nodes}
    assert abs(job["metrics"]["train_loss"] - expected["metrics"]["train_loss"]) < 1e-4
    assert job["metrics"]["test_accuracy"] == pytest.approx(expected["metrics"]["test_accuracy"],
                                                            abs=0.011)
    assert numpy.abs(parameters(service.artifact(id)) - alone[1]).max() < 1e-3


def logs_of(service, id):
    return "".join(p.read_text(errors="replace") for p in (service.dir / "jobs" / id).rglob("*")
                   if p.is_file() and p.suffix != ".safetensors")


@pytest.mark.parametrize("strategy, workers",
                         [({"type": "sync"}, 1), ({"type": "local-sgd", "k": 3}, 2)])
def test_where_no_other_ranks_gradients_join_a_step_is_one_call_and_learns_as_on_a_cpu(
        service, strategy, workers):
    job = small(strategy=strategy, workers=workers, epochs=1,
                data={"format": "glyphs", "samples": 640, "test_samples": 100},
                batching={"global_batch": 64, "policy": "equal"})
    blobs = {}
    for nodes in (["g1", "g2"][:workers], ["c", "g1"][:workers]):
        id = service.submit({**job, "nodes": nodes})
        service.wait(id, "succeeded")
        ranks = set(
            re.findall(r"the device makes a step in one.* rank=(\d+)", logs_of(service, id)))
        assert len(ranks) == sum(n != "c" for n in nodes)
        blobs[nodes[0]] = parameters(service.artifact(id))
    assert 0 < numpy.abs(blobs["c"] - blobs["g1"]).max() < 1e-3


def test_samples_that_live_on_the_gpu_are_augmented_as_on_the_host(service):
    job = small(data={"format": "glyphs", "samples": 640, "test_samples": 200},
                augment={"shift": {"pixels": 3}, "flip": {}}, workers=1, epochs=1)
    blobs = {}
    for node in ("c", "g1"):
        id = service.submit({**job, "nodes": [node]})
        service.wait(id, "succeeded")
        blobs[node] = parameters(service.artifact(id))
        assert ("the device keeps the data set" in logs_of(service, id)) == (node == "g1")
    assert numpy.abs(blobs["c"] - blobs["g1"]).max() < 1e-4


@pytest.mark.parametrize("nodes", [["g1"], ["c", "g1"]])
def test_samples_that_the_host_gathers_go_to_the_gpu_ahead_of_their_step(service, nodes):
    job = small(data={"format": "glyphs", "samples": 640, "test_samples": 200,
                      "normalize": "picture"}, workers=len(nodes), epochs=3,
                batching={"global_batch": 32, "policy": "dynamic"})
    got, losses = {}, {}
    for where in (["c"], nodes):
        id = service.submit({**job, "nodes": where, "workers": len(where)})
        losses[len(got)] = service.wait(id, "succeeded")["metrics"]["test_accuracy"]
        told = "samples are copied to the device during the step before" in logs_of(service, id)
        assert told == ("g1" in where)
        got[len(got)] = parameters(service.artifact(id))
    assert numpy.abs(got[0] - got[1]).max() < 1e-3
    assert abs(losses[0] - losses[1]) < 0.011


def mpirun(folder, job, devices, pointers, order=None, **environment):
    """Runs the job on these devices, one worker each. pointers: worker i hands device pointers to
    MPI. order: whose gradients a server takes."""
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps(job))
    (folder / "order.json").write_text(json.dumps(order or []))
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca",
               "btl_vader_single_copy_mechanism", "none"]
    for i, device in enumerate([*devices, "cpu:1"]):  # the last one keeps
        at = [] if i == 0 else [":"]
        hand = "1" if i < len(devices) and pointers[i] else "0"
        command += [*at, "-np", "1", "-x", f"EVENSTEP_STANDIN_DEVICE_POINTERS={hand}",
                    str(BUILD / "evenstep-worker"), "--local", str(folder / "job.json"), "--out",
                    str(folder), "--device", device,
                    *(["--order", str(folder / "order.json")] if order else [])]
    env = {**os.environ, **WITH_GPU, "OMPI_ALLOW_RUN_AS_ROOT": "1",
           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL)


def over_mpi(folder, job, devices, pointers, order=None):
    """The job's artifact, and how many workers exchange from the device's memory."""
    done = mpirun(folder, job, devices, pointers, order)
    assert done.returncode == 0, done.stderr[-3000:]
    return (folder / "artifacts" / "model.safetensors").read_bytes(), done.stderr.count(
        "messages go from and to the device's memory")


DENSE = [{"type": "dense", "units": 60}, {"type": "relu"}, {"type": "dense", "units": 120},
         {"type": "tanh"}]
ROADS = { # strategy, layers, devices, who hands device pointers to MPI
    "two": ("sync", DENSE, ["cuda:0", "cuda:1"], [1, 1]),
         "three, one of them through the host": ("sync", DENSE, ["cuda:0"] * 3, [1, 0, 1]),
         "beside a CPU": ("sync", DENSE, ["cuda:0", "cpu:1", "cuda:0"], [1, 1, 1]),
         "statistics in the last bucket": ("sync",
                                           [{"type": "conv2d", "filters": 4, "kernel": 5,
                                             "stride": 3}, {"type": "batch_norm"}, {"type": "relu"},
                                            *DENSE], ["cuda:0"] * 2, [1, 1]),
         "push and pull": ("asgd", DENSE, ["cuda:0", "cpu:1"], [1, 1]),
         "push and pull, statistics": ("ddc-asgd",
                                       [{"type": "conv2d", "filters": 4, "kernel": 5, "stride": 3},
                                        {"type": "batch_norm"}, {"type": "relu"}, *DENSE],
                                       ["cuda:0"] * 3, [1, 0, 1]),
}


@pytest.mark.parametrize("road", ROADS)
def test_what_is_sent_from_the_gpus_memory_gives_the_bits_of_what_is_sent_through_the_host(
        tmp_path, road):
    """As with an MPI that takes device pointers: real MPI moves what the stand-ins call GPU memory.
    Ranks that do so work together with ranks that do not."""
    if not PLUGIN.exists():
        pytest.skip(f"{PLUGIN} is not built (make check-build)")
    strategy, layers, devices, pointers = ROADS[road]
    # buckets: a short one, one that goes round a ring, and the last
    model = {"input": [28, 28, 1], "layers": [*layers, {"type": "dense", "units": 10}]}
    job = {**spec(model=model, data={"format": "glyphs", "samples": 320, "test_samples": 40},
                  workers=len(devices), epochs=2), "exchange": {"bucket_bytes": 4096},
           "strategy": {"type": strategy}, "batching": {"global_batch": 48, "policy": "equal"},
           "optimizer": {"type": "sgd", "learning_rate": 0.05}}
    pushes = 2 * -(-320 // (48 // len(devices)))
    order = [i % len(devices) for i in range(pushes)] if strategy != "sync" else None
    host, none = over_mpi(tmp_path / "host", job, devices, [0] * len(devices), order)
    near, some = over_mpi(tmp_path / "near", job, devices, pointers, order)
    assert (none, some) == (0, sum(p for p, d in zip(pointers, devices) if d.startswith("cuda")))
    assert parameters(host).tobytes() == parameters(near).tobytes()


@pytest.mark.parametrize("strategy, pointers", [("sync", 0), ("asgd", 1)])
def test_a_bucket_that_the_gpu_does_not_give_out_ends_the_job_with_a_sentence(
        tmp_path, strategy, pointers):
    """It neither sums old gradients, nor leaves out the bucket when it works again."""
    if not PLUGIN.exists():
        pytest.skip(f"{PLUGIN} is not built (make check-build)")
    model = {"input": [28, 28, 1], "layers": [{"type": "dense", "units": 10}]}
    job = {**spec(model=model, data={"format": "glyphs", "samples": 640, "test_samples": 40,
                                     "normalize": "picture"}, workers=2, epochs=20),
           "strategy": {"type": strategy}, "batching": {"global_batch": 16, "policy": "equal"},
           "optimizer": {"type": "sgd", "learning_rate": 0.05}}
    for kernel, why in (
            ("gather", r"cannot hand over the gradients of step [1-9]\d*: cannot reorder a block"),
            ("scatter", "cannot reorder a block")):
        done = mpirun(tmp_path / kernel, job, ["cuda:0", "cpu:1"], [pointers, 0],
                      EVENSTEP_STANDIN_FAIL=f"{kernel}:20")
        assert done.returncode != 0, done.stderr[-2000:]
        assert re.search(rf'msg="failed".*why="{why}: CUDA says', done.stderr), done.stderr[-2000:]


def test_asgd_on_a_gpu_beside_a_cpu_learns_as_sync_on_a_cpu(service):
    job = small(workers=3, nodes=["c", "g1", "g2"], strategy={"type": "asgd"}, epochs=4,
                batching={"global_batch": 63, "policy": "equal"})
    mixed = service.wait(service.submit(job), "succeeded")
    assert mixed["progress"]["samples"] == 4 * 1280
    same = service.wait(
        service.submit({**job, "nodes": ["c"], "workers": 1, "strategy": {"type": "sync"}}),
        "succeeded")
    # gradients are stale, but no worse
    assert abs(mixed["metrics"]["train_loss"]
               - same["metrics"]["train_loss"]) < 0.2 * same["metrics"]["train_loss"]


def test_minibatches_change_on_a_gpu_while_it_trains(service):
    # no profile yet
    model = {"input": [28, 28, 1], "layers": [{"type": "dense", "units": 60}, {"type": "relu"},
                                              {"type": "dense", "units": 10}]}
    id = service.submit(small(model=model, workers=2, nodes=["c", "g1"], epochs=25,
                              batching={"global_batch": 64, "policy": "dynamic"}))
    job = service.wait(id, "succeeded")
    assert len(service.get(f"jobs/{id}/assignments").json()["assignments"]) > 1
    assert sum(w["batch"] for w in job["workers"]) == 64


def test_a_minibatch_that_the_gpus_memory_does_not_hold_is_named_with_one_that_it_does():
    model = {"input": [28, 28, 1],
             "layers": [{"type": "relu", "name": "r"}, {"type": "concat", "inputs": ["r"] * 8},
                        {"type": "dense", "units": 10}]}
    job = small(model=model, workers=1, epochs=1, max_restarts=0)
    with service_with_gpus("g=cuda:0", EVENSTEP_STANDIN_MEMORY=str(128 << 20)) as s:
        failed = s.wait(
            s.submit({**job, "data": {"format": "glyphs", "samples": 4096, "test_samples": 10},
                      "batching": {"global_batch": 4096, "policy": "equal"}}), "failed")
        [fits] = re.findall(r"a minibatch of 4096 .*: one of (\d+) does",
                            failed["error"]["message"])
        s.wait(s.submit({**job, "batching": {"global_batch": int(fits), "policy": "equal"},
                         "data": {"format": "glyphs", "samples": int(fits), "test_samples": 10}}),
               "succeeded")
    assert 100 < int(fits) < 4096


def test_a_gpu_whose_memory_does_not_hold_an_equal_share_gets_what_it_holds():
    """In a dynamic job: the first attempt finds out, and the next job knows."""
    model = {"input": [28, 28, 1],
             "layers": [{"type": "relu", "name": "r"}, {"type": "concat", "inputs": ["r"] * 8},
                        {"type": "dense", "units": 10}]}
    job = small(model=model, workers=2, epochs=1,
                data={"format": "glyphs", "samples": 8192, "test_samples": 10},
                batching={"global_batch": 4096, "policy": "dynamic"})
    with service_with_gpus("g=cuda:0", "c=cpu:1", EVENSTEP_STANDIN_MEMORY=str(128 << 20)) as s:
        first, second = [s.wait(s.submit(job), "succeeded") for _ in range(2)]
        why = s.get(f"jobs/{first['id']}/assignments").json()["assignments"]
    assert (first["attempt"], second["attempt"]) == (2, 1)
    assert "memory allows" in why[1]["reason"]
    for done in (first, second):
        batches = {w["node"]: w["batch"] for w in done["workers"]}
        assert 100 < batches["g"] < 2048 and sum(batches.values()) == 4096


def test_algorithms_that_one_job_measured_the_next_one_on_this_gpu_is_given(service):
    model = {"input": [28, 28, 1],
             "layers": [{"type": "conv2d", "filters": 3, "kernel": 3, "stride": 3},
                        {"type": "relu"}, {"type": "dense", "units": 10}]}
    job = small(model=model, workers=1, nodes=["g1"], epochs=1)
    store = redis.Redis(unix_socket_path=str(service.dir / "redis.sock"), decode_responses=True)
    ids = [service.wait(service.submit(job), "succeeded")["id"] for _ in range(2)]
    told = [[f["tuning"] for _, entry in store.xrange(f"es:job:{id}:facts")
             if (f := json.loads(entry["j"].partition("\n")[2]))["type"] == "tuning"] for id in ids]
    assert len(told[0]) == 1 and len(told[0][0]["choices"]) > 0
    given = [json.loads(store.get(f"es:job:{id}:plan"))["workers"][0].get("tuning") for id in ids]
    assert given == [None, told[0][0]]
    assert told[1] == []  # nothing was left to measure


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_a_precision_is_computed_where_it_is_offered(service, alone, precision):
    id = service.submit(small(workers=3, precision=precision))
    job = service.wait(id, "succeeded")
    assert {w["node"] for w in job["workers"]} == {"g1", "g2", "h"}
    # rounded, and not much
    assert 0 < abs(job["metrics"]["train_loss"] - alone[0]["metrics"]["train_loss"]) < 0.05


def test_a_precision_that_too_few_nodes_offer_is_refused_when_the_job_is_checked(service):
    answer = service.post("jobs?dryRun=true", small(workers=4, precision="bf16"))
    assert answer.status_code == 422, answer.text
    [problem] = answer.json()["errors"]
    assert (problem["pointer"] == "/precision"
            and "'c' (cpu:1) does not compute in bf16" in problem["message"])
    answer = service.post("jobs?dryRun=true", small(workers=1, nodes=["c"], precision="tf32"))
    assert answer.status_code == 422 and "/precision" in answer.text
    assert service.post("jobs?dryRun=true", small(workers=3, precision="bf16")).status_code == 200


def test_the_statistics_of_a_nodes_gpu_are_in_the_api_and_the_metrics(service):
    def gpu():
        return service.get("nodes/g1").json().get("gpu")
    told = until("the node tells of its GPU", gpu)
    assert (told["busy"] == 0.87 and told["celsius"] == 64 and told["watts"] == 351.5
            and told["memory_used_bytes"] == 1 << 28)
    node = service.get("nodes/g2").json()
    assert (node["precisions"] == ["fp32", "tf32", "bf16"] and "stand-in" in node["description"]
            and node["quantum"] == 8)
    assert "gpu" not in service.get("nodes/c").json()
    text = service.http.get(service.url + "/metrics", timeout=30).text
    assert ('evenstep_gpu_watts{node="g1"} 351.5' in text
            and 'evenstep_gpu_busy_ratio{node="g2"} 0.87' in text)
    assert 'evenstep_gpu_busy_ratio{node="c"}' not in text


# ---- what cannot be used -------------------------------------------------------------------------

def probe(device, worker=BUILD / "evenstep-worker", **env):
    done = subprocess.run([worker, "--probe", device], env={**os.environ, **env},
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


CAUSES = {
    "there is no NVIDIA driver": {"EVENSTEP_CUDA_DRIVER": "/nowhere/libcuda.so.1"},
    "the plug-in cannot be loaded": {"EVENSTEP_CUDA_DRIVER": str(PLUGIN),
                                     "EVENSTEP_CUDA_PLUGIN": "/nowhere/evenstep-cuda.so"},
    "is of another version": {"EVENSTEP_CUDA_DRIVER": str(PLUGIN),
                              "EVENSTEP_CUDA_PLUGIN": str(NVML)},
    "no CUDA-capable device is detected": {**WITH_GPU, "EVENSTEP_STANDIN_DEVICES": "0"},
    "is older than this build's CUDA": {**WITH_GPU, "EVENSTEP_STANDIN_DEVICES": "-1"},
    "cuDNN 9.8 (90800) or later is needed, and version 8907 was found": {
        **WITH_GPU, "EVENSTEP_STANDIN_CUDNN": "8907"},
}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_gpu_that_cannot_be_used_is_one_sentence_and_auto_takes_the_cpu(cause):
    told = probe("cuda:0", **CAUSES[cause])
    assert cause in told["error"] and "\n" not in told["error"] and len(told["error"]) < 400
    told = probe("auto", **CAUSES[cause])
    assert told["device"].startswith(
        "cpu:") and cause in told["why"] and told["precisions"] == probe("cpu:1")["precisions"]


def test_a_plug_in_that_is_missing_is_one_sentence_and_auto_takes_the_cpu(tmp_path):
    worker = shutil.copy(BUILD / "evenstep-worker", tmp_path)
    for device in ("cuda:0", "auto"):
        told = probe(device, worker, EVENSTEP_CUDA_DRIVER=str(PLUGIN), EVENSTEP_CUDA_PLUGIN="")
        why = told["error"] if device == "cuda:0" else told["why"]
        assert why == ("no GPU can be used here: the plug-in evenstep-cuda.so is not beside the "
                       "program"), told
    assert told["device"].startswith("cpu:")


def test_an_index_beyond_the_last_gpu_is_named():
    assert "this machine has 1 GPU," in probe("cuda:1", **WITH_GPU,
                                              EVENSTEP_STANDIN_DEVICES="1")["error"]
    assert "this machine has 2 GPUs," in probe("cuda:2", **WITH_GPU)["error"]
    assert "there is no device 'tpu'" in probe("tpu")["error"]


def test_auto_takes_a_gpu_that_is_there():
    told = probe("auto", **WITH_GPU)
    assert told["device"] == "cuda:0" and told["why"] is None and told["precisions"] == [
        "fp32", "tf32", "bf16"]


def test_a_service_says_why_its_gpu_cannot_be_used_and_with_auto_goes_on_without(monkeypatch):
    monkeypatch.setenv("EVENSTEP_CUDA_DRIVER", "/nowhere/libcuda.so.1")
    with Service(nodes=["a=auto"]) as s:
        assert s.get("nodes/a").json()["device"].startswith("cpu:")
        assert "there is no NVIDIA driver" in s.text()
        s.stop()
        s.nodes = ["a=cuda:0"]
        with pytest.raises(AssertionError,
                           match="--local-node 'a=cuda:0': .*there is no NVIDIA driver"):
            s.start()


def test_the_bench_runs_with_sizes_that_say_nothing():
    done = subprocess.run(["/usr/bin/python3", "tests/bench/bench_gpu.py", "--tiny"],
                          cwd=BUILD.parent, env={**os.environ, **WITH_GPU}, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 rows on the host build: nothing was measured" in done.stdout, done.stdout
    told = done.stdout.split("kernels: ")[1].splitlines()[0].split()
    sources = [(p.stem, p.read_text()) for p in (BUILD.parent / "kernels" / "cuda").glob("*")
               if p.suffix in (".cu", ".h")]
    written = {f"{stem}.{k}" for stem, text in sources
               for k in re.findall(r"^(?:template.*)?\s*KERNEL (\w+)\(", text, re.M)} - {
                   "elements.each"}
    written |= {f"elements.{k}" for _, text in sources
                for k in re.findall(r'constexpr const char \*name = "(\w+)"', text)}
    assert len(written) > 35
    assert {k for k in written if not any(t == k or t.startswith(k + "_") for t in told)} == set()
    assert {"conv.forward", "conv.filter", "conv.data", "dense.product", "rule.apply_trust",
            "elements.convert"} <= set(told)
