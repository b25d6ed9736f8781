"""The link that the service prints signs a browser in, once."""
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
