"""Modules without page: their functions are called inside the browser with values, and the answers compared."""
import json

import pytest


def call(page, module, expression):
    """The value of an expression over the module `m`."""
    return page.driver.execute_async_script(
        f"const done = arguments[arguments.length - 1]; import('{module}').then(m => done({expression})).catch(e => done('error: ' + e))")


NARROW = "\u202f"


@pytest.mark.parametrize("expression, wanted", [
    ("m.seconds(0.0823)", f"82{NARROW}ms"), ("m.seconds(0.23)", f"0.23{NARROW}s"), ("m.seconds(1.154)", f"1.15{NARROW}s"), ("m.seconds(0.0004)", f"0.40{NARROW}ms"), ("m.seconds(6540)", f"1{NARROW}h 49{NARROW}min"),
    ("m.seconds(NaN)", "none"), ("m.duration(840)", f"14{NARROW}min"), ("m.duration(72)", f"1{NARROW}min 12{NARROW}s"), ("m.three(0.1494)", "0.149"), ("m.three(444.4)", "444"), ("m.three(17736.2)", "17,736"), ("m.three(0)", "0"),
    ("m.percent(0.9312)", f"93.1{NARROW}%"), ("m.loss(0.1491)", "0.149"), ("m.loss(1.7349)", "1.73"), ("m.bytes(134217728)", f"134{NARROW}MB"), ("m.bytes(12)", f"12{NARROW}B"), ("m.tick(2000)", f"2{NARROW}k"), ("m.tick(500)", "500"),
    ("m.tick(1500000)", f"1.5{NARROW}M"), ("m.times(2.83)", "2.8×"), ("m.list(['a', 'b', 'c'])", "a, b and c"), ("m.plural(1, 'node')", "1 node"), ("m.plural(4, 'node')", "4 nodes"),
])
def test_numbers_read_as_people_write_them(page, expression, wanted):
    assert call(page, "/js/format.js", expression) == wanted


@pytest.mark.parametrize("expression, wanted", [
    ("m.linearTicks(0, 100)", [0, 20, 40, 60, 80, 100]), ("m.logTicks(0.08, 3)", [0.1, 0.2, 0.5, 1, 2]), ("m.timeTicks(0, 600, 6)", [0, 120, 240, 360, 480, 600]), ("m.timeTicks(0, 150, 6)", [0, 30, 60, 90, 120, 150]), ("m.spread([10, 11, 50], 13, 0, 100)", [10, 23, 50]),
    ("m.spread([98, 99], 13, 0, 100)", [87, 100]), ("m.niceRange([0, 10], {zero: true, pad: 0.1})", [0, 11]), ("m.xLabel('time', 300, 600)", f"5{NARROW}min"),
])
def test_ticks_and_labels(page, expression, wanted):
    got = call(page, "/js/chart/scale.js", expression)
    assert got == (pytest.approx(wanted) if isinstance(wanted, list) else wanted)


def test_smoothing_starts_at_the_first_value_and_anew_at_a_cut(page):
    curve = "{x: [0, 1, 2, 3, 4, 5], mean: [10, 10, 10, 2, 2, 2]}"
    soft = call(page, "/js/chart/smooth.js", f"m.smooth({curve}, 0.8)")
    assert soft[0] == 10 and soft[2] == pytest.approx(10) and 2 < soft[3] < 10
    assert call(page, "/js/chart/smooth.js", f"m.smooth({curve}, 0.8, [3])")[3] == pytest.approx(2)
    assert call(page, "/js/chart/smooth.js", f"m.smooth({curve}, 0)") == pytest.approx([10, 10, 10, 2, 2, 2])
    assert call(page, "/js/chart/smooth.js", "m.smooth({x: [0, 1], mean: [NaN, 3]}, 0.5)")[1] == pytest.approx(3)


def test_a_line_is_fitted_through_measured_steps(page):
    fit = call(page, "/js/chart/smooth.js", "m.fitLine([10, 20, 40], [0.12, 0.22, 0.42])")
    assert fit["a"] == pytest.approx(0.02) and fit["k"] == pytest.approx(0.01)


WORKER = "{{node: '{0}', batch: {1}, compute_seconds: {2}, exchange_seconds: 0, wait_seconds: {3}, staleness: {{mean: {4}, max: 9}}}}"


def verdict(page, job, assignments="[]"):
    return call(page, "/js/verdict.js", f"(v => ({{text: m.plain(v.parts), straggler: v.straggler || null, key: v.key}}))(m.verdict({job}, {assignments}))")


def test_the_sentence_names_who_how_much_and_what_it_gained(page):
    workers = ", ".join(WORKER.format(*w) for w in (("fast-1", 188, 1.08, 0, 3), ("fast-2", 180, 1.08, 0, 3), ("mid", 100, 1.1, 0, 3), ("slow", 44, 1.08, 0, 3)))
    job = f"{{state: 'running', spec: {{batching: {{policy: 'dynamic', global_batch: 512}}, strategy: {{type: 'asgd'}}}}, servers: [{{}}], workers: [{workers}], progress: {{}}, metrics: {{}}}}"
    moves = "[{version: 1, batches: {'fast-1': 128, slow: 128}}, {version: 2, batches: {'fast-1': 188, slow: 44}, measured_step_seconds: 3.1, predicted_step_seconds: 1.15}]"
    got = verdict(page, job, moves)
    assert got["straggler"] == "slow"
    assert got["text"] == f"slow computes 2.9× slower than the median node, so its minibatch went from 128 to 44. All four nodes now finish a step together: 1.10{NARROW}s of computing instead of 3.10{NARROW}s."


def test_equal_minibatches_are_said_to_cost_waiting(page):
    workers = ", ".join(WORKER.format(*w) for w in (("a", 100, 1.0, 1.0, 0), ("b", 100, 1.0, 1.0, 0), ("c", 100, 2.0, 0, 0)))
    got = verdict(page, f"{{state: 'running', spec: {{batching: {{policy: 'equal', global_batch: 300}}, strategy: {{type: 'sync'}}}}, servers: [], workers: [{workers}], progress: {{}}, metrics: {{}}}}")
    assert got["text"].startswith(f"c computes 2.0× slower than the median node: the others wait 50{NARROW}% of each step for it. Dynamic minibatches would make a step about 40{NARROW}% shorter.")


def test_even_nodes_failures_and_waits_have_their_sentences(page):
    workers = ", ".join(WORKER.format(*w) for w in (("a", 64, 1.0, 0, 0), ("b", 64, 1.01, 0, 0)))
    assert "about equally fast" in verdict(page, f"{{state: 'running', spec: {{batching: {{policy: 'dynamic', global_batch: 128}}}}, workers: [{workers}]}}")["text"]
    assert verdict(page, "{state: 'failed', error: {node: 'mid', message: 'memory ran out'}, progress: {step: 12}}")["text"] == "mid failed about step 12: memory ran out."
    assert verdict(page, "{state: 'queued', spec: {workers: 3}}")["text"] == "The job waits for 3 free nodes."
    assert "being measured" in verdict(page, "{state: 'running', spec: {}, workers: []}")["text"]


def test_json_is_printed_and_its_pointers_are_found_again(page):
    text = call(page, "/js/views/submit/json.js", "m.print({name: 'a', optimizer: {type: 'sgd', schedule: {type: 'step', at_epochs: [12, 30], factor: 0.1}}, epochs: 3})")
    assert json.loads(text)["optimizer"]["schedule"]["at_epochs"] == [12, 30]
    found = call(page, "/js/views/submit/json.js", f"(f => ['/name', '/optimizer/schedule/at_epochs/1', '/epochs', '/epochs/nothing'].map(p => m.lineOf(f, p)))(m.places({json.dumps(text)}))")
    lines = text.split("\n")
    assert '"name"' in lines[found[0]] and "30" in lines[found[1]] and '"epochs"' in lines[found[2]] and found[3] == found[2]
    assert call(page, "/js/views/submit/json.js", "m.setAt({a: {b: 1}}, '/a/b', undefined)") == {}
    assert call(page, "/js/views/submit/json.js", "m.setAt({}, '/a/b', 2)") == {"a": {"b": 2}}
    assert call(page, "/js/views/submit/json.js", "m.places('{broken').size >= 1") is True


@pytest.mark.parametrize("shares, wanted", [
    ([0.4], f"n0 receives the data set: 40{NARROW}% of 50.0{NARROW}MB."), ([0.8, 0.25], f"Two nodes receive the data set: 25{NARROW}% of 50.0{NARROW}MB."),
    ([], "The job is being started on 1 node."),
])
def test_the_verdict_tells_who_waits_for_its_data_set(page, shares, wanted):
    workers = [{"node": f"n{i}", "receiving": {"bytes": s * 5e7, "of_bytes": 50_000_000}} for i, s in enumerate(shares)] + [{"node": "other"}]
    job = json.dumps({"state": "launching", "workers": workers, "spec": {}})
    assert call(page, "/js/verdict.js", f"m.plain(m.verdict({job}).parts)") == wanted
