"""The page of people: for admins alone, tokens and owners."""
from page import as_operator
from service import spec, until


def test_an_admin_issues_a_token_and_revokes_it(page, service):
    name = "ada-" + page.driver.session_id[:6]
    page.click(".to-people")
    page.wait_text("h1", "People")
    page.wait_text(".tokens-table tbody", "token file")
    page.type("#token-name", name + "\n")
    page.wait_text(".made", "shown this one time")
    token = page.script("return document.querySelector('.made code').textContent")
    page.wait_text(".tokens-table tbody", name)
    listed = service.get("tokens").json()["tokens"]
    assert [t["role"] for t in listed if t["name"] == name] == ["viewer"]
    assert token not in page.script("return document.querySelector('.tokens-table').textContent")
    row = f"//tr[td[text()='{name}']]"
    page.driver.find_element("xpath", row + "//button[text()='Revoke']").click()
    page.driver.find_element("xpath", row + "//button[contains(@class, 'danger')]").click()
    until("it is revoked", lambda: name not in [t["name"] for t in
                                                service.get("tokens").json()["tokens"]])
    until("it is gone from the page", lambda: name not in page.script(
        "return document.querySelector('.tokens-table').textContent"))
    page.check_console()


def test_a_name_that_is_refused_is_told(page):
    page.click(".to-people")
    page.wait_text("h1", "People")
    page.type("#token-name", "   \n")
    page.wait_text(".fault", "expected the name of its holder")


def test_what_owners_have_is_listed(page, service):
    id = service.submit(spec(epochs=1))
    service.wait(id, "succeeded")
    page.click(".to-people")
    page.wait_text(".owners-table tbody", "admin")
    page.wait_text(".owners-table tbody", "none")


def test_nobody_else_sees_it_in_the_menu(driver, service):
    assert not as_operator(driver, service).visible(".to-people")
