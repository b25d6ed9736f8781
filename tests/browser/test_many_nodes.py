"""Pages of a job of 128 nodes: what a list shows at first, and what its button does; and what is
offered for a node."""
import json

import pytest

import canned
from canned import curve, job, worker
from service import until
from test_canned import FALLS, phone  # noqa: F401  (a fixture)
from test_pure import call


def test_of_128_nodes_a_phone_lists_16_and_all_on_a_button(page, phone):  # noqa: F811
    """The page was 8,000 pixels long; the straggler is among those that are shown."""
    names = [f"node-{i:03d}" for i in range(128)]
    workers = [worker(r, n, compute=0.05 if n == "node-100" else 0.010)
               for r, n in enumerate(names)]
    row = {"step": 9, "batch": 8, "loss": 1, "time": 1, "compute_seconds": 0.01,
           "exchange_seconds": 0.001, "wait_seconds": 0, "staleness": 0}
    phone(390)
    canned.show(page, job(workers=workers), [curve("train_loss", FALLS)],
                steps=[{"node": n, "rows": [row] * 3} for n in names])
    shown = "return document.querySelectorAll(arguments[0]).length"
    lists = (".node-table tbody tr", ".split-table tbody tr", ".lane-name")
    for rows in lists[:2]:
        until(f"16 of {rows}", lambda: page.script(shown, rows) == 16)  # noqa: B023
    assert page.visible('.node-table tr[data-node="node-100"]')
    page.script("""document.querySelector('[aria-label="Last steps"]').scrollIntoView()""")
    until("16 lanes", lambda: page.script(shown, lists[2]) == 16)
    assert page.script("return document.documentElement.scrollHeight") < 5500
    for place, rows in zip((".summary", ".rail-side", '[aria-label="Last steps"]'), lists):
        page.click(f"{place} .few[aria-expanded=false]:not([hidden])")
        until(f"128 of {rows}", lambda: page.script(shown, rows) == 128)  # noqa: B023
        page.wait_text(f"{place} .few[aria-expanded=true]", "Fewer nodes")


def test_lists_are_short_again_after_all_nodes_were_saved(page):
    names = [f"node-{i:03d}" for i in range(40)]
    canned.show(page, job(state="succeeded", workers=[worker(r, n) for r, n in enumerate(names)]),
                [curve("train_loss", FALLS)])
    rows = "return document.querySelectorAll('.node-table tbody tr').length"
    until("16 nodes", lambda: page.script(rows) == 16)
    page.script("""
        window.saved = [];
        URL.createObjectURL = (blob) => { blob.text().then((t) => saved.push(t)); return '#'; };""")
    page.click("#save-html")
    text = until("the file is made", lambda: page.script("return window.saved"))[0]
    assert "node-039" in text.split('id="run"')[0], "the file's table has them all"
    until("16 nodes again", lambda: page.script(rows) == 16)
    assert not page.all(".few[aria-expanded=true]")


def test_names_beside_a_step_are_not_cut_into_letters(page, phone):  # noqa: F811
    """The column of names was as narrow as a letter, and each row as tall as its name is long."""
    workers = [worker(r, f"rack-0-node-{r:03d}") for r in range(4)]
    for width in (1440, 390):
        phone(width)
        canned.show(page, job(workers=workers), [curve("train_loss", FALLS)])
        page.wait_for(".split-table .name")
        tall = page.script("return Math.max(...[...document.querySelectorAll("
                           "'.split-table tbody tr')].map((r) => r.clientHeight))")
        assert tall < 60, (width, tall)


def test_a_name_that_is_cut_keeps_its_end(page, phone):  # noqa: F811
    """On a phone each row of heat was called "no…"."""
    names = [f"node-{i:02d}" for i in range(32)]
    row = {"step": 9, "batch": 8, "loss": 1, "time": 1, "compute_seconds": 0.01,
           "exchange_seconds": 0.001, "wait_seconds": 0, "staleness": 3}
    phone(390)
    canned.show(page, job(workers=[worker(r, n) for r, n in enumerate(names)],
                          spec={"strategy": {"type": "asgd"}}),
                [curve("staleness", [(1, 2), (9, 3)], n) for n in names],
                steps=[{"node": n, "rows": [row] * 3} for n in names])
    page.wait_for(".heat-line .strip-name")
    told = page.script("""
        const text = document.querySelector('.heat-line .txt'), range = document.createRange();
        const box = text.getBoundingClientRect(), node = text.querySelector('bdi').firstChild;
        const at = (i) => (range.setStart(node, i), range.setEnd(node, i + 1),
            range.getBoundingClientRect());
        return [text.textContent, at(0).left < box.left, at(6).left >= box.left,
            at(6).right <= box.right + 0.5, text.title || text.parentNode.title];""")
    assert told == ["node-00", True, True, True, "node-00"], told


def test_of_128_rows_of_heat_no_text_is_printed_over_another(page):
    names = [f"node-{i:03d}" for i in range(128)]
    document = job(workers=[worker(r, n) for r, n in enumerate(names)])
    document["spec"]["strategy"] = {"type": "asgd", "servers": 1}
    canned.show(page, document, [curve("staleness", [3.0] * 50, node=n) for n in names],
                staleness=[{"node": n, "histogram": [9, 1], "p50": 0, "p95": 1, "max": 1}
                           for n in names])
    until("all rows", lambda: len(page.all(".heat-line")) == 128)
    shown = page.script("""
        return [...document.querySelectorAll('.heat-line .txt, .heat-end')].filter((e) =>
            getComputedStyle(e).visibility === 'visible' && e.textContent).map((e) => {
                const {top, bottom} = e.closest('.heat-line').getBoundingClientRect();
                return Math.round(bottom - top); })""")
    assert len(shown) <= 16 and shown, "those in colour alone"
    foot, last = page.script("""
        return [document.querySelector('.heat-foot').getBoundingClientRect().top,
                [...document.querySelectorAll('.heat-line')].pop().getBoundingClientRect().bottom]
        """)
    assert foot >= last
    assert "node-000" in page.text(".dist.named")


def test_heat_of_a_run_that_is_over_follows_the_theme(page):
    """A dark page had the light one's rows, since nothing more comes of such a run."""
    nodes = [worker(i, f"n{i}", staleness={"mean": 4, "max": 9}) for i in range(12)]
    document = job(workers=nodes, servers=[{"rank": 12}])
    document["spec"]["strategy"] = {"type": "asgd", "servers": 1}
    rows = [curve("staleness", [i % 7 for i in range(100)], w["node"]) for w in nodes]
    canned.show(page, document, [curve("train_loss", [2.3] * 100), *rows])
    row = "return document.querySelector('.heat-row')?.toDataURL()"
    until("heat is drawn", lambda: page.script(row))
    try:
        seen = set()
        for theme in ("light", "dark"):
            page.script("window.evenstepTheme.set(arguments[0])", theme)
            until(f"heat in {theme}", lambda: page.script(row) not in seen)  # noqa: B023
            seen.add(page.script(row))
    finally:
        page.script("window.evenstepTheme.set('auto')")


def test_a_long_word_in_a_sentence_does_not_widen_the_page(page):
    error = {"code": "invalid", "message": "ValueError: " + "x" * 400, "rank": 1, "node": "b",
             "attempt": 1}
    canned.show(page, job(state="failed", error=error))
    page.wait_text("#verdict", "ValueError")
    assert page.script("return document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("node,offers", [
    ({"state": "lost", "silent": True}, "Forget"),
    ({"state": "disabled", "disabled": True, "silent": True}, "Forget"),
    ({"state": "disabled", "disabled": True, "silent": False}, "Enable"),
    ({"state": "draining", "drained": True, "silent": False}, "Enable")])
def test_what_is_offered_for_a_node(loaded, node, offers):
    """A disabled one whose host is gone could only be enabled, which brings nothing back."""
    asked = f"m.NodesTable.prototype.actionOf.call({{actButton: (t) => t}}, {json.dumps(node)})"
    assert call(loaded, "/js/views/nodes/table.js", asked) == offers
