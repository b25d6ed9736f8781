"""The page of the audit: for admins alone, with what was done."""
from page import as_role
from test_canned import phone  # noqa: F401  (a fixture)


def test_an_admin_reads_what_was_changed_and_by_whom(page, service):
    name = "drained-" + page.driver.session_id[:6]
    assert service.post(f"nodes/{name}/drain").status_code == 404
    page.click(".to-audit")
    page.wait_text("h1", "Audit")
    page.wait_text(".audit-table tbody", f"POST /api/v1/nodes/{name}/drain")
    page.wait_text(".audit-table tbody", "admin, admin")
    page.wait_text(".audit-table tbody", "404 refused")
    page.type("#audit-who", "nobody-of-this-name\n")
    page.wait_text(".audit-table tbody", "There is no entry")
    page.check_console()


def test_nobody_else_sees_it_in_the_menu(driver, service):
    assert not as_role(driver, service, "operator").visible(".to-audit")


def test_a_phone_shows_each_answer(page, phone):  # noqa: F811
    """It was behind a scroll."""
    phone(390)
    page.click(".menu-button")
    page.click(".to-audit")
    page.wait_text(".audit-table tbody", "POST /api/v1/link")
    assert page.script("""return Math.max(...[...document.querySelectorAll('.audit-table td')].map(
        (td) => td.getBoundingClientRect().right))""") <= 390
    assert page.visible(".audit-table td:last-child")
