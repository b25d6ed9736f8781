"""The form of a sweep: form and JSON are the same sweep, errors at their fields, what there would
be, and a sweep that starts."""
import json

import pytest

from service import spec, until
from test_axe import FOUND, findings

RATE = "/optimizer/learning_rate"


@pytest.fixture(scope="module")
def job(service):
    """A virtual one, whose sweep takes no node."""
    id = service.submit(spec(
        name="base", workers=1, epochs=1,
        data={"format": "glyphs", "samples": 256, "test_samples": 64},
        cluster={"nodes": [{"name": "v", "seconds_per_sample": 0.001}]}))
    service.wait(id, "succeeded")
    return id


@pytest.fixture
def form(page, job):
    page.open("/sweeps/new?from=" + job)
    page.wait_for("#json")
    page.wait_text(".json-state", "^valid$")
    return page


def sweep_of(page):
    return json.loads(page.script("return document.getElementById('json').value"))


def test_what_there_would_be_follows_the_form_and_the_sweep_starts(form, service):
    page = form
    rate = sweep_of(page)["spec"]["optimizer"]["learning_rate"]
    assert sweep_of(page)["parameters"] == [{"pointer": RATE, "values": [rate / 4, rate / 2, rate]}]
    page.wait_text("#sweep-plan", "^3 trials, 3 jobs.$")
    page.type(page.field("/parameters/0/values"), "0.01, 0.05")
    page.click("#add-setting")
    page.wait_for(page.field("/parameters/1/pointer"))
    page.type(page.field("/parameters/1/pointer"), "/batching/global_batch")
    page.type(page.field("/parameters/1/values"), "16, 32")
    page.wait_text("#sweep-plan", "^4 trials, 4 jobs.$")
    assert sweep_of(page)["parameters"] == [
        {"pointer": RATE, "values": [0.01, 0.05]},
        {"pointer": "/batching/global_batch", "values": [16, 32]}]
    assert [e.text for e in page.all(".sweep-plan tbody tr:first-child td")] == ["1", "0.01", "16"]
    page.type(page.field("/parallel"), "4")
    until("the text has it", lambda: sweep_of(page)["parallel"] == 4)
    page.wait_text(".json-state", "^valid$")
    page.click("#start")
    page.wait_for("#sweep-sentence")
    id = page.script("return location.hash").rsplit("/", 1)[1]
    made = service.get("sweeps/" + id).json()
    assert made["name"] == "base-sweep" and made["counts"]["trials"] == 4
    until("it has ended", lambda: service.get("sweeps/" + id).json()["finished"])


def test_a_range_and_a_halving_are_given_and_removed(form):
    page = form
    page.choose("/parameters/0/scale", "log")
    page.wait_for(page.field("/parameters/0/range"))
    page.type(page.field("/parameters/0/range"), "0.001, 0.1")
    page.type(page.field("/parameters/0/steps"), "3")
    page.wait_text("#sweep-plan", "^3 trials, 3 jobs.$")
    assert sweep_of(page)["parameters"] == [
        {"pointer": RATE, "range": [0.001, 0.1], "scale": "log", "steps": 3}]
    assert not page.visible('.field[data-pointer="/method/trials"]')
    page.choose("/method/type", "random")
    page.type(page.field("/method/trials"), "5")
    page.wait_text("#sweep-plan", "^5 trials, 5 jobs.$")
    page.choose("/method/type", "grid")
    page.choose("/parameters/0/scale", "values")
    page.wait_for(page.field("/parameters/0/values"))
    assert sweep_of(page)["parameters"] == [{"pointer": RATE, "values": [0.001, 0.1]}]
    page.click(".sweep-setting button")
    page.wait_text(".json-state", "error")
    assert sweep_of(page)["parameters"] == [] and not page.all(".sweep-setting")


def test_every_error_stands_at_its_field_and_its_line(form):
    page = form
    page.type(page.field("/parameters/0/values"), "0.1, -1")
    page.wait_text('.field[data-pointer="/parameters/0/values"] .fault', "[Tt]rial 2")
    page.type(page.field("/seeds"), "many")
    page.wait_text('.field[data-pointer="/seeds"] .fault', "number")
    assert page.all(".editor .bad-line")
    assert page.find("#start").get_attribute("disabled") and not page.visible("#sweep-plan")


def test_it_is_reached_from_the_list_fits_every_width_and_has_no_finding(page, job):
    page.open("/sweeps")
    page.wait_for('a[href="#/sweeps/new"]')
    page.click('a[href="#/sweeps/new"]')
    page.wait_text("h1", "^New sweep$")
    page.wait_text(".json-state", "valid|error")
    try:
        for width, theme in ((1440, "light"), (390, "dark")):
            page.resize(width)
            page.script("window.evenstepTheme.set(arguments[0])", theme)
            assert page.script("return document.documentElement.scrollWidth") <= width
            if FOUND:
                assert findings(page) == []
    finally:
        page.script("window.evenstepTheme.set('auto')")
        page.resize_back()
