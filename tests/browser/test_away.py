"""The service goes away and comes back: the page says so, keeps what it has, and reads what it
missed."""
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


@pytest.mark.parametrize("file", ["/js/format.js", "/js/app.js", "/css/base.css"])
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
    block(driver, "*/js/format.js")
    driver.get(page.link())
    driver.execute_script("sessionStorage.setItem('evenstep.reloads', '4')")
    page.wait_for("#not-loaded")
    driver.refresh()
    page.wait_text("#not-loaded", r"did not load\.\s*Try again$")
    block(driver)
    page.click("#not-loaded button")
    page.wait_for("#new-job")
    assert driver.execute_script("return sessionStorage.getItem('evenstep.reloads')") == "0"


def test_a_view_that_did_not_load_is_loaded_with_the_page(driver, blocking):
    page = blocking
    page.sign_in()
    block(driver, "*/js/views/nodes/view.js")
    page.open("/nodes")
    page.wait_text("main", "a part of it did not load")
    block(driver)
    page.click(".failure button")
    page.wait_text("main", "fast-1")
