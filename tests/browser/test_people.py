"""The page of people: for admins alone, tokens and owners."""
import pytest

from page import as_role
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


def test_a_phone_shows_the_button_that_revokes_and_names_the_dates(page, service):
    """The button was behind a scroll."""
    service.post("tokens", {"name": "phoebe", "role": "viewer"})
    page.click(".to-people")
    page.wait_text(".tokens-table tbody", "phoebe")
    assert "Ends never" not in page.text(".tokens-table"), "the head says so"
    page.resize(390, mobile=True)
    try:
        for _ in ("the button", "the question"):
            assert page.script("""return Math.max(...[...document.querySelectorAll(
                '.tokens-table td')].map((td) => td.getBoundingClientRect().right))""") <= 390
            page.wait_text(".tokens-table", "Ends never")
            page.click(".tokens-table button")
    finally:
        page.resize_back()


def test_a_name_that_is_refused_is_told(page):
    page.click(".to-people")
    page.wait_text("h1", "People")
    page.type("#token-name", "   \n")
    page.wait_text(".fault", "expected the name of its holder")


@pytest.mark.parametrize("days", ["", "-1", "3661", "1.5"])
def test_days_that_are_none_issue_no_token(page, service, days):
    """Without a number the token had no end."""
    page.click(".to-people")
    page.wait_text("h1", "People")
    page.type("#token-name", "nobody")
    page.type("#token-days", days)
    page.click(".issue button")
    assert page.script("return document.querySelector('#token-days').validationMessage")
    assert page.find("#token-name").get_attribute("value") == "nobody"
    assert "nobody" not in [t["name"] for t in service.get("tokens").json()["tokens"]]


def test_a_refusal_is_told_once(page):
    """What was wrong stood in the sentence, and again behind it."""
    page.click(".to-people")
    page.wait_text("h1", "People")
    page.type("#token-name", "e\u202evil\n")
    page.wait_text(".fault", "a control character")
    assert page.text(".fault").count("a control character") == 1


def test_what_owners_have_is_listed(page, service):
    id = service.submit(spec(epochs=1))
    service.wait(id, "succeeded")
    page.click(".to-people")
    page.wait_text(".owners-table tbody", "admin")
    page.wait_text(".owners-table tbody", "none")


def test_nobody_else_sees_it_in_the_menu(driver, service):
    assert not as_role(driver, service, "operator").visible(".to-people")


CHANGES = ["#new-job", "a[href^='#/new']", "#delete", "#edit-labels", "#remedy",
           ".nodes-table .btn", "a[href='#/sweeps/new']"]


@pytest.mark.parametrize("role, lacks", [("viewer", CHANGES), ("operator", [])])
def test_nothing_is_offered_that_a_role_may_not_do(driver, service, role, lacks):
    """A viewer was offered new jobs, to clone, to delete and to drain, and each was refused."""
    id = service.submit(spec(epochs=1))
    service.wait(id, "succeeded")
    page = as_role(driver, service, role)
    shown = set()
    for route, ready in (("/jobs/" + id, "#job-actions a"), ("/nodes", ".nodes-table tbody tr"),
                         ("/sweeps", "h1")):
        page.open(route)
        page.wait_for(ready)
        shown |= {css for css in CHANGES if page.visible(css)}
    assert shown & set(lacks) == set(), shown
    assert lacks or {"#new-job", "#delete", "#edit-labels", ".nodes-table .btn"} <= shown, shown


@pytest.mark.parametrize("role, offered", [("operator", False), ("programs", True)])
def test_who_may_not_bring_programs_is_not_asked_for_one(driver, service, role, offered):
    page = as_role(driver, service, role)
    page.open("/new")
    page.wait_for("#submit")
    assert bool(page.visible("button:has(+ #program-folder)")) is offered


def test_a_job_of_somebody_else_is_not_offered_to_be_deleted(driver, service):
    page = as_role(driver, service, "operator")
    for owner, offered in (("admin", True), ("ada", False), (None, False)):
        page.script("import('/js/service/rights.js').then((m) => { window.mine = "
                    "m.mayChangeThis({owner: arguments[0]}); })", owner)
        until(f"{owner} is judged", lambda: (
            page.script("return window.mine") is offered))  # noqa: B023
