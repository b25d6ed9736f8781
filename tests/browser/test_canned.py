"""The job's page over canned runs (canned.py): what a run rarely shows when a test wants it."""

import json

import pytest

import canned
from canned import curve, evaluations, job, worker
from service import until
from test_pure import NARROW, call


def wide(page):
    return page.script("return [document.documentElement.scrollWidth, window.innerWidth]")


@pytest.fixture
def phone(page):
    def narrow(width, height=844):
        page.resize(width, height)

    yield narrow
    page.resize_back()


FALLS = [2.3 * 0.97**i for i in range(100)]


def test_a_phones_charts_cut_no_number(page, phone):
    """0.0001 was "0.000" on the axis of losses, and 5.71×10⁻⁵ and 96,960 ended at the screen."""
    phone(390)
    canned.show(
        page,
        job(),
        [curve("train_loss", [2.3 * 0.88**i for i in range(100)]),
         curve("samples_per_second", [96960.0] * 100)],
        evaluations([0.074, 0.125]),
    )
    until("both charts have ends", lambda: len(page.all(".ends span")) >= 4)
    texts = page.script("""
        const over = (e) => {
          const text = document.createRange();
          text.selectNodeContents(e);
          const place = e.closest('.dygraph-axis-label-y, .chart').getBoundingClientRect();
          const {left, right, height} = text.getBoundingClientRect();
          return height > 20 || right > place.right + 0.5 || left < place.left - 0.5;
        };
        return [...document.querySelectorAll('.dygraph-axis-label-y, .ends span')].map(
            (e) => [e.innerText, over(e)])""")
    assert not [text for text, over in texts if over]
    said = " | ".join(text for text, _ in texts)
    assert all(t in said for t in ("0.0001 |", "10⁻⁵ |", "12.5\u202f%", "97\u202fk")), said


def test_the_point_of_a_single_step_stands_at_a_tick_of_its_own(page):
    canned.show(page, job(progress={"step": 1, "samples": 128, "epoch": 1, "epochs": 1,
                                    "fraction": 1}),
                [{**curve("train_loss", [2.3]), "x": [1]}], [])
    ticks = "[data-chart=loss] .dygraph-axis-label-x"
    until("the axis has its step", lambda: [e.text for e in page.all(ticks)] == ["0", "1"])
    left, wide, at = page.script("""
        const plot = document.querySelector('[data-chart=loss] .plot').getBoundingClientRect();
        const tick = document.querySelectorAll(arguments[0])[1].getBoundingClientRect();
        return [plot.left, plot.width, tick.left + tick.width / 2]""", ticks)
    assert left + 0.3 * wide < at < left + 0.7 * wide, "which is not at the edge"


@pytest.mark.parametrize("width", [390, 1180, 1440])
def test_a_loss_of_32_digits_keeps_to_its_tile_and_its_page(page, phone, width):
    phone(width)
    document = job(
        metrics={
            "train_loss": 12345678901234567890123456789012.0,
            "test_loss": 1e32,
            "test_accuracy": 0.1,
            "samples_per_second": 123456789.0,
        }
    )
    canned.show(
        page,
        document,
        [curve("train_loss", [2.3 * 2**i for i in range(100)])],
        evaluations([0.1] * 3, [1e32] * 3),
    )
    page.wait_text("#tile-loss .value", "1.23×10³¹")
    page.wait_text("#tile-loss", r"mean of 100 updates, test 1")
    until("nothing is wider than the screen", lambda: wide(page)[0] <= wide(page)[1])
    boxes = page.script(
        """return [...document.querySelectorAll('.tile')].map((t) => {
             const text = document.createRange();
             text.selectNodeContents(t);
             return [text.getBoundingClientRect().right, t.getBoundingClientRect().right]; })"""
    )
    assert all(text <= tile + 1 for text, tile in boxes), boxes
    lines = page.script("return [...document.querySelectorAll('.tile p:nth-child(2)')].map("
                        "(p) => p.getBoundingClientRect().height)")
    assert width < 700 or max(lines) < 40, "a unit stands beside its number"


def test_the_verdict_leads_to_its_chart_and_to_a_form_with_the_change(page):
    document = job()
    document["spec"]["optimizer"]["learning_rate"] = 0.5
    canned.show(
        page,
        document,
        [curve("train_loss", [2.3 + 0.12 * i for i in range(100)])],
        evaluations([0.103] * 5),
    )
    page.wait_text("#verdict", "Training diverged")
    page.wait_text("#advice", "Clone with a tenth of the rate")
    page.click("#advice button")
    assert page.script("return document.activeElement.dataset.chart") == "loss"
    page.click("#advice a")
    page.wait_text("#changed", "optimizer/learning_rate 0.5 → 0.05")
    until(
        "the form has it",
        lambda: page.find(page.field("/optimizer/learning_rate")).get_attribute("value") == "0.05",
    )


def test_a_job_that_continues_another_one_says_so_and_no_speed_that_counts_its_samples(page):
    document = job(seconds=30.0)
    document["spec"]["init"] = {"path": "0123456789abcdef/checkpoints", "continue": True}
    canned.show(page, document)
    page.wait_text("#verdict", "^The job went on from another one and reached 96.0")
    page.wait_text(".facts", "goes on from 0123456789abcdef")
    assert page.visible('.facts a[href="#/jobs/0123456789abcdef"]')
    document["spec"]["init"]["path"] = "models/resnet"  # a folder beneath a data root
    canned.show(page, document)
    page.wait_text(".facts", "goes on from models")
    assert not page.visible(".facts a"), "there is no such job"
    rate = "/js/measures/measures.js", f"m.meanRate({json.dumps(document)})"
    assert call(page, *rate) is None
    document["spec"]["init"] = "0123456789abcdef/best.safetensors"
    assert call(page, rate[0], f"m.meanRate({json.dumps(document)})") == pytest.approx(128000 / 30)


def test_what_a_server_counts_are_updates_wherever_it_is_named(page):
    """An axis of "steps" to 1,911 stood below "step 469, 1,911 updates"."""
    document = job(progress={"epoch": 10, "epochs": 10, "step": 4000, "samples": 128000,
                             "fraction": 1})
    document["spec"]["strategy"] = {"type": "asgd", "servers": 1}
    change = {"version": 2, "step": 300, "time": 30.0, "reason": "b is slower",
              "batches": {"a": 70, "b": 58}}
    first = {**change, "version": 1, "step": 0, "time": 0, "reason": "equal"}
    canned.show(page, document, [curve("train_loss", FALLS)], assignments=[first, change])
    page.wait_text(".progress-line", "step 1,000, 4,000 updates")
    assert page.text("#axis").split() == ["Update", "Samples", "Time"]
    page.wait_text("#reasons", "update 300")
    document["spec"]["strategy"] = {"type": "sync"}
    canned.show(page, document, [curve("train_loss", FALLS)])
    until("steps of sync", lambda: page.text("#axis").split() == ["Step", "Samples", "Time"])


def test_a_virtual_job_says_that_its_times_are_virtual(page):
    document = job(
        seconds=1024.0,
        finished="2026-01-02T03:03:44.000Z",
        servers=[{"rank": 2, "host": "h", "version": 6400, "busy_fraction": 0, "state": "ended"}],
        progress={"epoch": 1, "epochs": 1, "step": 6400, "samples": 102400, "fraction": 1},
        staleness={"p50": 15, "p95": 17, "max": 20, "node_mean": 15},
        metrics={
            "train_loss": 0.1,
            "test_accuracy": 0.87,
            "samples_per_second": 100.0,
            "step_seconds": 0.16,
        },
    )
    document["spec"].update(
        cluster={"nodes": []},
        strategy={"type": "asgd", "servers": 1},
        batching={"global_batch": 256, "policy": "equal"},
    )
    document["assignment"]["global_batch"] = 256
    canned.show(page, document, [curve("train_loss", FALLS)])
    page.wait_text("#verdict", f"in 17{NARROW}min of virtual time")
    assert "step 400, 6,400 updates" in page.text(
        ".progress-line"
    ) and "of virtual time" in page.text(".progress-line")
    page.wait_text("#axis", "Virtual time")
    assert f"2.72{NARROW}s, max 20" in page.text(
        "#tile-staleness"
    ), "17 versions of 16 samples at 100 samples/s"
    assert not page.visible("#follow"), "there is no newer step to follow"


LOGS = {
    "0": "ts=2026-01-02T03:04:59.600Z level=error mod=worker rank=0 "
    'msg="the job ends" why="rank 1 has left"\n',
    "1": 'ts=2026-01-02T03:04:58.000Z level=info mod=worker rank=1 msg="an epoch has ended"\n'
    "ts=2026-01-02T03:04:59.100Z level=error mod=worker rank=1 "
    'msg="the job ends" why="the loss is not finite any more at step 712"\n',
}


def moves(*times, restart=None):
    return [
        {
            "version": i + 1,
            "step": 0 if i == restart else 10 * i,
            "time": t,
            "reason": "why",
            "batches": {"a": 64 + i, "b": 64 - i},
            "predicted_step_seconds": 0.07,
            "measured_step_seconds": 0.12,
        }
        for i, t in enumerate(times)
    ]


def test_a_pause_is_no_failed_attempt(page):
    times = ["2026-01-02T03:00:01.000Z", "2026-01-02T03:03:00.000Z"]
    series = [curve("train_loss", FALLS)]
    canned.show(page, job(attempt=2), series, assignments=moves(*times, restart=1))
    page.wait_text(".lane", "goes on")
    assert "attempt" not in page.text(".facts") and not page.all(".lane-label.bad")
    page.wait_text("#attempts", "paused")
    canned.show(page, job(attempt=2, restarts=1), series, assignments=moves(*times, restart=1))
    page.wait_text(".facts", "attempt 2 of 1|attempt 2")
    page.wait_text(".lane", "restart")
    page.wait_text("#attempts", "the log has it")


def test_an_attempt_that_ended_before_its_first_step_made_none(page):
    """Its steps were "1 to 0"."""
    times = ["2026-01-02T03:00:01.000Z", "2026-01-02T03:03:00.000Z"]
    line = ("ts=2026-01-02T03:03:01.000Z level=info mod=start rank=2 "
            'msg="restored from a checkpoint" path=x version=400\n')
    begun = dict(epoch=0, epochs=10, step=0, samples=0, fraction=0)
    canned.show(page, job(attempt=2, state="cancelled", progress=begun),
                [curve("train_loss", FALLS)], assignments=moves(*times, restart=1),
                logs={"2": line})
    page.wait_text("#attempts", r"2\s+none.*\s+1\s+0 to 400")
    page.wait_text("main", "cancelled before its first step in attempt 2")
    page.script("document.querySelector('.lanes').parentNode.scrollIntoView()")
    page.wait_text("section[aria-label='Last steps']", "There are no steps to show.")
    assert "as soon as" not in page.text("main")


def test_an_attempt_goes_on_where_the_log_says_however_long_the_pause_was(page):
    """By the clock an hour's pause ended behind the job's last step."""
    times = ["2026-01-02T03:00:01.000Z", "2026-01-02T04:00:01.000Z"]
    line = ("ts=2026-01-02T04:00:02.000Z level=info mod=start rank=2 "
            'msg="restored from a checkpoint" path=x version=400\n')
    canned.show(page, job(attempt=2), [curve("train_loss", FALLS)],
                assignments=moves(*times, restart=1), logs={"2": line})
    page.wait_text("#attempts", r"400 to 1,000.*\s+1\s+0 to 400")
    page.wait_text("#reasons", "restart, about step 400")


def test_a_program_that_has_told_its_batch_was_neither_paused_nor_restarted(page):
    """Before that its nodes have minibatches of 0; what came after looked like another attempt."""
    given = moves("2026-01-02T03:00:01.000Z", "2026-01-02T03:00:09.000Z", restart=1)
    given[0]["batches"] = {"a": 0, "b": 0}
    document = job()
    document["spec"]["program"] = {"name": "mine"}
    nothing = {**curve("train_accuracy", [None] * 100), "min": [None] * 100, "max": [None] * 100}
    canned.show(page, document, [curve("train_loss", FALLS), nothing], assignments=given)
    page.wait_text("#reasons", "why")
    assert not page.visible("#attempts") and "goes on" not in page.text(".lane")
    assert "0 →" not in page.text(".node-table")
    page.wait_text('.chart[data-chart="accuracy"]', "This program logged no accuracy")


@pytest.mark.parametrize("state, said", [("succeeded", "logged"), ("running", "has logged")])
def test_a_program_that_tells_no_loss_has_a_chart_that_says_so(page, state, said):
    """The chart was an empty frame from 0.1 to 10, with a note of 100 points."""
    document = job(state=state)
    document["spec"]["program"] = {"name": "mine"}
    document["metrics"] = {"samples_per_second": 1000.0, "step_seconds": 0.1}
    nothing = {**curve("train_loss", [None] * 100), "min": [None] * 100, "max": [None] * 100}
    canned.show(page, document, [nothing])
    page.wait_text('.chart[data-chart="loss"]', f"This program {said} no loss.")
    assert "points" not in page.text('.chart[data-chart="loss"]')
    assert "NaN" not in page.text("main")


def test_an_attempt_that_was_lost_before_the_page_was_opened_says_its_first_error(page):
    times = ["2026-01-02T03:00:01.000Z", "2026-01-02T03:05:01.000Z"]
    canned.show(page, job(attempt=2, restarts=1), [curve("train_loss", FALLS)],
                assignments=moves(*times, restart=1), logs=LOGS)
    page.wait_text("#attempts", "b: the loss is not finite any more at step 712")


def test_marks_that_stand_together_are_one_with_a_count(page):
    canned.show(
        page,
        job(),
        [curve("train_loss", FALLS)],
        assignments=moves(*["2026-01-02T03:00:01.000Z"] * 60),
    )
    page.wait_text(".lane", r"\d+ changes")
    assert len(page.all(".lane-mark.change")) < 10


def test_why_a_minibatch_changed_has_one_unit(page):
    canned.show(
        page,
        job(),
        [curve("train_loss", FALLS)],
        assignments=moves("2026-01-02T03:00:01.000Z", "2026-01-02T03:01:00.000Z"),
    )
    page.wait_text("#reasons", f"before 0.120{NARROW}s · predicted 0.070{NARROW}s")


def test_of_many_nodes_those_are_named_whose_minibatch_changed(page):
    names = [f"node-{i}" for i in range(20)]
    before, after = {n: 16 for n in names}, {n: 16 for n in names}
    after["node-17"], after["node-3"] = 8, 24
    changes = [
        {
            "version": i + 1,
            "step": 100 * i,
            "time": "2026-01-02T03:01:00.000Z",
            "reason": "why",
            "batches": b,
            "predicted_step_seconds": 0.1,
            "measured_step_seconds": 0.1,
        }
        for i, b in enumerate((before, after))
    ]
    canned.show(
        page,
        job(workers=[worker(i, n, batch=after[n]) for i, n in enumerate(names)]),
        [curve("train_loss", FALLS)],
        assignments=changes,
    )
    page.wait_text("#reasons li:first-child .moves", r"node-17\s*16→8\s*node-3\s*16→24")


def test_sync_has_no_server(page):
    servers = [{"rank": 2, "host": "h", "version": 0, "busy_fraction": 0, "state": "ended"}]
    canned.show(page, job(servers=servers), [curve("train_loss", FALLS)])
    page.wait_text("#workers summary", "2 workers$")
    page.click("#workers summary")
    page.wait_text("#workers-body", "keeper on h")


CRASH = (
    'ts=2026-01-02T03:02:00.000Z level=warn mod=program rank=1 msg="is started again" '
    "crash=1 of=3 why=\"the program of rank 1 on 'b' exited with status 1\"\n"
    'ts=2026-01-02T03:02:04.000Z level=info mod=program rank=1 msg="goes on" '
    'incarnation=1 slice=7 optimizer_state="none"\n'
)


def test_programs_that_were_started_again_are_marked_and_listed(page):
    document = job()
    document["spec"]["program"] = {"name": "mine"}
    canned.show(page, document, [curve("train_loss", FALLS)], logs={"1": CRASH})
    page.wait_text("#crashes", f"1 time; the other nodes went on")
    page.wait_text(
        "#crashes tbody", f"b\\s+the program of rank 1 on 'b' exited with status 1\\s+4.00{NARROW}s"
    )
    until("it is marked", lambda: page.all(".lane-mark.crash"))


def test_a_program_that_ended_before_its_first_step_is_marked_at_the_beginning(page):
    """It was marked at step 1; by time it was not marked, since the job starts with a step."""
    at = call(page, "/js/views/job/model/curves.js", """[-2, 0.25, 0.75].map((time) => {
        const curves = new m.Curves('x', 600);
        curves.scale = {step: [1, 2], time: [0.5, 1], samples: [64, 128]};
        return curves.stepAtTime(time);
    })""")
    assert at == [0, 0.5, 1.5]
    [mark] = call(page, "/js/views/job/happened/marks.js", """m.marksOf({
        job: {}, placed: () => [], lost: [], left: [], checkpoints: [],
        crashes: {list: [{node: 'b', rank: 1, time: -2, message: 'KeyError'}]},
        curves: {stepAtTime: (time) => 0, xOfStep: (step, time) => time}
    })""")
    assert mark["x"] == 0


def places(page):
    """Of each chart: the widths of its place and of its plot; and where the lane's marks stand."""
    return page.script(
        """const wide = (e) => (e ? Math.round(e.getBoundingClientRect().width) : 0);
           const charts = [...document.querySelectorAll('.job-sheet .chart .plot')];
           const marks = [...document.querySelectorAll('.lane-mark')];
           const inner = (p) => wide(p.querySelector('canvas'));
           return charts.filter(wide).map((p) => [wide(p), inner(p)])
               .concat(marks.map((m) => [Math.round(m.getAttribute('x1')), 0]))"""
    )


def test_resizing_there_and_back_leaves_every_chart_as_it_was(page, phone):
    phone(1440, 900)
    canned.show(
        page,
        job(),
        [curve("train_loss", FALLS), curve("samples_per_second", [1000.0] * 100)],
        evaluations([0.9, 0.95]),
        assignments=moves("2026-01-02T03:00:01.000Z", "2026-01-02T03:01:00.000Z"),
    )
    until("the change is marked", lambda: page.all(".lane-mark"))
    until("every chart is drawn", lambda: all(a == b for a, b in places(page) if b))
    before = places(page)
    phone(390)
    until("the page fits the phone", lambda: wide(page)[0] <= 390)
    until(
        "every chart fits its place",
        lambda: all(a == b for a, b in places(page) if b) and places(page) != before,
    )
    phone(1440, 900)
    until(f"all is as it was: {before}", lambda: places(page) == before)
    assert wide(page)[0] <= 1440


def test_a_run_that_predicts_numbers_has_a_loss_and_no_accuracy(page):
    """It "reached 0.0 % test accuracy", and offered a confusion matrix."""
    document = job(metrics={"train_loss": 0.02, "test_loss": 0.0123, "test_accuracy": None,
                            "best_test_accuracy": None, "samples_per_second": 100.0})
    document["spec"]["model"] = {"input": [8], "layers": [{"type": "dense", "units": 1}],
                                 "loss": "mse"}
    canned.show(page, document, [curve("train_loss", FALLS)],
                evaluations([None] * 5, [0.05, 0.02, 0.011, 0.012, 0.0123]))
    page.wait_text("#verdict", "The job reached a test loss of 0.012 in")
    page.wait_text("#tile-accuracy", r"Test loss\s+0\.012\s+best 0\.011, epoch 3")
    page.wait_text("main", "predicts numbers, which have no accuracy")
    assert page.visible("#artifacts") and not page.visible("#confusion")
    assert "NaN" not in page.text("main") and "0.0\u202f%" not in page.text("#verdict")


def test_what_a_program_confuses_it_alone_knows(page):
    """The fold was there, and its answer was a path of the service's host."""
    document = job()
    document["spec"]["program"] = {"name": "mine"}
    canned.show(page, document, [curve("train_loss", FALLS)], evaluations([0.8, 0.9]))
    page.wait_for("#configuration")
    assert not page.visible("#confusion")
    canned.show(page, job(), [curve("train_loss", FALLS)], evaluations([0.8, 0.9]))
    page.wait_for("#confusion")
