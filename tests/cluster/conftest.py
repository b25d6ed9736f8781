"""One rack for all tests of this suite: a hub and four hosts with unequal shares of a core, and an
empty place for a fifth."""
import contextlib
import shutil
import sys

import pytest

from rack import QUOTAS, TESTS, Hub, Machine, states, until, wired


@pytest.fixture(scope="session")
def net():
    with wired(*QUOTAS, "guest") as made:
        # what every machine with Docker has: the same address everywhere, which leads to nobody
        for host in made.hosts.values():
            host.run("ip", "link", "add", "docker0", "type", "bridge")
            host.run("ip", "address", "add", "172.17.0.1/16", "dev", "docker0")
            host.run("ip", "link", "set", "docker0", "up")
        yield made


@pytest.fixture(scope="session")
def hub(net):
    with Hub(net["hub"]) as made:
        yield made


@pytest.fixture(scope="session")
def machines(net, hub):
    with contextlib.ExitStack() as stack:
        made = {name: stack.enter_context(Machine(hub, net[name], cores))
                for name, cores in QUOTAS.items()}
        until("all nodes are ready", lambda: [states(hub).get(n) for n in QUOTAS] == ["ready"]
              * len(QUOTAS))
        yield made


@pytest.fixture(scope="session")
def page(net, hub):
    """The page in a browser on the hub, or None where there is no browser. As long as it is open
    the tests' thread is on the hub too: what selenium asks the browser goes there."""
    sys.path.append(str(TESTS / "browser"))
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        yield None
        return
    try:
        from page import Page, start
    except ImportError:
        yield None
        return
    with net["hub"]:
        browser, profile = start(chromium, driver)
        try:
            shown = Page(browser, hub)
            shown.sign_in()
            yield shown
            shown.check_console()
        finally:
            browser.quit()
            shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture(autouse=True)
def free(request, hub):
    """No test leaves a job to the next; what everybody said is shown with a failure."""
    before = request.session.testsfailed
    yield
    if request.session.testsfailed > before:
        print(hub.text()[-6000:])
        for log in hub.dir.glob("agent-*.log"):
            print(f"{log.name}:\n{log.read_text()[-1500:]}")
    for job in hub.get("jobs").json()["jobs"]:
        if job["state"] not in ("succeeded", "failed", "cancelled"):
            hub.post(f"jobs/{job['id']}/cancel")
            hub.wait(job["id"], "cancelled")
