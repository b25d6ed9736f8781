"""What if a node left or joined, or the global batch were another? On a virtual job, whose speeds
are known exactly, so that the answers can be told in advance."""

import json
import re

import pytest

from service import spec, until
from test_pure import NARROW, call

CLUSTER = {
    "nodes": [
        {"name": "fast", "count": 2, "seconds_per_sample": 0.001},
        {"name": "slow", "seconds_per_sample": 0.004},
    ]
}


@pytest.fixture(scope="module")
def job(service):
    made = spec(
        cluster=CLUSTER,
        strategy={"type": "sync"},
        batching={"global_batch": 72, "policy": "dynamic"},
        epochs=1,
    )
    del made["workers"]
    id = service.submit(made)
    service.wait(id, "succeeded")
    return id


def opened(page, job):
    page.open_job(job)
    page.click("#whatif summary")
    return page.wait_text(".whatif-says", r"is predicted to take about (\d+\.\d)")


def sizes(page):
    """Node and minibatch of each bar, as soon as the page has drawn those."""
    return page.script(
        """return Object.fromEntries([...document.querySelectorAll('.whatif-table tbody tr')]
             .map((r) => [r.dataset.node, Number(r.querySelector('b').textContent)]))"""
    )


def test_a_node_is_taken_out_and_put_back(page, job):
    """32 + 32 + 8 samples take 32 ms; 36 + 36 of the fast ones alone take 36."""
    assert opened(page, job).group(1) == "32.0" and sizes(page) == {
        "fast-1": 32, "fast-2": 32, "slow": 8}
    page.click('#whatif .chip[data-node="slow"]')
    page.wait_text(
        ".whatif-says",
        f"^Without slow a step would take about 36.0{NARROW}ms instead of 32.0{NARROW}ms: 2,000 "
        "samples/s instead of 2,250",
    )
    assert sizes(page) == {"fast-1": 36, "fast-2": 36}
    page.click('#whatif .chip[data-node="slow"]')
    page.wait_text(".whatif-says", "^As it is")
    assert sizes(page)["slow"] == 8


def test_a_copy_of_a_node_is_added_at_another_speed_and_taken_out_again(page, job):
    """Half as fast as slow: 8 ms a sample, so that 32 + 32 + 8 + 0 are 30 + 30 + 8 + 4."""
    opened(page, job)
    page.script(
        """document.querySelector('#whatif select[aria-label="A copy of"]').value = 'fast-1'"""
    )
    page.click('#whatif button[aria-label="Add this copy"]')
    page.wait_text(".whatif-says", r"^With a copy of fast-1 a step would take about 2\d\.\d")
    assert set(sizes(page)) == {"fast-1", "fast-2", "slow", "fast-1-copy"}
    assert sum(sizes(page).values()) == 72
    page.click('#whatif .chip[aria-label="Take the copy of fast-1 out again"]')
    page.wait_text(".whatif-says", "^As it is")


def test_another_global_batch_takes_as_much_longer(page, job):
    opened(page, job)
    page.type('#whatif input[aria-label="Global batch of the what-if"]', "144")
    page.wait_text(
        ".whatif-says",
        f"^With a global batch of 144 a step would take about 64.0{NARROW}ms instead of 32.0",
    )


def test_a_job_of_real_nodes_offers_a_clone_without_the_node(page, service):
    made = spec(workers=4, batching={"global_batch": 64, "policy": "dynamic"})
    id = service.submit(made)
    service.wait(id, "succeeded")
    opened(page, id)
    page.click('#whatif .chip[data-node="slow"]')
    page.wait_text(".whatif-says", "^Without slow a step would take about")
    until("the clone is offered", lambda: page.visible("#whatif a.btn"))
    href = page.find("#whatif a.btn").get_attribute("href")
    assert "%22%2Fworkers%22%3A3" in href and "slow" not in href
    page.click("#whatif a.btn")
    page.wait_text("#changed", re.escape("workers 4 → 3"))


def test_the_label_of_a_line_near_zero_does_not_cover_the_zero(page, job):
    """As where an equal split would take ten times as long."""
    opened(page, job)
    overlaps = """return import('/js/elements/figures.js').then((m) => arguments[0].map((share) => {
        const label = document.querySelector('#whatif .line-label');
        m.placeLine(label, share);
        const [zero, line] = [label.parentElement.querySelector('.zero'), label].map(
            (e) => e.getBoundingClientRect());
        return zero.width > 0 && zero.right > line.left; }))"""
    assert page.script(overlaps, [0.02, 0.1, 0.2, 0.9]) == [False] * 4
    assert page.script("return document.querySelector('#whatif .zero').hidden") is False


def test_what_cannot_be_predicted_leaves_no_bars_and_no_clone_of_something_else(page, service):
    id = service.submit(spec(workers=2, batching={"global_batch": 64, "policy": "dynamic"}))
    service.wait(id, "succeeded")
    opened(page, id)
    batch = '#whatif input[aria-label="Global batch of the what-if"]'
    page.type(batch, "128")
    page.wait_text(".whatif-says", "^With a global batch of 128")
    assert page.visible("#whatif a.btn") and page.visible(".whatif-table")
    for text in ("0", "", "1.5"):
        page.type(batch, text)
        page.wait_text(".whatif-says", "^The global batch is a whole number of samples, 1 or more")
        assert not page.visible("#whatif a.btn") and not page.visible(".whatif-table")
    page.type(batch, "128")
    until("the bars are back", lambda: page.visible(".whatif-table"))
    for node in list(sizes(page)):
        page.click(f'#whatif .chip[data-node="{node}"]')
    page.wait_text(".whatif-says", "^Without any node there is no step")
    assert not page.visible("#whatif a.btn") and not page.visible(".whatif-table")


@pytest.mark.parametrize(
    "change, wanted",
    [
        ({"without": ["a"], "added": [], "batch": 8}, [["b"]]),
        ({"without": ["b"], "added": [{"like": "a", "speed": 2}], "batch": 8}, [["a", "a-copy"]]),
        ({"without": ["a", "b"], "added": [{"like": "c", "speed": 1}], "batch": 8},
         [["c", "c-copy"]]),
    ],
)
def test_groups_hold_the_nodes_that_stay_and_copies_join_their_models(page, change, wanted):
    cluster = {
        "nodes": [{"name": n, "seconds_per_sample": 0.5} for n in "abc"],
        "groups": [["a", "b"], ["c"]],
    }
    made = {"workers": 3, "nodes": ["x"], "batching": {"policy": "static", "sizes": [1, 2, 3]}}
    got = call(
        page, "/js/spec/whatif.js", f"m.specWith({json.dumps(made)}, {json.dumps(cluster)}, "
        f"{json.dumps(change)})"
    )
    assert all(group in got["cluster"]["groups"] for group in wanted)
    assert "workers" not in got and "nodes" not in got
    assert got["batching"] == {"policy": "dynamic", "global_batch": 8}
    copies = [n for n in got["cluster"]["nodes"] if "-copy" in n["name"]]
    assert [n["seconds_per_sample"] for n in copies] == [
        0.5 / a["speed"] for a in change["added"]]
