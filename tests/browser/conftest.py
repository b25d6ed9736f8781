"""A browser and a service for the tests of the page: headless Chromium driven by selenium, and the
real `evenstep serve` with four unequal nodes. One service and one browser serve a module; every
test looks at the console at its end: an error there, or a violation of the Content-Security-Policy,
fails it."""
import pathlib
import shutil
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "integration"), str(TESTS / "lab")]
from service import BUILD, Service  # noqa: E402

pytest.importorskip("selenium.webdriver", reason="python3-selenium is not installed")
from page import Page, start  # noqa: E402

NODES = ("fast-1=cpu:1,slowdown=4", "fast-2=cpu:1,slowdown=4", "mid=cpu:1,slowdown=8",
         "slow=cpu:1,slowdown=16")
CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")


@pytest.fixture(scope="module")
def service():
    if not (BUILD / "evenstep").exists():
        pytest.skip(f"{BUILD / 'evenstep'} is not built")
    with Service(nodes=NODES) as s:
        yield s


@pytest.fixture(scope="session")
def driver():
    if not CHROMIUM or not DRIVER:
        pytest.skip("chromium or chromium-driver is not installed")
    made, profile = start(CHROMIUM, DRIVER)
    yield made
    made.quit()
    shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture(scope="module")
def loaded(driver, service):
    """Signed in once, for tests that call functions of the page's modules and change nothing."""
    p = Page(driver, service)
    p.sign_in()
    yield p
    driver.get("about:blank")  # before its service ends


@pytest.fixture
def page(driver, service):
    """Signed in by a fresh link, on the list of jobs."""
    p = Page(driver, service)
    p.sign_in()
    yield p
    p.check_console()
