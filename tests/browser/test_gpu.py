"""How a node's GPU is, on the page of nodes: stand-ins as tests/integration/gpus.py says, no
GPU."""
import pytest

from gpus import service_with_gpus


@pytest.fixture(scope="module")
def service():
    with service_with_gpus("c=cpu:1", "g0=cuda:0") as s:
        yield s


def test_the_nodes_page_shows_how_a_gpu_is_and_nothing_where_there_is_none(page):
    page.open("/nodes")
    page.wait_text('tr[data-node="g0"]', r"cuda:0 · 87 % busy · .* of .* · 64 °C · 352 W")
    assert "busy" not in page.text('tr[data-node="c"]').lower()
    page.click('tr[data-node="g0"] button.plain')
    page.wait_text(".node-detail", "stand-in, no GPU")
    page.wait_text(".node-detail", "bf16")
