"""The service goes away and comes back: the page says so, keeps what it has, and reads what it
missed."""
import pytest

from page import Page
from service import BUILD, Service, free_port, spec


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
