"""The form, made of the catalogue: the same job on both sides, errors at their fields and lines,
then a job that runs."""
import json
import re

from service import until


def open_form(page):
    page.open("/new")
    page.wait_for("#json")
    page.wait_text(".json-state", "valid|error")


def spec_of(page):
    return json.loads(page.script("return document.getElementById('json').value"))


def fault(page, pointer):
    return page.text(f'.field[data-pointer="{pointer}"] .fault')


def test_form_and_json_are_the_same_job(page):
    open_form(page)
    page.type(page.field("/epochs"), "7")
    assert spec_of(page)["epochs"] == 7
    page.choose("/strategy/type", "asgd")
    assert spec_of(page)["strategy"] == {"type": "asgd"}
    page.wait_for('.field[data-pointer="/strategy/weighting"] select')
    page.script(
        "const a = document.getElementById('json'); a.value = a.value.replace('\"epochs\": 7', "
        "'\"epochs\": 9'); a.dispatchEvent(new Event('input'))")
    until("the form has what the JSON has",
          lambda: page.find(page.field("/epochs")).get_attribute("value") == "9")


def test_the_form_offers_what_the_catalogue_has(page, service):
    open_form(page)
    catalog = service.get("catalog").json()
    for pointer, kind in (("/strategy/type", "strategy"), ("/optimizer/type", "optimizer"),
                          ("/data/format", "format"), ("/model", "preset"),
                          ("/batching/policy", "batching")):
        offered = page.script(
            "return [...document.querySelectorAll(arguments[0])].map(o => o.value)",
            f'.field[data-pointer="{pointer}"] option')
        assert set(offered) >= {e["name"] for e in catalog[kind]}, pointer


def test_every_error_stands_at_its_field_and_its_line_and_goes_when_it_is_right(page):
    open_form(page)
    page.type(page.field("/epochs"), "many")
    page.type(page.field("/optimizer/learning_rate"), "-1")
    page.wait_text('.field[data-pointer="/epochs"] .fault', "whole number")
    page.wait_text('.field[data-pointer="/optimizer/learning_rate"] .fault', "from 0")
    page.wait_text(".json-state", "2 errors")
    marked = page.script(
        "return [...document.querySelectorAll('.editor .bad-line')].map(l => l.textContent)")
    assert any("epochs" in line for line in marked) and any(
        "learning_rate" in line for line in marked), marked
    assert page.find(page.field("/epochs")).get_attribute("aria-invalid") == "true"
    assert not page.find("#submit").is_enabled()
    page.type(page.field("/epochs"), "2")
    until("the first error is gone", lambda: fault(page, "/epochs") == "")
    assert fault(page, "/optimizer/learning_rate")
    page.type(page.field("/optimizer/learning_rate"), "0.05")
    page.wait_text(".json-state", "^valid")
    assert page.find("#submit").is_enabled()


def test_an_unknown_key_is_listed_with_the_nearest_name(page):
    open_form(page)
    page.script(
        "const a = document.getElementById('json'); const s = JSON.parse(a.value); s.epoch = 3; "
        "a.value = JSON.stringify(s, null, 2); a.dispatchEvent(new Event('input'))")
    page.wait_text(".fault-list", "/epoch.*did you mean 'epochs'")
    page.script(
        "const a = document.getElementById('json'); a.value = a.value.replace('{', '{,'); "
        "a.dispatchEvent(new Event('input'))")
    page.wait_text(".fault-list", "line 1")


def test_the_dry_run_says_where_the_job_would_run(page):
    open_form(page)
    page.wait_text(".expect-body", "fast-1")
    assert re.search(r"First minibatch", page.text(".expect-body"))
    page.type(page.field("/workers"), "9")
    page.wait_text('.field[data-pointer="/workers"] .fault', "it asks for 9 workers")


def test_a_warning_stands_at_its_field_and_does_not_hinder(page):
    open_form(page)
    page.choose("/data/format", "glyphs")
    page.type(page.field("/data/samples"), "2000")
    page.type(page.field("/batching/global_batch"), "100000")
    field = '.field[data-pointer="/batching/global_batch"]'
    page.wait_text(field + " .fault[data-tone=warn]", "^The training set has 2000 samples")
    assert not page.all(field + ".bad") and page.find("#submit").is_enabled()
    assert page.find(page.field("/batching/global_batch")).get_attribute("aria-invalid") == "false"
    assert not page.all(".expect-body .notice"), "the field says it"
    page.type(page.field("/batching/global_batch"), "none")
    page.wait_text(field + " .fault[data-tone=bad]", "number")
    page.type(page.field("/batching/global_batch"), "2000")
    until("the warning is gone", lambda: fault(page, "/batching/global_batch") == "")


def test_a_job_submitted_from_the_form_runs_to_its_end(page, service):
    open_form(page)
    page.type(page.field("/name"), "from the form")
    page.choose("/model", "mlp")
    page.choose("/data/format", "glyphs")
    page.type(page.field("/data/samples"), "2000")
    page.type(page.field("/data/test_samples"), "200")
    page.type(page.field("/epochs"), "2")
    page.type(page.field("/batching/global_batch"), "64")
    page.wait_text(".json-state", "^valid")
    page.click("#submit")
    until("the job's page is shown", lambda: "#/jobs/" in page.driver.current_url)
    page.wait_text("h1", "from the form")
    page.wait_text(".job-head .pill", "Succeeded", 120)
    page.wait_text("#verdict", "reached .* test accuracy")
    made = service.get("jobs", params={"q": "from the form"}).json()["jobs"][0]
    assert made["spec"]["data"]["samples"] == 2000 and made["state"] == "succeeded"
    page.script("document.getElementById('artifacts').open = true")
    page.wait_text("#artifacts", "model.safetensors")


def test_the_dry_run_predicts_every_strategy_once_the_nodes_are_measured(page, service):
    measured = service.submit({
        "name": "measured", "model": "mlp",
        "data": {"format": "glyphs", "samples": 2000, "test_samples": 200}, "epochs": 2,
        "workers": 4, "batching": {"global_batch": 64}, "strategy": {"type": "sync"}})
    service.wait(measured, "succeeded")
    page.open("/new?from=" + measured)
    page.wait_text(".prediction", "sync \\(chosen\\)")
    rows = page.script(
        "return [...document.querySelectorAll('.prediction tbody tr')].map((r) => "
        "[...r.cells].map((c) => c.innerText))")
    by_name = {r[0]: r for r in rows}
    assert len(rows) > 3 and "asgd" in by_name and rows[0][0] == "sync (chosen)"
    assert all(re.match(r"[\d,]+$", r[2]) and int(r[2].replace(",", "")) > 0 for r in rows), rows
    assert float(by_name["asgd"][4]) > 0 and by_name["sync (chosen)"][4] in (
        "none", "0.0"), "only asynchronous gradients are stale"
    assert {"dbs-sgd", "hpsgd", "softsync", "ssp", "local-sgd"} <= set(by_name)
    within = page.script(
        "return [...document.querySelectorAll('.prediction tbody .interval')].every((i) => {"
        "  const [range, dot] = [...i.children].map((e) => e.getBoundingClientRect());"
        "  const at = dot.left + dot.width / 2;"
        "  return range.left - 1 <= at && at <= range.right + 1; })")
    assert within, "the median is within its interval"
    assert page.text("#recommendation").split()[0].rstrip(",") in {r[0].split()[0] for r in rows}
    page.script("[...document.querySelectorAll('.prediction tbody tr')]"
                ".find((r) => r.innerText.startsWith('asgd')).querySelector('input').click()")
    until("the strategy is chosen", lambda: spec_of(page)["strategy"] == {"type": "asgd"})
    page.wait_text(".prediction", "asgd \\(chosen\\)")


def test_a_job_can_be_cloned(page, service):
    job = service.get("jobs").json()["jobs"][0]
    page.open("/new?from=" + job["id"])
    page.wait_text("h1", "New job from")
    assert spec_of(page)["name"] == job["name"]
