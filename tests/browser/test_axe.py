"""No page has a finding of axe-core, which others wrote: names, roles, order, and contrast, in both
themes, on a desk and on a phone. `deploy/setup api-tools` installs it."""
import json
import os
import pathlib
import signal
import urllib.parse

import pytest

from service import ROOT, ranks_of, spec, until

TOOLS = pathlib.Path(os.environ.get("EVENSTEP_API_TOOLS", ROOT / "run/api-tools"))
FOUND = list(TOOLS.glob("lib/python*/site-packages/axe_core_python/axe.min.js"))
pytestmark = pytest.mark.skipif(not FOUND,
                                reason=f"{TOOLS} has no axe-core (deploy/setup api-tools)")
LAYERS = "/new?set=" + urllib.parse.quote(json.dumps({"/model": {"input": [28, 28, 1], "layers": [
    {"type": "conv2d", "filters": 8, "kernel": 5}, {"type": "dense", "units": 10}]}}))
FINDINGS = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ['violations']})
    .then((r) => done(r.violations.map(
        (v) => v.id + ': ' + v.nodes.map((n) => n.target.join(' ')).join(', '))))
    .catch((e) => done(['axe-core itself: ' + e]));
"""


def findings(page):
    # colours of links and buttons move to another theme's in 120 ms, and axe measures contrasts
    until("no colour moves", lambda: not page.script(
        "return document.getAnimations().some((a) => a instanceof CSSTransition)"))
    page.script(FOUND[0].read_text())
    return page.driver.execute_async_script(FINDINGS)


@pytest.fixture(scope="module")
def jobs(service):
    """Two runs that ended well, and one that lost a rank."""
    good = [service.submit(spec(name=f"good-{i}", seed=i, epochs=1)) for i in (1, 2)]
    for id in good:
        service.wait(id, "succeeded")
    bad = service.submit(spec(name="bad", epochs=5000, max_restarts=0,
                              data={"format": "glyphs", "samples": 20000, "test_samples": 100}))
    service.steps(bad, 3)
    os.kill(ranks_of(bad)[2], signal.SIGKILL)  # the keeper, whom the attempt needs
    service.wait(bad, "failed")
    return [*good, bad]


@pytest.fixture(params=[1440, 390], ids=["desk", "phone"])
def screen(request, page):
    page.resize(request.param)
    yield page
    page.script("window.evenstepTheme.set('auto')")
    page.resize_back()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_a_finding(screen, jobs, theme):
    page, (one, two, failed) = screen, jobs
    page.script("window.evenstepTheme.set(arguments[0])", theme)
    routes = {"/": "main .sheet", "/runs?fold=seeds": ".run-table tbody tr",
              f"/jobs/{one}": "#verdict", f"/jobs/{failed}": ".first-error",
              f"/new?from={one}": "#recommendation",
              LAYERS: ".layer .num", "/nodes?node=slow": "main .nodes-table",
              f"/compare?runs={one},{two}": ".run-card", "/audit": ".audit-table tbody td",
              "/people": ".tokens-table tbody td", "/sweeps": "h1"}
    for route, shown in routes.items():
        page.open(route)
        page.wait_for(shown)
        page.script("document.querySelectorAll('#layers, #load').forEach(d => { d.open = true; })")
        assert findings(page) == [], route
    page.keys("?")
    page.wait_for("dialog[open]")
    assert findings(page) == [], "the list of keys"


def test_the_sign_in_has_no_finding(screen):
    page = screen
    page.forget()
    page.driver.get(page.service.url)
    until("the sign-in is shown", lambda: page.all(".sign-in"))
    assert findings(page) == []
