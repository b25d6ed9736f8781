"""A form that somebody leaves, reloads, breaks or sends twice: nothing that was typed is lost, and
nothing is made twice."""
import json

import pytest

from service import spec, until
from test_submit import fault, open_form, spec_of


def named(page):
    return page.find(page.field("/name")).get_attribute("value")


def kept(page, name):
    until("the browser keeps the text", lambda: name in page.script(
        "return (history.state || {}).draft || ''"))


def test_what_was_typed_is_there_after_a_way_back_and_a_reload(page):
    open_form(page)
    page.type(page.field("/name"), "typed for long")
    kept(page, "typed for long")
    page.open("/nodes")
    page.wait_for(".node-table, main table")
    page.driver.back()
    page.wait_for("#json")
    assert named(page) == "typed for long"
    page.driver.refresh()
    page.wait_for("#json")
    assert named(page) == "typed for long" and spec_of(page)["name"] == "typed for long"
    page.open("/")
    page.click("#new-job")
    page.wait_for("#json")
    assert named(page) == "my-job", "a new one begins anew"


def test_a_session_that_ends_while_somebody_types_loses_nothing(page, service):
    open_form(page)
    page.type(page.field("/name"), "before the end")
    kept(page, "before the end")
    page.forget()
    page.type(page.field("/epochs"), "8")
    page.wait_text("main", "session has ended")
    page.type("#token", service.token)
    page.click(".sign-in button")
    page.wait_for("#json")
    assert named(page) == "before the end" and spec_of(page)["epochs"] == 8


def test_the_form_waits_while_its_json_cannot_be_read(page):
    """A change there would take the place of all that was pasted."""
    open_form(page)
    text = json.dumps(spec(name="pasted"))
    write = ("const a = document.getElementById('json'); a.value = arguments[0]; "
             "a.dispatchEvent(new Event('input'))")
    page.script(write, text + ",")
    page.wait_text(".form-waits", "waits until its JSON can be read")
    assert page.script("return document.querySelector('.submit-grid > :first-child').inert")
    page.script(write, text)
    until("the form has the text", lambda: named(page) == "pasted")
    assert not page.script("return document.querySelector('.submit-grid > :first-child').inert")


@pytest.mark.parametrize("pointer, typed", [
    ("/optimizer/learning_rate", "1e400"), ("/optimizer/learning_rate", "1e-400"),
    ("/seed", "9007199254740993"), ("/seed", "1e20"), ("/seed", "18446744073709551616")])
def test_a_number_that_the_browser_cannot_hold_is_an_error_at_its_field(page, pointer, typed):
    """They went to the service as null, 0 or another number, or broke the JSON."""
    open_form(page)
    page.script("document.querySelectorAll('details').forEach((d) => { d.open = true })")
    page.type(page.field(pointer), typed)
    until("its field says so", lambda: "number from 0" in fault(page, pointer))
    assert not page.find("#submit").is_enabled()


def test_a_job_whose_answer_was_lost_is_not_made_twice(page, service):
    """The service has it, but the browser's connection broke before the answer came."""
    open_form(page)
    page.script("""
        const a = document.getElementById('json'), fetched = window.fetch;
        a.value = arguments[0];
        a.dispatchEvent(new Event('input'));
        window.fetch = async (path, options) => {
            const answer = await fetched(path, options);
            if (options.method === 'POST' && path.endsWith('/jobs')) {
                window.fetch = fetched;
                throw new TypeError('network');
            }
            return answer;
        };""", json.dumps(spec(name="sent once")))
    page.wait_text(".json-state", "^valid")
    page.click("#submit")
    page.wait_text(".submit-foot [role=alert]", "not known")
    page.click("#submit")
    until("the job's page is shown", lambda: "#/jobs/" in page.driver.current_url)
    made = service.get("jobs", params={"q": "sent once"}).json()["jobs"]
    assert len(made) == 1 and made[0]["id"] in page.driver.current_url


def test_a_check_that_could_not_be_made_is_made_again(page):
    """The form said "not checked" for ever, unless somebody typed."""
    open_form(page)
    page.script("""
        const fetched = window.fetch;
        window.fetch = async (path, options) => {
            if (!String(path).endsWith('dryRun=true')) {
                return fetched(path, options);
            }
            window.fetch = fetched;
            return new Response('{"detail": "the check did not answer within 5 s"}', {status: 504});
        };""")
    page.type(page.field("/name"), "busy")
    page.wait_text(".json-state", "not checked yet; the service is asked again")
    page.wait_text(".fault-list", "did not answer within 5 s")
    assert page.find("#submit").is_enabled()
    page.wait_text(".json-state", "^valid")


@pytest.fixture(params=[3, -3])
def hours_off(request, page):
    """The browser's clock is so many hours before the service's."""
    source = f"""
        const real = Date, off = {request.param} * 3600e3;
        window.Date = class extends real {{
            constructor(...args) {{ args.length ? super(...args) : super(real.now() + off); }}
            static now() {{ return real.now() + off; }}
        }};"""
    made = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
    page.driver.refresh()
    page.wait_for("#new-job")
    yield page
    page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)
    page.driver.get("about:blank")


def test_times_are_those_of_the_service_where_the_browsers_clock_is_wrong(hours_off, service):
    page = hours_off
    id = service.submit(spec(name="clock", epochs=4000))
    service.steps(id, 100)
    page.open_job(id)
    page.wait_text("main", r"running for \d+\ss")
    page.wait_text("main", "ends about")
    began, ends = page.script("""
        const text = document.querySelector('main').innerText;
        const of = (word) => new RegExp(word + ' (\\\\d+):(\\\\d+)').exec(text).slice(1);
        return ['started', 'ends about'].map((w) => of(w)[0] * 60 + +of(w)[1])""")
    assert (ends - began) % (24 * 60) < 120
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")
