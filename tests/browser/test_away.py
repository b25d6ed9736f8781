"""The service goes away and comes back: the page says so, keeps what it has, and reads what it
missed."""
import signal

import pytest

from page import Page
from service import BUILD, Service, free_port, spec, until


@pytest.fixture
def fixed():
    if not (BUILD / "evenstep").exists():
        pytest.skip("evenstep is not built")
    with Service(options=("--listen", f"127.0.0.1:{free_port()}")) as s:
        yield s


def test_a_page_outlives_a_restart_of_the_service(driver, fixed):
    job = fixed.submit(spec(name="before", epochs=1))
    fixed.wait(job, "succeeded")
    page = Page(driver, fixed)
    page.sign_in()
    page.wait_text("main", "before")
    fixed.kill()
    page.wait_text("#banner", "No answer from the service since")
    assert "before" in page.text("main")
    fixed.start()
    page.wait_text("#banner", "Back since")
    fixed.wait(fixed.submit(spec(name="after", epochs=1)), "succeeded")
    page.wait_text("main", "after")


def test_a_service_that_hangs_is_away_though_its_connections_stand(driver, fixed):
    """Its process is stopped: nothing ends, and nothing comes."""
    page = Page(driver, fixed)
    page.sign_in()
    fixed.process.send_signal(signal.SIGSTOP)
    try:
        page.wait_text("#banner", "No answer from the service since")
    finally:
        fixed.process.send_signal(signal.SIGCONT)
    page.wait_text("#banner", "Back since")
    fixed.submit(spec(name="behind the silence", epochs=1))
    page.wait_text("main", "behind the silence")


def block(driver, *urls):
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": list(urls)})


@pytest.fixture
def blocking(driver, service):
    """The page, with files that do not load until the test lets them."""
    page = Page(driver, service)
    driver.get("about:blank")
    page.forget()
    yield page
    block(driver)
    driver.get("about:blank")
    driver.get_log("browser")  # it has the failures that were wanted


@pytest.mark.parametrize("file", ["/js/text/format.js", "/js/app.js", "/css/base.css"])
def test_a_page_of_which_a_part_did_not_load_says_so_and_comes_by_itself(driver, blocking, file):
    page = blocking
    block(driver, f"*{file}")
    driver.get(page.link())
    page.wait_text("#not-loaded", "A part of this page did not load")
    block(driver)
    page.wait_for("#new-job")
    until("nothing is said any more", lambda: not page.all("#not-loaded"))


def test_a_page_that_never_loads_whole_leaves_it_to_the_person(driver, blocking):
    page = blocking
    block(driver, "*/js/text/format.js")
    driver.get(page.link())
    driver.execute_script("sessionStorage.setItem('evenstep.reloads', '4')")
    page.wait_for("#not-loaded")
    driver.refresh()
    page.wait_text("#not-loaded", r"did not load\.\s*Try again$")
    block(driver)
    page.click("#not-loaded button")
    page.wait_for("#new-job")
    until("tries are counted anew",
          lambda: driver.execute_script("return sessionStorage.getItem('evenstep.reloads')") == "0")


def test_a_view_that_did_not_load_comes_with_the_page_by_itself(driver, blocking):
    page = blocking
    page.sign_in()
    block(driver, "*/js/views/nodes/view.js")
    page.open("/nodes")
    page.wait_text("main", "a part of it did not load")
    page.wait_text("#not-loaded", "It is loaded again in a moment")
    block(driver)
    page.wait_text("main", "fast-1")


def test_a_view_that_never_loads_is_left_to_the_person(driver, blocking):
    page = blocking
    page.sign_in()
    block(driver, "*/js/views/nodes/view.js")
    driver.execute_script("sessionStorage.setItem('evenstep.reloads', '4')")
    page.open("/nodes")
    page.wait_text("#not-loaded", r"did not load\.\s*Try again$")
    block(driver)
    page.click(".failure button")
    page.wait_text("main", "fast-1")


BROKEN_ONCE = """
const real = window.fetch;
window.fetch = (url, options) => {
    if (String(url).startsWith(arguments[0])) {
        window.fetch = real;
        return Promise.reject(new TypeError('Failed to fetch'));
    }
    return real(url, options);
};
"""


def test_what_no_answer_came_for_is_asked_for_again(page):
    """Chromium ends requests under way when an interface of its computer comes or goes."""
    page.script(BROKEN_ONCE, "/api/v1/audit")
    page.open("/audit")
    page.wait_text("main", "by admin|admin")
