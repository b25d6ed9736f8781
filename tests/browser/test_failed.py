"""Pages of jobs that failed: the cause, what follows from it, and what can be done."""
import json
import re

import pytest

import canned
from canned import curve, evaluations, job, worker
from service import until
from test_canned import FALLS, LOGS
from test_pure import NARROW, call


def failed(**changes):
    made = job(
        state="failed",
        error={
            "code": "not_finite",
            "message": "the loss became NaN or infinite: step 356 of worker 1",
            "rank": 1,
            "node": "b",
            "attempt": 1,
        },
        progress={"epoch": 7.1, "epochs": 10, "step": 712, "samples": 91136, "fraction": 0.71},
        **changes,
    )
    return made


def test_a_failed_job_shows_cause_consequences_and_a_way_on_in_one_click(page):
    canned.show(
        page,
        failed(),
        [curve("train_loss", FALLS)],
        evaluations([0.9, 0.92, 0.95, 0.951, 0.955, 0.96, 0.955]),
        logs=LOGS,
        artifacts=[{"name": "best.safetensors", "bytes": 400000}],
    )
    page.wait_text("#verdict", r"^The loss became NaN or infinite about step 712\.$")
    page.wait_text(".lane-label.bad", "failed")
    title = page.script("return document.querySelector('.lane-label.bad').title")
    assert title == "the loss became NaN or infinite: step 356 of worker 1"
    assert "solid: failure" in page.text(".events-key")
    page.wait_text(".first-error", "rank 1, on b, attempt 1")
    page.wait_text(".log-around .log-error", "not finite")
    page.wait_text(".consequences", f"\\+0.50{NARROW}s\\s+a\\s+rank 1 has left")
    assert "1 later error is a consequence" in page.text(".consequences")
    page.wait_text("#remedies", "Resume from the last good checkpoint with half the rate")
    assert (
        f"the parameters of epoch 6, 96.0{NARROW}% correct; learning rate 0.025; "
        "the 4 epochs that are left"
        in page.text("#remedies")
    )
    assert page.text("#remedy") == "Resume from epoch 6", "it stands in the head too"
    page.click("#remedy")
    sent = until("the job is submitted", lambda: page.script("return window.posted"))[0]
    assert (
        sent["init"] == canned.ID + "/best.safetensors"
        and sent["epochs"] == 4
        and sent["optimizer"]["learning_rate"] == 0.025
    )


def test_a_failed_job_without_a_checkpoint_starts_again_with_a_tenth_of_the_rate(page):
    canned.show(page, failed(metrics={}))
    page.wait_text("#remedies", "Start again with a tenth of the rate")
    assert "half the rate" not in page.text("#remedies")
    assert "yet" not in page.text(".tiles"), "nothing comes any more"
    page.click("#remedies .btn")
    until("the job is submitted", lambda: page.script("return window.posted"))


def offered(page, optimizer, accuracies, epochs=6):
    """What is offered first to a job whose loss became NaN."""
    document = job(state="failed", error={"code": "not_finite", "message": "the loss became NaN"
                                          " or infinite: step 24 of worker 1"})
    document["spec"].update(epochs=epochs, optimizer=optimizer)
    failed = {"job": document, "artifacts": ["best.safetensors"], "tests": evaluations(accuracies)}
    return call(page, "/js/sentences/remedies.js", f"m.remedies({json.dumps(failed)})")[0]


def test_a_lost_node_is_no_reason_to_begin_again_nor_to_go_on_with_what_diverged(page):
    """A run that had diverged, and then lost a node, was offered to start again as it was."""
    document = job(state="failed", workers=[worker(0, "a"), worker(1, "b")], error={
        "code": "peer", "node": "b", "lost": "no progress",
        "message": "rank 1 on node 'b' is lost: no progress"})

    def titles(accuracies):
        failed = {"job": document, "artifacts": ["best.safetensors", "checkpoints"],
                  "tests": evaluations(accuracies)}
        found = call(page, "/js/sentences/remedies.js", f"m.remedies({json.dumps(failed)})")
        return found[0]["spec"], [r["title"] for r in found]
    spec, offers = titles([0.9, 0.95])
    assert offers[0] == "Go on from the last checkpoint" and "Start again as it was" in offers
    assert spec["init"] == {"path": canned.ID + "/checkpoints", "continue": True}
    spec, offers = titles([0.9, 0.95, 0.1])
    assert offers[0].startswith("Resume from the last good checkpoint")
    assert "Go on from the last checkpoint" not in offers
    told = {"losses": [2.3 + 0.12 * i for i in range(100)], "tests": evaluations([0.9, 0.1])}
    text = call(page, "/js/sentences/verdict.js",
                f"m.plain(m.verdict({json.dumps(document)}, [], {json.dumps(told)}).parts)")
    assert text.startswith("b was lost about step 1,000: no progress. Training diverged: ")


def test_a_job_that_used_its_time_is_offered_more_of_it(page):
    """"Start again as it was, if the cause is gone": it would have ended in the same place."""
    document = job(state="failed", seconds=24.1, error={
        "code": "timeout", "node": None, "message": "the job has used the 24 s"})
    document["spec"]["max_seconds"] = 24
    document["progress"]["fraction"] = 0.2
    failed = {"job": document, "artifacts": ["checkpoints"], "tests": []}

    def offers():
        return call(page, "/js/sentences/remedies.js", f"m.remedies({json.dumps(failed)})")
    goes_on, again = offers()
    assert "where it ended, with 2\u202fmin 20\u202fs;" in goes_on["effect"]
    assert again["title"] == "Start again with more time"
    assert f"in which it came 20.0{NARROW}% of the way" in again["effect"]
    assert goes_on["spec"]["max_seconds"] == again["spec"]["max_seconds"] == 140
    document["seconds"] = 3  # max_wall_seconds, while it waited for nodes
    assert [r["title"] for r in offers()][-1] == "Start again as it was"


def test_bad_data_are_not_put_down_to_a_node(page):
    """A data set with a NaN was answered by "Train without b"."""
    for code, offers in (("data", 0), ("device", 2)):
        cause = "cannot read data set 'x': " if code == "data" else ""
        document = job(state="failed", workers=[worker(0, "a"), worker(1, "b")], error={
            "code": code, "node": "b", "message": cause + "'x.npy' has the value nan"})
        text = call(page, "/js/sentences/verdict.js",
                    f"m.plain(m.verdict({json.dumps(document)}).parts)")
        assert text.startswith("b failed" if code == "device" else "The job failed: cannot read")
        failed = {"job": document, "artifacts": [], "tests": []}
        found = call(page, "/js/sentences/remedies.js", f"m.remedies({json.dumps(failed)})")
        assert len(found) == offers, found


def test_what_every_program_failed_of_is_not_put_down_to_one_node(page):
    """A program without memory on all nodes was answered by "Train without b"."""
    def why(rank, last):
        return (f"ts=2026-01-02T03:04:59.{3 - rank}00Z level=error mod=worker rank={rank} "
                f'msg="failed" why="the program of rank {rank} ended: {last}" said="{last}"\n')

    error = {"code": "invalid", "message": "the program of rank 1 ended", "rank": 1, "node": "b",
             "attempt": 1}
    for other, told in (("MemoryError: 12 TiB", False), ("ConnectionError: gone", True)):
        canned.show(page, job(state="failed", workers=[worker(0, "a"), worker(1, "b")],
                              error=error),
                    logs={"0": why(0, other), "1": why(1, "MemoryError: 12 TiB")})
        page.wait_text(".log-around .log-error", "12 TiB")
        until(f"whether it is offered after {other}", lambda: (  # noqa: B023
            "Train without b" in page.text("#remedies")) is told)  # noqa: B023
        assert ("has the same cause" in page.text(".consequences")) is not told


@pytest.mark.parametrize("step, said, told", [
    (0, "ValueError: no licence", False), (0, "ModuleNotFoundError: No module named 'x'", True),
    (50, "ValueError: no licence", True)])
def test_an_exception_at_the_start_is_put_down_to_a_node_that_may_lack_something(
        page, step, said, told):
    """The first one ends all programs, so the others had no time to fail alike."""
    document = job(state="failed", workers=[worker(0, "a"), worker(1, "b")],
                   error={"code": "invalid", "node": "b", "message": said,
                          "program": {"exception": said}}, progress={"step": step})
    found = call(page, "/js/sentences/remedies.js", "m.remedies(" + json.dumps(
        {"job": document, "artifacts": [], "tests": []}) + ")")
    assert ("Train without b" in [r["title"] for r in found]) is told, found


ABSENT = "FileNotFoundError: [Errno 2] No such file or directory: "


@pytest.mark.parametrize("said, step, hosts, title", [
    (ABSENT + "'/data/x.npy'", 0, "xyz", "Train without b"),
    (ABSENT + "'/data/x.npy'", 0, "xyy", "Train without b and c"),
    (ABSENT + "'/data/x.npy'", 50, "xyy", "Train without b and c"),
    (ABSENT + "'/data/x.npy'", 0, "yyy", None),
    ("ModuleNotFoundError: No module named 'x'", 0, "yyy", None),
    (ABSENT + "'data/x.npy'", 0, "xyz", None),
    (ABSENT + "b'x.npy'", 0, "xyz", None),
    (ABSENT + "'../x.npy'", 0, "xyz", "Train without b"),
    ("MemoryError: 1 TiB", 0, "yyy", "Train without b"),
    ("PermissionError: [Errno 13] Permission denied: '/data'", 0, "", "Train without b")])
def test_what_a_host_lacks_is_put_down_to_all_its_nodes(page, said, step, hosts, title):
    """A file that no node had was answered by "Train without b", also where all were on one host,
    or where it was looked for in the program's own folder, which all nodes get."""
    document = job(state="failed", workers=[worker(i, n) for i, n in enumerate("abc")],
                   error={"code": "invalid", "node": "b", "message": said,
                          "program": {"exception": said}}, progress={"step": step})
    nodes = [{"name": n, "host": h} for n, h in zip("abc", hosts)]
    found = call(page, "/js/sentences/remedies.js", "m.remedies(" + json.dumps(
        {"job": document, "artifacts": [], "tests": [], "nodes": nodes}) + ")")
    told = [r for r in found if r["title"].startswith("Train without")]
    assert [r["title"] for r in told] == ([title] if title else [])
    assert all(r["spec"]["nodes"] == [n for n in "abc" if n not in title.split()[2:]]
               and r["spec"]["workers"] == len(r["spec"]["nodes"]) for r in told)


def test_a_file_that_no_node_has_is_answered_by_how_data_are_opened(page):
    """All nodes of the service are on one host."""
    said = ABSENT + "'/data/x.npy'"
    canned.show(page, job(
        state="failed", workers=[worker(0, "fast-1"), worker(1, "mid")],
        error={"code": "invalid", "node": "mid", "message": said, "rank": 1, "attempt": 1,
               "program": {"exception": said, "exit_code": 1, "signal": None, "reason": None}},
        progress={"step": 0}), artifacts=[{"name": "checkpoints"}])
    page.wait_text(".evidence", "a path that each node has")
    page.wait_text("#remedies", "Go on from the last checkpoint")
    assert "Train without" not in page.text("#remedies")


def test_two_losses_at_one_step_do_not_lie_on_each_other(page):
    """It read "failed t", the end of "restart" behind it."""
    at = page.script("""
        return import('/js/views/job/happened/eventlane.js').then((m) => {
          const lane = Object.create(m.EventLane.prototype);
          Object.assign(lane, {node: {clientWidth: 900}, view: {narrow: false}});
          const mark = (kind) => ({kind, text: kind, title: '', x: 700});
          return lane.labels([mark('restart'), mark('failed')], (x) => x).map(
              (l) => [parseFloat(l.style.left), l.textContent]);
        })""")
    assert at[0] == [694, "restart"] and at[1][0] >= 694 + 16 + 7 * 6, at


def test_a_long_path_among_the_consequences_makes_no_phones_page_wider(page):
    def why(rank, text):
        return (f"ts=2026-01-02T03:04:59.{rank}00Z level=error mod=worker rank={rank} "
                f'msg="failed" why="cannot use /var/lib/evenstep/{text * 12}.safetensors"\n')
    try:
        page.resize(390)
        canned.show(page, job(state="failed", workers=[worker(0, "a"), worker(1, "b")],
                              error={"code": "data", "message": "cannot use the file", "rank": 0,
                                     "node": "a", "attempt": 1}),
                    logs={"0": why(0, "checkpoint"), "1": why(1, "anotherfile")})
        page.wait_text(".consequences", "anotherfile")
        assert page.script("return document.documentElement.scrollWidth") <= 390
    finally:
        page.resize_back()


@pytest.mark.parametrize("schedule, rate, wanted", [
    ({"type": "step", "at_epochs": [2], "factor": 1000}, 0.1, None),
    ({"type": "step", "at_epochs": [2, 4], "factor": 1000}, 0.1, None),
    ({"type": "cosine", "floor": 0.3}, 0.1125, None),
    ({"type": "step", "at_epochs": [2, 4], "factor": 0.1}, 0.01,
     {"type": "step", "at_epochs": [2], "factor": 0.1}),
])
def test_a_job_is_resumed_at_half_the_rate_that_made_the_checkpoint_which_never_rises(
    page, schedule, rate, wanted
):
    made = offered(page, {"learning_rate": 0.2, "schedule": schedule}, [0.3, 0.9])
    optimizer = made["spec"]["optimizer"]
    assert made["button"] == "Resume from epoch 2" and optimizer.get("schedule") == wanted
    assert optimizer["learning_rate"] == pytest.approx(rate)


def test_parameters_that_only_guess_are_no_good_checkpoint(page):
    made = offered(page, {"learning_rate": 0.2}, [0.11, 0.1])
    assert made["title"] == "Start again with a tenth of the rate" and "init" not in made["spec"]


@pytest.mark.parametrize("args, wanted", [
    (["--epochs", "3", "--lr", "0.5", "-v"], ["--epochs", "3", "--lr", "0.05", "-v"]),
    (["--learning-rate=2e-3"], ["--learning-rate=0.0002"]),
    (["--lr", "auto"], None), (["--lr"], None), (["0.5"], None),
])
def test_a_program_that_is_given_its_rate_starts_again_with_a_tenth(page, args, wanted):
    document = failed()
    document["spec"] = {"name": "mine", "program": {"digest": "d", "args": args}, "workers": 2}
    made = call(page, "/js/sentences/remedies.js", "m.remedies(" + json.dumps(
        {"job": document, "artifacts": [], "tests": evaluations([0.9])}) + ")")
    assert [m["spec"]["program"]["args"] for m in made] == ([wanted] if wanted else [])
    said = call(page, "/js/sentences/failure.js", f"m.failure({json.dumps(document)})")
    assert said["evidence"].endswith("The program sets its own: a smaller one is the first to try.")


@pytest.mark.parametrize("tests, artifacts, wanted", [
    ([0.3, 0.9], ["best.safetensors"], ("Start from epoch 2", ["--lr", "0.25"])),
    ([0.3, 0.9], [], ("Start again", ["--lr", "0.05"])),
    ([], ["best.safetensors"], ("Start again", ["--lr", "0.05"])),
])
def test_a_program_whose_loss_became_nan_starts_from_its_best_parameters_with_half_the_rate(
        page, tests, artifacts, wanted):
    document = failed()
    document["spec"] = {"name": "mine", "program": {"digest": "d", "args": ["--lr", "0.5"]},
                        "workers": 2}
    made, = call(page, "/js/sentences/remedies.js", "m.remedies(" + json.dumps(
        {"job": document, "artifacts": artifacts, "tests": evaluations(tests)}) + ")")
    assert (made["button"], made["spec"]["program"]["args"]) == wanted
    best = document["id"] + "/best.safetensors" if "epoch" in made["button"] else None
    assert made["spec"].get("init") == best


def test_a_program_whose_cause_may_be_mended_goes_on_from_its_last_checkpoint(page):
    document = job(state="failed", error={
        "code": "invalid", "message": "OSError: [Errno 28] No space left on device",
        "program": ended(exception="OSError")})
    document["spec"] = {"name": "mine", "program": {"digest": "d"}, "workers": 2}
    made, = call(page, "/js/sentences/remedies.js", "m.remedies(" + json.dumps(
        {"job": document, "artifacts": ["checkpoints"], "tests": []}) + ")")
    assert made["button"] == "Go on"
    assert made["spec"]["init"] == {"path": document["id"] + "/checkpoints", "continue": True}


def told(node):
    return (f"the program of rank {int(node == 'b')} on '{node}' cannot go on: "
            f"ValueError: sizes differ (train.py, line 10)")


def ended(**fields):
    return {"exit_code": None, "signal": None, "exception": None, "file": None, "line": None,
            "reason": None, "last_line": None, "every_rank": None, **fields}


RAISED = {"exception": "ValueError: sizes differ", "file": "train.py", "line": 10}


@pytest.mark.parametrize("program, sentence", [
    ({**RAISED, "every_rank": {"epoch": 2, "step": 1}},
     "The program of every node failed in step 1 of epoch 2: ValueError: sizes differ (train.py, "
     "line 10)."),
    (RAISED, "The program on b failed: ValueError: sizes differ (train.py, line 10)."),
    ({**RAISED, "exit_code": 1, "file": None, "last_line": "later"},
     "The program on b failed: ValueError: sizes differ."),
    ({"exit_code": 3, "last_line": "the program of rank 1 on 'b' cannot go on: no such file."},
     "The program on b ended with exit code 3: the program of rank 1 on 'b' cannot go on: no such "
     "file."),
    ({"exit_code": 3}, "The program on b ended with exit code 3."),
    ({"reason": "the rows are too long"}, "The program on b failed: the rows are too long."),
    ({"signal": "SIGSEGV", "last_line": "loads"}, "The program on b was ended by SIGSEGV: loads."),
])
def test_a_programs_end_is_the_sentence(page, program, sentence):
    document = job(state="failed", progress=None, error={
        "code": "program", "node": "b", "message": "as ranks tell it", "program": ended(**program)})
    text = call(page, "/js/sentences/verdict.js",
                f"m.plain(m.verdict({json.dumps(document)}).parts)")
    assert text == sentence


def test_words_of_a_program_name_no_step_of_the_run(page):
    """The sentence was "failed about step 999", out of what the program had said; and while the job
    waited for its next attempt, the message stood there with all the ranks that told it."""
    error = {"code": "invalid", "node": "b", "message": "ValueError: no step 999",
             "program": ended(exception="ValueError: no step 999", file="a.py", line=3)}
    said = "The program on b failed about step 20: ValueError: no step 999 (a.py, line 3)."
    for state, part in (("failed", "parts"), ("queued", "evidence")):
        document = job(state=state, error=error, attempt=1)
        document["progress"]["step"] = 20
        asked = f"m.verdict({json.dumps(document)}).{part}"
        asked = f"m.plain({asked})" if part == "parts" else asked
        assert call(page, "/js/sentences/verdict.js", asked).startswith(said)


def test_what_a_program_never_told_is_no_number(page):
    """The head said B = none, each node had a minibatch of 0, and programs that no rank started
    again were "not yet" back, while "the other nodes went on"."""
    again = ("ts=2026-01-02T03:02:00.000Z level=warn mod=program rank={} msg=\"is started again\" "
             "why=\"it cannot go on\" said=\"KeyError: 'x' (a.py, line 2)\"\n")
    document = job(state="failed", progress=None, assignment=None,
                   workers=[worker(0, "a", batch=0), worker(1, "b", batch=0)], error={
                       "code": "program", "message": "both ended", "node": "a", "rank": 0,
                       "program": ended(exit_code=1)})
    document["spec"].update(program={"name": "mine"}, batching={"policy": "dynamic"})
    canned.show(page, document, logs={"0": again.format(0), "1": again.format(1)})
    page.wait_text("#crashes", "2 times, 0 of them came back")
    assert re.search(r"KeyError: 'x' \(a.py, line 2\)\s+never", page.text("#crashes tbody"))
    assert "B = " not in page.text(".job-head"), page.text(".job-head")
    rows = page.text("tr[data-node=a]")
    assert re.search(r"^a\s+cpu:1\s+none", rows), rows


def test_a_programs_traceback_stands_as_it_was_printed(page):
    """It was one paragraph with bars between its lines, and of two ranks that failed alike the
    first was offered to be left out."""
    traceback = ["Traceback (most recent call last):", '  File "train.py", line 10, in <module>',
                 "    go()", "ValueError: sizes differ", "\t(3,) and (4,)"]

    def log(rank, node, minute):
        says = [f'ts=2026-01-02T03:0{minute}:59.00{i}Z level=info mod=program msg="says" '
                f'rank={rank} line={json.dumps(line)}' for i, line in enumerate(traceback)]
        return "\n".join([*says, f"ts=2026-01-02T03:0{minute}:59.10{rank}Z level=error mod=worker "
                          f'msg="failed" rank={rank} why={json.dumps(told(node))} '
                          'said="ValueError: sizes differ (train.py, line 10)"', ""])

    both = {"0": log(0, "a", 4) + log(0, "a", 6), "1": log(1, "b", 4) + log(1, "b", 6)}
    canned.show(page, job(state="failed", workers=[worker(0, "a"), worker(1, "b")], error={
        "code": "program", "message": told("a"), "rank": 0, "node": "a", "attempt": 2,
        "program": ended(**RAISED)}), logs=both)
    until("the traceback is there", lambda: page.script(
        "return document.querySelector('.traceback')?.textContent") == "\n".join(traceback))
    assert page.text(".first-error").count("sizes differ") == 1
    page.wait_text("#verdict", "^The program of every node failed.*: ValueError: sizes differ")
    page.wait_text(".consequences", "1 later error has the same cause")
    assert "rank 1 on" not in page.text(".consequences")
    assert "Train without" not in page.text("#remedies")
