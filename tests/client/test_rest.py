"""The client of the REST API against a real service."""

import os
import sys

import pytest

from conftest import ROOT

sys.path[:0] = [os.path.join(ROOT, "client/python"), os.path.join(ROOT, "tests/integration")]

from evenstep.client import Client, ServiceError  # noqa: E402
from service import Service, spec  # noqa: E402


@pytest.fixture(scope="module")
def client():
    with Service() as service:
        yield Client(service.url, service.token)


def test_a_job_is_submitted_awaited_and_its_series_read(client):
    job = client.submit(spec())
    states = []
    ended = client.wait(job["id"], timeout=120, shown=lambda job: states.append(job["state"]))
    assert ended["state"] == states[-1] == "succeeded"
    curves = client.series(job["id"], "train_loss", "batch")
    loss = curves["train_loss"]
    assert len(loss["x"]) == len(loss["mean"]) > 1
    assert all(loss["min"] <= loss["mean"]) and all(loss["mean"] <= loss["max"])
    assert {name for name in curves if name.startswith("batch@")} == {"batch@a", "batch@b"}


def test_an_error_has_the_sentences_of_the_service(client):
    with pytest.raises(ServiceError) as raised:
        client.submit(spec(strategy={"type": "sinc"}))
    assert raised.value.status == 422
    assert "/strategy/type: " in str(raised.value)
    with pytest.raises(ServiceError):
        client.job("none")


def test_waiting_ends_with_its_timeout(client):
    job = client.submit(spec(epochs=500))
    with pytest.raises(TimeoutError):
        client.wait(job["id"], timeout=0.5, every=0.1)
    client.cancel(job["id"])
    assert client.wait(job["id"], timeout=60)["state"] == "cancelled"
