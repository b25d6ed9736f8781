"""The chosen data set on the form: counts by class and samples as pictures, once they are asked
for."""
import pytest

from service import Service

from stripes import stripes


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = stripes(tmp_path_factory.mktemp("data") / "stripes", 30)
    with Service(nodes=("a=cpu:1",), data=folder.parent) as s:
        yield s


def test_a_chosen_data_set_shows_its_classes_and_samples(page):
    page.open("/new")
    page.wait_text(".json-state", "valid|error")
    page.choose("/data/format", "npy")
    assert page.script("return document.querySelectorAll('.samples canvas').length") == 0
    page.script("document.querySelector('.samples').open = true")
    page.wait_text(".samples", "10 of 0, 10 of 1, 10 of 2")
    rows = page.script(
        "return [...document.querySelectorAll('.samples canvas')].map((c) => [c.ariaLabel, "
        "[...c.getContext('2d').getImageData(0, 0, 1, 8).data].filter((_, i) => i % 4 === 0)])")
    assert len(rows) == 16
    for label, column in rows:
        assert column.index(255) == 2 * int(label[-1]), label
