"""Data sets that a host lacks come from the keeper, are kept by their digest within a limit, and
are not sent twice."""
import itertools
import pathlib
import shutil
import struct
import zlib

import pytest

np = pytest.importorskip("numpy", reason="python3-numpy is not installed")
from agents import Agent, ready  # noqa: E402
from service import Service, spec, until  # noqa: E402

TRAIN, TEST = 1200, 200


def write_set(folder, seed=1, train=TRAIN):
    """Two clouds, as npy."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for prefix, n in (("", train), ("test_", TEST)):
        y = rng.integers(0, 2, n)
        x = rng.normal(0, 1, (n, 16)) + 2 * y[:, None]
        np.save(folder / (prefix + "x.npy"), x.astype(np.float32))
        np.save(folder / (prefix + "y.npy"), y.astype(np.int32))
    (folder / "classes.txt").write_text("left\nright\n")
    return folder


def png(side, value):
    """One shade of grey."""
    chunks = [(b"IHDR", struct.pack(">2I5B", side, side, 8, 0, 0, 0, 0)),
              (b"IDAT", zlib.compress((b"\0" + bytes([value]) * side) * side)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(c)) + t + c + struct.pack(">I", zlib.crc32(t + c))
        for t, c in chunks)


def job(path, **changes):
    return spec(
        model={"input": [16],
               "layers": [{"type": "dense", "units": 8}, {"type": "relu"},
                          {"type": "dense", "units": 2}]}, data={"format": "npy", "path": path},
        batching={"global_batch": 60, "policy": "equal"}, workers=2, **changes)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The coordinator's data, and two hosts: one without data (two nodes), and one whose data set
    `other` is different."""
    root = tmp_path_factory.mktemp("coordinator-data")
    for name, seed in (("clouds", 1), ("other", 2)):
        write_set(root / name, seed)
    own = tmp_path_factory.mktemp("host-data")
    write_set(own / "other", 77)
    shutil.copytree(root / "clouds", own / "clouds")
    return root, own, tmp_path_factory.mktemp("no-data")


@pytest.fixture(scope="module")
def service(places):
    with Service(nodes=[], options=["--no-local-node"], data=places[0]) as s:
        yield s


@pytest.fixture(scope="module")
def bare(service, places):
    """A host without data sets, which keeps 1 MB of them."""
    with Agent(service, "bare", "n1=cpu:1", "n2=cpu:1",
               options=["--label", "host=bare", "--data-limit", "1"],
               env={"EVENSTEP_DATA": str(places[2])}) as a:
        ready(service, "n1", "n2")
        yield a


@pytest.fixture(scope="module")
def owner(service, places):
    with Agent(service, "owner", "o1=cpu:1", options=["--label", "host=owner"],
               env={"EVENSTEP_DATA": str(places[1])}) as a:
        ready(service, "o1")
        yield a


def kept(agent):
    return {p.name for p in (agent.dir / "received").glob("[0-9a-f]*")}


def trained(service, path, *labels, epochs=2, **changes):
    """Runs a job there to its end. Returns whether its data set was sent."""
    id = service.submit(dict(job(path, nodes=[f"host={l}" for l in labels], epochs=epochs),
                             **changes))
    done = service.wait(id, "succeeded")
    folder = pathlib.Path(service.data) / path
    samples = (len(np.load(folder / "y.npy")) if (folder / "y.npy").exists()
               else len(list(folder.glob("train/*/*"))))
    assert done["progress"]["samples"] == epochs * samples
    return "sends the data set" in "".join(p.read_text()
                                           for p in (service.dir / "jobs" / id / "logs").iterdir())


def test_a_host_without_the_data_set_gets_it_and_keeps_it_for_the_next_job(service, bare, places):
    assert trained(service, "clouds", "bare")
    (key,) = kept(bare)
    for file in (places[0] / "clouds").iterdir():
        assert (bare.dir / "received" / key / "files" / file.name).read_bytes() == file.read_bytes()
    assert not trained(service, "clouds", "bare", seed=2)


def test_what_was_damaged_is_noticed_by_its_digest_and_sent_again(service, bare):
    file = next((bare.dir / "received").glob("[0-9a-f]*/files/x.npy"))
    blob = bytearray(file.read_bytes())
    blob[-5] ^= 0x10
    file.write_bytes(blob)
    assert trained(service, "clouds", "bare")
    assert not trained(service, "clouds", "bare")


def test_a_host_that_has_the_data_set_uses_its_own(service, owner):
    assert not trained(service, "clouds", "owner", workers=1)
    assert not kept(owner)


def test_hosts_with_and_without_it_train_on_the_same_values(service, bare, owner):
    """One host has a different data set of this name: it takes the keeper's."""
    assert trained(service, "other", "bare", "owner", workers=3)
    assert len(kept(owner)) == 1 and kept(owner) < kept(bare)


def test_a_folder_of_pictures_is_sent_with_its_classes(service, bare):
    """Names as people use them; two files per class are enough to see all classes."""
    root = pathlib.Path(service.data) / "pictures"
    for part, label, i in itertools.product(("train", "test"), ("a cat (tame)", "dog"), range(4)):
        (folder := root / part / label).mkdir(parents=True, exist_ok=True)
        (folder / f"é & {i}.png").write_bytes(png(8, 40 * i + (label == "dog")))
    pictures = {"data": {"format": "images", "path": "pictures"},
                "model": {"input": [4, 4, 1], "layers": [{"type": "flatten"},
                                                         {"type": "dense", "units": 2}]},
                "batching": {"global_batch": 4, "policy": "equal"}}
    assert trained(service, "pictures", "bare", epochs=1, **pictures)
    assert not trained(service, "pictures", "bare", epochs=1, seed=2, **pictures)


def test_received_ones_stay_within_the_limit_and_the_oldest_goes(service, bare):
    before = kept(bare)
    write_set(pathlib.Path(service.data) / "big", 5, train=12_000)
    assert trained(service, "big", "bare", epochs=1)
    assert len(kept(bare) - before) == 1 and not before <= kept(bare)
    assert sum(p.stat().st_size for p in (bare.dir / "received").rglob("*")
               if p.is_file()) <= 1_000_000


def test_one_that_does_not_fit_is_refused_with_the_cause(service, bare):
    write_set(pathlib.Path(service.data) / "huge", 6, train=40_000)
    id = service.submit(job("huge", nodes=["host=bare"], max_restarts=0))
    error = until("the job has failed", lambda: service.job(id)["state"] == "failed"
                  and service.job(id)["error"])
    assert "keeps at most 1 MB" in error["message"], error


def test_what_a_job_begins_with_comes_from_the_keeper_too(service, bare):
    """`init` is a file of the coordinator's host; with a tiny learning rate the model does not
    change."""
    first = service.submit(job("clouds", nodes=["host=bare"]))
    service.wait(first, "succeeded")
    model = service.artifact(first)
    (pathlib.Path(service.data) / "begin.safetensors").write_bytes(model)
    second = service.submit(job("clouds", nodes=["host=bare"], init="begin.safetensors", epochs=1,
                                seed=9, optimizer={"type": "sgd", "learning_rate": 1e-30}))
    service.wait(second, "succeeded")
    again = service.artifact(second)
    heads = [int.from_bytes(b[:8], "little") + 8 for b in (model, again)]
    assert model[heads[0]:] == again[heads[1]:]
