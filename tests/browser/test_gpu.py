"""How a node's GPU is, on the page of nodes: the host build of the device and a stand-in of the driver's statistics (tests/cuda), no GPU."""
import os

import pytest

from service import BUILD, Service

PLUGIN = BUILD / "evenstep-cuda-host.so"
WITH_GPU = {"EVENSTEP_CUDA_PLUGIN": str(PLUGIN), "EVENSTEP_CUDA_DRIVER": str(PLUGIN), "EVENSTEP_NVML": str(BUILD / "libevenstep-nvml.so")}


@pytest.fixture(scope="module")
def service():
    if not PLUGIN.exists():
        pytest.skip(f"{PLUGIN} is not built (make check-build)")
    before = {k: os.environ.get(k) for k in WITH_GPU}
    os.environ.update(WITH_GPU)
    try:
        with Service(nodes=["c=cpu:1", "g0=cuda:0"]) as s:
            yield s
    finally:
        for k, v in before.items():
            os.environ.pop(k) if v is None else os.environ.update({k: v})


def test_the_nodes_page_shows_how_a_gpu_is_and_nothing_where_there_is_none(page):
    page.open("/nodes")
    page.wait_text('tr[data-node="g0"]', r"cuda:0 · 87 % busy · .* of .* · 64 °C · 352 W")
    assert "busy" not in page.text('tr[data-node="c"]').lower()
    page.find('tr[data-node="g0"] button.plain').click()
    page.wait_text(".node-detail", "stand-in, no GPU")
    page.wait_text(".node-detail", "bf16")
