"""Modules without page: their functions are called inside the browser with values, and the answers
compared."""
import json

import pytest


@pytest.fixture
def page(loaded):
    yield loaded
    loaded.check_console()


def call(page, module, expression):
    """The value of an expression over the module `m`."""
    return page.driver.execute_async_script(
        f"const done = arguments[arguments.length - 1]; import('{module}').then(m => "
        f"done({expression})).catch(e => done('error: ' + e))")


NARROW = "\u202f"
MARKS = "/js/views/job/happened/marks.js"
NORM_ROWS = "/js/views/job/folds/normrows.js"


@pytest.mark.parametrize("expression, wanted", [
    ("m.seconds(0.0823)", f"82{NARROW}ms"), ("m.seconds(0.23)", f"0.23{NARROW}s"),
    ("m.seconds(1.154)", f"1.15{NARROW}s"), ("m.seconds(0.0004)", f"0.40{NARROW}ms"),
    ("m.seconds(6540)", f"1{NARROW}h 49{NARROW}min"),
    ("m.seconds(NaN)", "none"), ("m.duration(840)", f"14{NARROW}min"),
    ("m.duration(72)", f"1{NARROW}min 12{NARROW}s"), ("m.three(0.1494)", "0.149"),
    ("m.three(444.4)", "444"), ("m.three(17736.2)", "17,736"), ("m.three(0)", "0"),
    ("m.percent(0.9312)", f"93.1{NARROW}%"), ("m.loss(0.1491)", "0.149"),
    ("m.loss(0.0123)", "0.012"), ("m.loss(0.00334)", "0.0033"), ("m.loss(0.00034)", "0.00034"),
    ("m.loss(1.7349)", "1.73"), ("m.bytes(134217728)", f"134{NARROW}MB"),
    ("m.bytes(12)", f"12{NARROW}B"), ("m.tick(2000)", f"2{NARROW}k"), ("m.tick(500)", "500"),
    ("m.tick(1500000)", f"1.5{NARROW}M"), ("m.times(2.83)", "2.8×"),
    ("m.list(['a', 'b', 'c'])", "a, b and c"), ("m.plural(1, 'node')", "1 node"),
    ("m.plural(4, 'node')", "4 nodes"),
])
def test_numbers_read_as_people_write_them(page, expression, wanted):
    assert call(page, "/js/text/format.js", expression) == wanted


LIMITS = ["0", "-0", "1e-12", "-1e-12", "0.00049", "999.6", "123456789", "1e32", "-1e32",
          "12345678901234567890123456789012", "NaN", "Infinity", "-Infinity"]
FORMATS = ["whole", "three", "loss", "percent", "times", "seconds", "duration", "age", "bytes",
           "tick", "lossTick", "percentTick", "milliseconds", "span", "short", "plain", "mean"]


@pytest.mark.parametrize("name", FORMATS)
def test_no_number_is_longer_than_its_place_or_written_as_a_program_writes_it(page, name):
    for value in LIMITS:
        text = call(page, "/js/text/format.js", f"m.{name}({value})")
        assert len(text) <= 18 and len(text) <= (12 if name in ("three", "loss", "tick", "lossTick")
                                                 else 18), (value, text)
        assert ("e+" not in text and "NaN" not in text and "Infinity" not in text
                and not text.startswith("-")), (value, text)
        assert not text.startswith("−0") or "." in text.rstrip("0."), (value, text)
    assert call(page, "/js/text/format.js", f"m.{name}(NaN)") in ("none", "never", ""), name


@pytest.mark.parametrize("expression, wanted", [
    ("m.three(1e32)", "1.00×10³²"), ("m.three(-1e-12)", "−1.00×10⁻¹²"),
    ("m.loss(12345678901234567890123456789012)", "1.23×10³¹"), ("m.three(-0)", "0"),
    ("m.whole(-0)", "0"), ("m.whole(-0.4)", "0"),
    ("m.loss(-0)", "0"), ("m.three(Infinity)", "infinite"), ("m.lossTick(100)", "100"),
    ("m.lossTick(20)", "20"), ("m.lossTick(0.5)", "0.5"), ("m.lossTick(1000)", "1,000"),
    ("m.lossTick(1e32)", "10³²"),
    ("m.lossTick(2e-9)", "2×10⁻⁹"), ("m.lossTick(0)", "0"), ("m.percent(-0)", f"0.0{NARROW}%"),
    ("m.tick(-2000)", f"−2{NARROW}k"),
    ("m.alike(0.12, 0.07)", [f"0.120{NARROW}s", f"0.070{NARROW}s"]),
    ("m.alike(0.0098, 0.0067, 0.0002)", [f"9.80{NARROW}ms", f"6.70{NARROW}ms", f"0.20{NARROW}ms"]),
    ("[1.234, 1872, 886943, 1.2e7, 1.23e31].map((x) => m.ending(x, m.loss))",
     ["1.23", "1,872", f"887{NARROW}k", f"12{NARROW}M", "10³¹"]),
    ("[0.0000571, 0.00061, 0.0123, -0.0000571].map((x) => m.ending(x, m.loss, 1e4, 0.001))",
     ["6×10⁻⁵", "0.0006", "0.012", "−6×10⁻⁵"]),
    ("m.alike(NaN, 2)", ["none", f"2.00{NARROW}s"]),
    ("m.alike(2e-14, 1e-14)", [f"2.00×10⁻⁵{NARROW}ns", f"1.00×10⁻⁵{NARROW}ns"]),
    ("m.alike(3.1e-8, 2e-9)", [f"31.0{NARROW}ns", f"2.0{NARROW}ns"]),
    ("m.alike(0, -0)", [f"0{NARROW}s", f"0{NARROW}s"]),
    ("m.alike(-0.0001, 2)", [f"0.00{NARROW}s", f"2.00{NARROW}s"]),
    ("[9.996, 99.97, 0.09996].map(m.three)", ["10.0", "100", "0.100"]),
    ("m.bytes(999700)", f"1.00{NARROW}MB"), ("m.loss(0.9996)", "1.00"),
    ("m.mean(999.96)", "1,000"), ("[9.96, 12.4, 1234.5].map(m.times)", ["10×", "12×", "1,235×"]),
    ("[0.000012, -1.5].map(m.seconds)", [f"12{NARROW}µs", f"−1.50{NARROW}s"]),
    ("[3.14e-8, 9.96e-6, 9.96e-5, 0.00123, -2e-7].map(m.seconds)",
     [f"31{NARROW}ns", f"10{NARROW}µs", f"0.10{NARROW}ms", f"1.2{NARROW}ms", f"−0.20{NARROW}µs"]),
    ("[4e-12, 4e-14].map(m.seconds)", [f"0.0040{NARROW}ns", f"4.00×10⁻⁵{NARROW}ns"]),
])
def test_numbers_at_their_limits(page, expression, wanted):
    assert call(page, "/js/text/format.js", expression) == wanted


@pytest.mark.parametrize("lines, marks, wanted", [
    ("[]", "[]", "[22, 45]"),
    # one that runs just above the level, to the middle: behind it
    ("[[[10, 44], [150, 44], [150, 10], [310, 10]]]", "[]", "[157, 45]"),
    # the whole way: below
    ("[[[10, 44], [310, 40]]]", "[]", "[22, 63]"),
    # one that crosses the words from above to below
    ("[[[10, 0], [40, 100]], [[40, 100], [310, 100]]]", "[]", "[37, 45]"),
    # a mark alone is better than a line
    ("[[[90, 44], [310, 44]], [[90, 60], [310, 60]]]", "[30]", "[22, 45]"),
])
def test_no_line_runs_through_the_words_of_a_level(page, lines, marks, wanted):
    """The words "equal split 64" were struck through by a node's minibatch beside them."""
    assert call(page, "/js/chart/levels.js", "m.labelPlace({x: 10, y: 0, w: 300, h: 100}, 50, 60, "
                f"{lines}, {marks})") == json.loads(wanted)


def test_log_axes_say_what_stands_at_their_ticks(page):
    """A hundred was a one: zeros were taken from the end of a whole number."""
    ticks = call(page, "/js/chart/scale.js", "m.logTicks(0.5, 2e4)")
    texts = call(page, "/js/text/format.js", f"{json.dumps(ticks)}.map(m.lossTick)")
    assert texts == ["1", "10", "100", "1,000", f"10{NARROW}k"]


def test_on_a_log_axis_logarithms_are_averaged(page):
    curve = "{x: [0, 1, 2, 3], mean: [1, 1e6, 1, 1]}"
    linear, log = (call(page, "/js/chart/smooth.js", f"m.smooth({curve}, 0.8, [], {flag})")
                   for flag in ("false", "true"))
    assert log[1] == pytest.approx(10 ** 1.2) and log[3] < 100 < linear[3]
    assert call(page, "/js/chart/smooth.js",
                "m.smooth({x: [0, 1, 2], mean: [2, 0, 8]}, 0, [], true)") == pytest.approx(
                    [2, 2, 8])


@pytest.mark.parametrize("expression, wanted", [
    ("m.linearTicks(0, 100)", [0, 20, 40, 60, 80, 100]),
    ("m.logTicks(0.08, 3)", [0.1, 0.2, 0.5, 1, 2]),
    ("m.timeTicks(0, 600, 6)", [0, 120, 240, 360, 480, 600]),
    ("m.timeTicks(0, 150, 6)", [0, 30, 60, 90, 120, 150]),
    ("m.spread([10, 11, 50], 13, 0, 100)", [10, 23, 50]),
    ("m.spread([98, 99], 13, 0, 100)", [87, 100]),
    ("m.niceRange([0, 10], {zero: true, pad: 0.1})", [0, 11]),
    ("m.niceRange([1e-9, 1, 2], {log: true})[0] > 1e-6", True),
    ("m.niceRange([1e13, 2000, 1900, 2100], {log: true})[0] < 1900", True),
    ("m.niceRange([...Array(20).fill(0.5), ...Array(80).fill(460), 1e12], {log: true})[0] < 0.5",
     True),
    ("m.xTicks('step', 0, 1, 8)", [0, 1]),
    ("m.xTicks('step', 0, 3, 8)", [0, 1, 2, 3]),
    ("m.xTicks('step', 4.1, 4.9, 2)", [4.5]),
    ("m.logTitle([null, 0.1, NaN])", "log axis"),
    ("m.logTitle([null, 0, -2, 0.1])", "log axis, without 2 values of 0 or less"),
    ("m.xLabel('time', 300, 600)", f"5{NARROW}min"),
])
def test_ticks_and_labels(page, expression, wanted):
    got = call(page, "/js/chart/scale.js", expression)
    assert got == (pytest.approx(wanted) if isinstance(wanted, list) else wanted)


def test_smoothing_starts_at_the_first_value_and_anew_at_a_cut(page):
    curve = "{x: [0, 1, 2, 3, 4, 5], mean: [10, 10, 10, 2, 2, 2]}"
    soft = call(page, "/js/chart/smooth.js", f"m.smooth({curve}, 0.8)")
    assert soft[0] == 10 and soft[2] == pytest.approx(10) and 2 < soft[3] < 10
    assert call(page, "/js/chart/smooth.js", f"m.smooth({curve}, 0.8, [3])")[3] == pytest.approx(2)
    assert call(page, "/js/chart/smooth.js", f"m.smooth({curve}, 0)") == pytest.approx(
        [10, 10, 10, 2, 2, 2])
    assert call(page, "/js/chart/smooth.js",
                "m.smooth({x: [0, 1], mean: [NaN, 3]}, 0.5)")[1] == pytest.approx(3)


def test_marks_that_stand_close_are_one_with_a_count(page):
    """Of 8 px and less, per kind; at most 48 px wide."""
    marks = [{"kind": "change", "x": x, "text": f"v{x}", "title": f"v{x}"}
             for x in (0, 5, 12, 30, 38, 60)]
    marks += [{"kind": "checkpoint", "x": x, "text": "", "title": f"step {x}"} for x in (1, 2)]
    marks += [{"kind": "lost", "x": x, "text": "a lost", "title": "a"} for x in (3, 4)]
    marks.sort(key=lambda m: m["x"])
    got = call(page, MARKS, f"m.merged({json.dumps(marks)}, 1)")
    assert [(m["kind"], m["x"], m["text"]) for m in got] == [
        ("change", 6, "3 changes"), ("checkpoint", 1.5, ""), ("lost", 3, "a lost"),
        ("lost", 4, "a lost"), ("change", 30, "v30"), ("change", 38, "v38"), ("change", 60, "v60")]
    assert got[0]["title"] == "v0\nv5\nv12" and got[1]["title"] == "2 checkpoints\nstep 1\nstep 2"
    run = [{"kind": "change", "x": x, "text": "v", "title": "t"} for x in range(0, 200, 5)]
    assert [m["text"] for m in call(page, MARKS, f"m.merged({json.dumps(run)}, 1)")] == (
        4 * ["10 changes"])
    assert len(call(page, MARKS, f"m.merged({json.dumps(marks)}, 10)")) == 10


@pytest.mark.parametrize("job, wanted", [
    # 16 nodes at 100 updates a second in all: 10 ms from one version to the next, not 10/16
    ({"progress": {"step": 1600, "samples": 16000}, "metrics": {"samples_per_second": 1000}}, 0.01),
    ({"progress": {"step": 0, "samples": 0}, "metrics": {"samples_per_second": 1000}}, None)])
def test_a_version_lasts_as_long_as_its_samples_take(page, job, wanted):
    got = call(page, "/js/measures/measures.js", f"m.secondsPerVersion({json.dumps(job)})")
    assert got == (None if wanted is None else pytest.approx(wanted))


@pytest.mark.parametrize("n, step, wanted", [(1, 1600, 100), (0, 100, None), (0, 233, None)])
def test_a_global_batch_is_a_step_beside_its_updates(page, n, step, wanted):
    spec = {"strategy": {"servers": n} if n else {}, "batching": {"global_batch": 256}}
    job = {"progress": {"step": step, "samples": 100 * 256}, "spec": spec}
    assert call(page, "/js/measures/measures.js", f"m.globalSteps({json.dumps(job)})") == wanted


def test_the_time_of_a_virtual_job_is_its_own_and_says_so(page):
    job = {"spec": {"cluster": {}}, "seconds": 1024, "started": "2026-01-01T00:00:00Z",
           "finished": "2026-01-01T00:03:43Z"}
    assert call(page, "/js/measures/measures.js", f"m.tookText({json.dumps(job)})") == (
        f"17{NARROW}min of virtual time")
    del job["spec"]["cluster"], job["seconds"]
    assert call(page, "/js/measures/measures.js", f"m.tookText({json.dumps(job)})") == (
        f"3{NARROW}min 43{NARROW}s")


def test_a_job_that_was_cancelled_before_all_nodes_made_a_step_took_what_it_trained(page):
    job = {"spec": {}, "seconds": 8, "started": None, "finished": "2026-01-01T00:03:43Z"}
    assert call(page, "/js/measures/measures.js", f"m.tookSeconds({json.dumps(job)})") == 8
    del job["seconds"]
    assert call(page, "/js/measures/measures.js", f"m.tookSeconds({json.dumps(job)})") is None


@pytest.mark.parametrize("took, trained, more",
                         [(223, 40, f" (40{NARROW}s of it training)"), (223, 220, ""),
                          (223, None, ""), (250, 250, "")])
def test_what_a_job_took_has_its_pauses_and_says_what_was_training(page, took, trained, more):
    job = {"spec": {}, "started": "2026-01-01T00:00:00Z", "finished": "2026-01-01T00:03:43Z",
           "seconds": trained}
    assert call(page, "/js/measures/measures.js", f"m.tookText({json.dumps(job)})") == (
        f"{took // 60}{NARROW}min {took % 60}{NARROW}s{more}")


def fitted(page, points):
    return call(page, "/js/measures/steptime.js", f"m.fitStep({json.dumps(points)})")


def test_a_line_is_fitted_through_measured_steps(page):
    fit = fitted(page, [[10, 0.12], [20, 0.22], [40, 0.42]])
    assert fit["a"] == pytest.approx(0.02) and fit["k"] == pytest.approx(
        0.01) and fit["aWithin"] == pytest.approx(0, abs=1e-9)


def test_the_fixed_part_of_a_step_is_never_below_zero_and_has_an_interval(page):
    points = [[10, 0.05], [20, 0.16], [40, 0.47], [12, 0.06], [38, 0.44], [25, 0.2]]
    fit = fitted(page, points)
    assert fit["a"] == 0 and fit["k"] == pytest.approx(
        sum(b * t for b, t in points) / sum(b * b for b, _ in points))
    assert 0 < fit["aWithin"] < 0.5 and 0 < fit["kWithin"] < fit["k"]
    assert fitted(page,
                  [[10, 0.1], [11, 0.2], [10, 0.1]]) is None, "sizes that are alike tell nothing"
    assert fitted(page, [[10, 0.4], [20, 0.3], [40, 0.1]]) is None, "nor does a slope below zero"


WORKER = (
    "{{node: '{0}', batch: {1}, compute_seconds: {2}, exchange_seconds: 0, wait_seconds: {3}, "
    "staleness: {{mean: {4}, max: 9}}}}")


def verdict(page, job, assignments="[]"):
    return call(page, "/js/sentences/verdict.js",
                f"(v => ({{text: m.plain(v.parts), straggler: v.straggler || null, key: "
                f"v.key}}))(m.verdict({job}, {assignments}))")


def test_the_sentence_names_who_how_much_and_what_it_gained(page):
    workers = ", ".join(WORKER.format(*w)
                        for w in (("fast-1", 188, 1.08, 0, 3), ("fast-2", 180, 1.08, 0, 3),
                                  ("mid", 100, 1.1, 0, 3), ("slow", 44, 1.08, 0, 3)))
    job = (
        f"{{state: 'running', spec: {{batching: {{policy: 'dynamic', global_batch: 512}}, "
        f"strategy: {{type: 'asgd'}}}}, servers: [{{}}], workers: [{workers}], progress: {{}}, "
        f"metrics: {{}}}}")
    moves = (
        "[{version: 1, batches: {'fast-1': 128, slow: 128}}, {version: 2, batches: {'fast-1': "
        "188, slow: 44}, measured_step_seconds: 3.1, predicted_step_seconds: 1.15}]")
    got = verdict(page, job, moves)
    assert got["straggler"] == "slow"
    assert got["text"] == (
        "slow computes 2.9× slower than the median node, so its minibatch went from 128 to 44. All "
        f"four nodes now finish a step together: 1.10{NARROW}s of computing instead of "
        f"3.10{NARROW}s.")


def test_the_times_of_a_sentence_have_one_unit(page):
    workers = ", ".join(WORKER.format(*w)
                        for w in (("fast", 40, 0.048, 0, 3), ("other", 40, 0.049, 0, 3),
                                  ("slow", 16, 0.062, 0, 3)))
    job = (
        f"{{state: 'running', spec: {{batching: {{policy: 'dynamic', global_batch: 96}}, "
        f"strategy: {{type: 'asgd'}}}}, servers: [{{}}], workers: [{workers}], progress: {{}}, "
        f"metrics: {{}}}}")
    moves = ("[{version: 1, batches: {fast: 32, other: 32, slow: 32}}, {version: 2, batches: "
             "{fast: 40, other: 40, slow: 16}, measured_step_seconds: 0.103, "
             "predicted_step_seconds: 0.06}]")
    assert verdict(page, job, moves)["text"].endswith(
        f"Computing a step now takes between 0.048{NARROW}s and 0.062{NARROW}s instead of "
        f"0.103{NARROW}s.")


def test_equal_minibatches_are_said_to_cost_waiting(page):
    workers = ", ".join(WORKER.format(*w)
                        for w in (("a", 100, 1.0, 1.0, 0), ("b", 100, 1.0, 1.0, 0),
                                  ("c", 100, 2.0, 0, 0)))
    got = verdict(page,
                  f"{{state: 'running', spec: {{batching: {{policy: 'equal', global_batch: 300}}, "
                  f"strategy: {{type: 'sync'}}}}, servers: [], workers: [{workers}], progress: "
                  f"{{}}, metrics: {{}}}}")
    assert got["text"].startswith(
        f"c computes 2.0× slower than the median node: the others wait 50{NARROW}% of each step "
        f"for it. Dynamic minibatches would make a step about 40{NARROW}% shorter.")


def test_even_nodes_failures_and_waits_have_their_sentences(page):
    workers = ", ".join(WORKER.format(*w) for w in (("a", 64, 1.0, 0, 0), ("b", 64, 1.01, 0, 0)))
    assert "about equally fast" in verdict(page,
                                           f"{{state: 'running', spec: {{batching: {{policy: "
                                           f"'dynamic', global_batch: 128}}}}, workers: "
                                           f"[{workers}]}}")["text"]
    assert verdict(page,
                   "{state: 'failed', error: {node: 'mid', message: 'memory ran out'}, progress: "
                   "{step: 12}}")["text"] == "mid failed about step 12: memory ran out."
    lost = ("{state: 'failed', error: {node: 'slow', lost: 'it was killed', message: \"rank 3 on "
            "node 'slow' is lost: it was killed\"}, progress: {step: 48, samples: 3080}, spec: "
            "{strategy: {servers: 1}, batching: {global_batch: 256}}}")
    assert verdict(page, lost)["text"] == "slow was lost about update 48: it was killed."
    assert (verdict(page, "{state: 'queued', spec: {workers: 3}}")["text"]
            == "The job waits for 3 free nodes.")
    assert "being measured" in verdict(page, "{state: 'running', spec: {}, workers: []}")["text"]


def test_json_is_printed_and_its_pointers_are_found_again(page):
    text = call(page, "/js/draft/json.js",
                "m.print({name: 'a', optimizer: {type: 'sgd', schedule: {type: 'step', at_epochs: "
                "[12, 30], factor: 0.1}}, epochs: 3})")
    assert json.loads(text)["optimizer"]["schedule"]["at_epochs"] == [12, 30]
    found = call(page, "/js/draft/json.js",
                 "(f => ['/name', '/optimizer/schedule/at_epochs/1', '/epochs', "
                 f"'/epochs/nothing'].map(p => m.lineOf(f, p)))(m.places({json.dumps(text)}))")
    lines = text.split("\n")
    assert ('"name"' in lines[found[0]] and "30" in lines[found[1]]
            and '"epochs"' in lines[found[2]] and found[3] == found[2])
    assert call(page, "/js/draft/json.js", "m.setAt({a: {b: 1}}, '/a/b', undefined)") == {}
    assert call(page, "/js/draft/json.js", "m.setAt({}, '/a/b', 2)") == {"a": {"b": 2}}
    assert call(page, "/js/draft/json.js", "m.places('{broken').size >= 1") is True


@pytest.mark.parametrize("shares, wanted", [
    ([0.4], f"n0 receives the data set: 40{NARROW}% of 50.0{NARROW}MB."),
    ([0.8, 0.25], f"Two nodes receive the data set: 25{NARROW}% of 50.0{NARROW}MB."),
    ([], "The job is being started on 1 node."),
])
def test_the_verdict_tells_who_waits_for_its_data_set(page, shares, wanted):
    workers = [{"node": f"n{i}", "receiving": {"bytes": s * 5e7, "of_bytes": 50_000_000}}
               for i, s in enumerate(shares)] + [{"node": "other"}]
    job = json.dumps({"state": "launching", "workers": workers, "spec": {}})
    assert call(page, "/js/sentences/verdict.js", f"m.plain(m.verdict({job}).parts)") == wanted


@pytest.mark.parametrize("strategy, servers, wanted",
                         [({"type": "asgd", "servers": 1}, [{"rank": 2}], True),
                          ({"type": "asgd", "servers": 1}, [], False),
                          ({"type": "local-sgd", "k": 8}, [{"rank": 2}], False),
                          (None, [{"rank": 2}], False)])
def test_a_keeper_alone_is_no_parameter_server(page, strategy, servers, wanted):
    job = {"servers": servers, "spec": {"strategy": strategy} if strategy else {}}
    assert call(page, "/js/spec/spec.js", f"m.hasServers({json.dumps(job)})") is wanted


def predicted(strategy, step, staleness, within=0.0, worth=1, drift=False):
    return {"strategy": strategy, "sample_worth": worth, "step_seconds": step,
            "replicas_drift": drift,
            "staleness": {"update_mean": staleness}, "step_seconds_least": step - within,
            "step_seconds_most": step + within}


@pytest.mark.parametrize("all, best, why", [
    ([predicted("sync", 1, 0), predicted("asgd", 0.98, 3)], "sync", "never stale"),
    ([predicted("sync", 1.2, 0, 0.15), predicted("asgd", 1, 3, 0.1)], "sync", "never stale"),
    ([predicted("sync", 2, 0), predicted("asgd", 1, 3)], "asgd", "2.0× as fast as sync"),
    ([predicted("sync", 2, 0), predicted("asgd", 1, 3), predicted("softsync", 1.01, 1)],
     "softsync", "1.0 versions old"),
    ([predicted("sync", 1, 0), predicted("other", 0.5, 0)], "other", "is the fastest"),
    ([predicted("sync", 2, 0), predicted("averaged", 1, 0, drift=True)], "averaged",
     "replicas drift apart"),
    ([predicted("sync", 2, 0), predicted("hpsgd", 1.5, 1, worth=0.5)], "sync",
     "though hpsgd is 1.3× as fast: where both were measured, a sample there was worth "
     "50 % of one here"),
    ([predicted("sync", 5, 0), predicted("hpsgd", 1, 1, worth=0.5)], "hpsgd",
     "5.0× as fast as sync"),
    ([predicted("sync", 1, 0), predicted("asgd", 0.8, 3, worth=0.9)], "asgd", "3.0 versions old")])
def test_the_freshest_of_the_fast_strategies_is_recommended(page, all, best, why):
    rows = json.dumps(all)
    module = "/js/sentences/strategy.js"
    assert call(page, module, f"m.recommended({rows}).strategy") == best
    assert why in call(page, module, f"m.whyRecommended(m.recommended({rows}), {rows})")


def test_one_strategy_alone_is_not_recommended(page):
    assert call(page, "/js/sentences/strategy.js",
                f"m.recommended([{json.dumps(predicted('sync', 1, 0))}])") is None


ELASTIC = {"spec": {"elastic": {"min": 2, "max": 4}},
           "workers": [{"state": "computing"}, {"state": "left"}, {"state": "exchange"}],
           "resizes": [{"attempt": 2, "from": 3, "to": 4, "reason": "grew", "seconds": 1.6,
                        "time": "2026-01-01T00:00:10Z"}]}


@pytest.mark.parametrize("expression, wanted", [
    ("m.sizeText(job)", "2 of 2 to 4 nodes"),
    ("m.sizeText({...job, workers: []})", "2 to 4 nodes"),
    ("m.sizeText({...job, spec: {workers: 3}, workers: []})", "3 nodes"),
    ("m.resizeText(job.resizes[0])", f"grew, 1.60{NARROW}s without a step"),
    ("m.resizeText({reason: 'grew', seconds: null})", "grew"),
    ("m.resizeOf(job, {reason: 'grew', time: '2026-01-01T00:00:11Z'}).attempt", 2),
    ("m.resizeOf(job, {reason: 'grew', time: '2026-01-01T00:09:11Z'}) === undefined", True),
    ("m.resizeOf(job, {reason: 'equal', time: '2026-01-01T00:00:11Z'}) === undefined", True),
])
def test_a_change_of_size_is_found_and_said(page, expression, wanted):
    assert call(page, "/js/views/job/happened/resizes.js",
                f"((job) => {expression})({json.dumps(ELASTIC)})") == wanted


def test_what_if_is_asked_of_an_elastic_job_as_it_runs_now(page):
    spec = call(page, "/js/spec/whatif.js",
                "m.specNow({spec: {elastic: {min: 1, max: 4}, workers: 4, min_workers: 1}, "
                "workers: [{node: 'a'}, {node: 'b'}]})")
    assert spec == {"workers": 2, "min_workers": 1, "nodes": ["a", "b"]}


NORMS = """{tensors: [{name: 'a.weight', elements: 4}, {name: 'a.bias', elements: 2}],
  weights: [[2, 4], [0, 1]], gradients: [[1, null], [0.5, 0.25]], x: [1, 11], epoch: [0.5, 1],
  time: [2, 3]}"""


@pytest.mark.parametrize("expression, wanted", [
    (f"m.normRows({NORMS}, 'ratio', true).map(r => r.values)", [[0.5, None], [None, 0.25]]),
    ("m.normRange([{values: [0, null, 0.5, 8]}])", [0.5, 8]),
    ("m.normRange([{values: [0, null]}])", None), ("m.normRange([{values: [3]}])", [1.5, 6]),
    ("m.normRange([{values: [1e-30, 1e8]}])", [1, 1e8]),
    ("[1, 10, 100, 0, 1e9].map(v => m.shade(v, [1, 100]))", [0, 0.5, 1, 0, 1]),
    ("[null, Infinity].map(v => Number.isNaN(m.shade(v, [1, 100])))", [True, True]),
    ("m.between(['#000000', '#ff0000', '#ffffff'], 0.5)", "rgb(255,0,0)"),
    ("m.between(['#000000', '#ff0000', '#ffffff'], 1)", "rgb(255,255,255)"),
    (f"m.normPlaces({NORMS}, 'samples', 100)", [50, 100]),
    (f"m.normPlaces({NORMS}, 'time', 100)", [2, 3]),
    ("[0, 1, 5, 99].map(x => m.normAt([1, 11], x))", [0, 0, 1, 1]),
])
def test_norms_of_layers(page, expression, wanted):
    assert call(page, NORM_ROWS, expression) == wanted


def test_a_network_of_many_layers_hides_its_biases(page):
    deep = """{tensors: Array.from({length: 60}, (_, i) => ({name: 'l' + (i >> 1) +
        (i % 2 ? '.bias' : '.weight'), elements: 4})), weights: Array(60).fill([1]),
        gradients: Array(60).fill([1])}"""
    rows = [f"m.normRows({deep}, 'weights', {all}).length" for all in ("false", "true")]
    assert call(page, NORM_ROWS, f"[{','.join(rows)}]") == [30, 60]
    assert call(page, NORM_ROWS, f"[m.hidesSmall({deep}), m.hidesSmall({NORMS})]") == [True, False]


def test_a_line_of_load_has_a_gap_where_nothing_was_told(page):
    load = "{at: [2, 4, 10, 12], seconds: [2, 2, 2, 2]}, [0.5, 1, null, 2], [0, 20], 1"
    path = call(page, "/js/elements/loadplots.js", f"m.loadPath({load})")
    assert path == ("M0.0000 0.5000L0.1000 0.5000L0.2000 0.0000"
                    "M0.5000 0.0000L0.6000 0.0000")


def test_nodes_of_one_host_share_its_load_and_gpus_do_not(page):
    nodes = ("[{name: 'a', host: 'h'}, {name: 'b', host: 'h'}, {name: 'g', host: 'h', gpu: {}}, "
             "{name: 'c'}]")
    hosts = call(page, "/js/views/job/folds/load.js",
                 f"m.byHost(['a', 'g', 'b', 'c', 'gone'], {nodes})")
    assert [h["nodes"] for h in hosts] == [["a", "b"], ["g"], ["c"], ["gone"]]


def test_counts_of_seven_digits_are_told_in_full_in_the_table_of_runs(page):
    asked = "m.textOf(m.columnOf('progress/step'), {progress: {step: 1600000}, spec: {}})"
    assert call(page, "/js/views/runs/columns.js", asked) == "1,600,000"


def test_virtual_nodes_are_none_of_the_nodes_that_they_are_called_as(page):
    job = {"state": "succeeded", "workers": [{"node": "a", "batch": 8, "compute_seconds": 1}]}
    jobs = json.dumps([{**job, "id": "v", "spec": {"cluster": {}}}, {**job, "id": "r", "spec": {}}])
    asked = (f"(d => [d.historyOf('a').map(j => j.id), d.measured(null).id])"
             f"(Object.assign(new m.NodesModel(), {{newest: {jobs}}}))")
    assert call(page, "/js/views/nodes/model.js", asked) == [["r"], "r"]


@pytest.mark.parametrize("epoch, epochs, said", [
    (2.4, 10, "3 of 10"), (10, 10, "10 of 10"), (0.3, 0, "1"), (6e-7, 6.4e-7, "1"),
    (1.2, 1.5, "2 of 2")])
def test_the_epochs_of_a_programs_own_loop_may_be_unknown(page, epoch, epochs, said):
    job = {"progress": {"epoch": epoch, "epochs": epochs}}
    assert call(page, "/js/measures/measures.js", f"m.epochOf({json.dumps(job)})") == said
