"""What users name is text, wherever it is shown; the page runs no script but its own."""
import os
import signal

from service import ranks_of, spec, until

EVIL = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>"


def test_script_in_a_job_name_is_shown_as_text_everywhere(page, service):
    job = service.submit(spec(name=EVIL, epochs=1))
    service.wait(job, "succeeded")
    page.open("/")
    page.wait_text("main", "<img src=x")
    page.open_job(job)
    assert page.text("h1") == EVIL
    page.open("/compare?runs=" + job)
    page.wait_text(".run-card", "<img src=x")
    page.open("/new?from=" + job)
    page.wait_text("h1", "<img src=x")
    page.wait_text(".editor .back", "onerror")
    assert page.script("return window.hacked") is None
    assert page.script("return document.querySelectorAll('main img, main script').length") == 0


def test_a_failed_job_says_its_cause(page, service):
    job = service.submit(
        spec(name="killed", max_restarts=0, epochs=5000,
             data={"format": "glyphs", "samples": 20000, "test_samples": 100}))
    service.steps(job, 3)
    ranks = ranks_of(job)
    assert 2 in ranks, "the keeper is not running"
    page.open_job(job)
    os.kill(ranks[2], signal.SIGKILL)  # the keeper, whom the attempt needs
    page.wait_text(".job-head .pill", "Failed")
    page.wait_text("#verdict", "was lost|failed")
    page.wait_text(".first-error", "First error")


def test_an_address_that_is_nothing_says_so(page):
    page.open("/jobs/0123456789abcdef")
    page.wait_text("main h1", "Not found")
    page.open("/nowhere")
    page.wait_text("main", "nothing at this address")
    until("there is a way back", lambda: page.all('main a[href="#/"]'))
