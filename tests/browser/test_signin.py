"""The link that the service prints signs a browser in, once."""
import pytest

from page import Page
from service import until


def test_a_link_signs_in_and_its_code_leaves_the_address(page):
    assert "token" not in page.driver.current_url
    assert page.driver.get_cookie(page.driver.get_cookies()[0]["name"])["httpOnly"]
    assert page.script("return document.cookie") == ""


def test_a_used_link_is_refused_with_a_way_out_and_a_token_works(driver, service):
    p = Page(driver, service)
    link = p.link()
    driver.get("about:blank")
    p.forget()
    driver.get(link)
    p.wait_for("#new-job")
    p.wait_text("h1", "rain|Nothing")
    driver.get("about:blank")
    p.forget()
    driver.get(link)
    p.wait_text("main", "used before")
    p.click(".sign-in button")
    p.wait_text(".sign-in .fault", "No token given")
    p.type("#token", "0123456789abcdef0123")
    p.click(".sign-in button")
    p.wait_text(".sign-in .fault", "Unknown token")
    p.type("#token", service.token)
    p.click(".sign-in button")
    until("the jobs are shown", lambda: p.visible("#find") or p.visible("#run-demo"))
    p.check_console()


def test_an_ended_session_asks_again_and_says_so(page):
    page.forget()
    page.open("/nodes")
    page.wait_text("main", "session has ended")
    page.wait_for("#token")


@pytest.mark.parametrize("status", [200, 401])
def test_a_sign_in_in_front_of_the_service_that_ended_is_told(page, status):
    """A proxy answers with its own page in the service's place, as nginx does with oauth2-proxy."""
    page.script("""const status = arguments[0];
        window.fetch = async () => new Response('<h1>Sign in</h1>',
            {status, headers: {'Content-Type': 'text/html'}})""", status)
    page.script("location.hash = '/nodes'")
    page.wait_text("main", r"session has ended\. Load this page again to sign in\.")
