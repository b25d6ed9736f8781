"""The command line against the real service: its output and its exit status."""
import csv
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios

import pytest
import requests

from service import BUILD, Service, processes_of, spec, until

EVENSTEP = str(BUILD / "evenstep")
COMMANDS = """serve run submit sweep sweeps jobs show watch logs events cancel pause resume priority
    artifacts download tag delete compare series steps staleness assignments evaluations norms
    confusion evaluate export nodes load drain enable disable forget catalog datasets programs link
    token owners webhooks accounting audit disk whoami metrics completion manual""".split()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Service(nodes=["fast=cpu:1,slowdown=2", "slow=cpu:1,slowdown=4"],
                 data=tmp_path_factory.mktemp("data")) as s:
        yield s


def run(*args, service=None, cwd="/tmp", text=None, **env):
    """stdout, stderr and status of `evenstep ARGS`."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("EVENSTEP_")}
    if service:
        plain.update(EVENSTEP_URL=service.url, EVENSTEP_TOKEN=service.token)
    done = subprocess.run([EVENSTEP, *args], capture_output=True, text=True, timeout=180,
                          input=text, cwd=cwd, env={**plain, **env})
    return done.stdout, done.stderr, done.returncode


def test_help_names_every_command_and_every_command_has_its_own():
    out, _, status = run("--help")
    assert status == 0 and all(re.search(rf"^  {c} ", out, re.M) for c in COMMANDS)
    for command in COMMANDS:
        own, _, status = run(command, "--help")
        assert status == 0 and own.startswith(f"usage: evenstep {command}") and "--help" in own
    usage = "usage: evenstep token create|list|revoke [NAME|ID…]"
    assert run("token", "--help")[0].startswith(usage)
    assert re.match(r"evenstep \d+\.\d+", run("--version")[0])


@pytest.mark.parametrize("columns", [40, 80])
def test_help_is_as_wide_as_the_terminal_at_most(columns):
    for words in ([], *([c] for c in COMMANDS)):
        out, _, status = run(*words, "--help", COLUMNS=str(columns))
        lines = [line for line in out.splitlines() if not line.startswith("usage: ")]
        long = [line for line in lines if len(line) > columns and line.strip().count(" ")]
        assert status == 0 and not long, (words, long)


def test_a_command_that_is_used_wrongly_ends_with_status_2_and_says_how_it_is_used():
    assert run()[2] == 2
    for word, meant in (("shwo", "show"), ("ls", "jobs")):  # a slip, and its name elsewhere
        assert run(word)[0::2] == ("", 2) and f"; did you mean '{meant}'?" in run(word)[1]
    assert run("show") == ("", "usage: evenstep show ID\n", 2)
    _, err, status = run("jobs", "--jsno")
    assert status == 2 and "--json" in err


def test_a_wrong_option_says_what_is_expected():
    for option, said in ((("--limit", "x"), "--limit: expected a whole number from 1 to "),
                         (("--limit", "1.5"), "--limit: expected a whole number from 1 to "),
                         (("--limit", "0"), "--limit: expected a whole number from 1 to "),
                         (("--accuracy", "2"), "--accuracy: expected a number from 0 to 1"),
                         (("--zzz",), "there is no option '--zzz'; --help lists")):
        out, err, status = run("jobs", *option)
        assert status == 2 and not out and said in err, err


def test_without_a_token_or_a_service_it_says_what_to_do(tmp_path):
    out, err, status = run("jobs", cwd=tmp_path)
    assert status == 2 and "there is no token" in err and "EVENSTEP_TOKEN" in err
    out, err, status = run("jobs", cwd=tmp_path, EVENSTEP_TOKEN="")
    assert status == 2 and "there is no token" in err
    _, err, status = run("jobs", EVENSTEP_URL="http://127.0.0.1:9", EVENSTEP_TOKEN="x\nX-Y: z")
    assert status == 2 and "the token has a space, a control character" in err
    _, err, status = run("jobs", EVENSTEP_URL="http://127.0.0.1:9", EVENSTEP_TOKEN="x")
    assert status == 3 and "cannot reach http://127.0.0.1:9" in err and "evenstep serve" in err


def test_an_answer_that_cannot_be_written_is_no_success(service):
    for words in (["jobs"], ["jobs", "--json"], ["catalog"], ["--help"], ["completion", "bash"]):
        with open("/dev/full", "w", encoding="ascii") as full:
            env = {**os.environ, "EVENSTEP_URL": service.url, "EVENSTEP_TOKEN": service.token}
            done = subprocess.run([EVENSTEP, *words], stdout=full, stderr=subprocess.PIPE,
                                  text=True, env=env, timeout=60, check=False)
        assert done.returncode == 5, words
        assert "cannot write the answer" in done.stderr and done.stderr.count("\n") == 1, words


def test_a_wrong_token_is_refused_and_a_file_with_the_right_one_is_enough(service, tmp_path):
    _, err, status = run("jobs", EVENSTEP_URL=service.url, EVENSTEP_TOKEN="wrong")
    assert status == 7 and "token" in err
    assert run("jobs", "--url", service.url, "--token-file", str(service.dir / "token"))[2] == 0
    (tmp_path / "evenstep-data").mkdir()
    default = tmp_path / "evenstep-data" / "token"
    default.write_text(service.token + "\n")
    assert run("jobs", "--url", service.url, cwd=tmp_path)[2] == 0


def test_a_proxy_in_the_environment_is_not_asked_for_this_machine(service):
    proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    assert run("nodes", service=service, **proxies)[2] == 0


def test_a_job_is_submitted_watched_to_its_end_and_shown(service, tmp_path):
    (tmp_path / "job.json").write_text(json.dumps(spec(name="by-hand", epochs=4)))
    out, err, status = run("submit", "--watch", str(tmp_path / "job.json"), "--url", service.url,
                           "--token-file", str(service.dir / "token"))
    lines = out.splitlines()
    assert (status, err) == (0, "") and re.fullmatch("[0-9a-f]{16}", lines[0])
    assert all(part in lines[-1] for part in ["succeeded", "100 %", "accuracy", "█"])
    id = lines[0]
    shown, _, status = run("show", id, service=service)
    assert status == 0 and shown.startswith(f"{id}  by-hand  succeeded, attempt 1\n")
    assert "step 160, 10240 samples" in shown and " fast " in shown and " slow " in shown
    assert json.loads(run("show", id, "--json", service=service)[0])["id"] == id
    table = run("jobs", service=service)[0].splitlines()
    line = next(line for line in table if line.startswith(id))
    assert "by-hand" in line and "succeeded" in line and "100.00 %" in line
    assert run("watch", id, service=service)[2] == 0  # over already


def test_a_job_may_come_from_standard_input_and_a_dry_run_queues_nothing(service):
    before = len(service.get("jobs").json()["jobs"])
    out, _, status = run("submit", "-", "--dry-run", service=service, text=json.dumps(spec()))
    assert status == 0 and out.startswith("the job is valid: 101770 parameters, 2560 training s")
    assert re.search(r"^ +0  fast +cpu:1 +32 +\S+ MiB$", out, re.M), out
    assert "warning" not in out
    large = json.dumps(spec(batching={"global_batch": 5000}))
    out, _, status = run("submit", "-", "--dry-run", service=service, text=large)
    assert status == 0 and out.endswith("\nwarning: /batching/global_batch: the training set has "
                                        "2560 samples; a step takes at most 2560\n"), out
    out, _, status = run("submit", "-", "--dry-run", "--json", service=service,
                         text=json.dumps(spec()))
    assert status == 0 and [n["batch"] for n in json.loads(out)["nodes"]] == [32, 32]
    assert len(service.get("jobs").json()["jobs"]) == before
    out, _, status = run("submit", "-", service=service, text=json.dumps(spec(epochs=1)))
    assert status == 0 and service.job(out.strip())["state"]
    service.wait(out.strip(), "succeeded")


def test_every_mistake_of_a_spec_is_printed_with_its_place(service, tmp_path):
    bad = spec(epochs=0, modle="mlp", strategy={"type": "snyc"}, batching={"global_batch": 1},
               **{f"unknown{i}": i for i in range(20)})
    out, err, status = run("submit", "-", service=service, text=json.dumps(bad))
    pointers = ["epochs", "modle", "strategy/type", "unknown0", "unknown19"]
    assert status == 7 and not out and all(f"  /{p}: " in err for p in pointers)
    assert "'sync'" in err
    (tmp_path / "torn.json").write_text('{"name": "a",\n "name"')
    for path, says in ((tmp_path / "torn.json", "torn.json.*line 2"), (tmp_path / "gone", "gone"),
                       ("-", "standard input: there is no JSON: the text is empty")):
        _, err, status = run("submit", str(path), service=service, text=" \n")
        assert status == 2 and re.search(says, err), err


def test_pause_resume_and_cancel(service):
    job = spec(epochs=1000, checkpoint={"every_steps": 50})
    id = run("submit", "-", service=service, text=json.dumps(job))[0].strip()
    service.steps(id, 20)
    assert run("pause", id, service=service) == (f"{id} pausing\n", "", 0)
    service.wait(id, "paused")
    assert run("pause", id, service=service) == (f"{id} paused\n", "", 0), "it is already"
    assert run("resume", id, service=service)[2] == 0
    service.wait(id, "running")
    assert run("cancel", id, service=service)[2] == 0
    out, err, status = run("watch", id, service=service)
    assert status == 4 and "cancelled" in out.splitlines()[-1]
    _, err, status = run("pause", id, service=service)
    assert status == 7 and "its state is cancelled, and only a running one can be paused" in err
    until("no process is left", lambda: not processes_of(id))


@pytest.fixture
def draining(service):
    assert service.post("nodes/slow/drain").ok
    yield
    assert service.post("nodes/slow/enable").ok


def test_a_job_that_waits_says_for_what(service, draining):
    id = run("submit", "-", service=service, text=json.dumps(spec()))[0].strip()
    why = "waits: it asks for 2 workers, and 1 of the 2 nodes is lost, draining or disabled"
    until("it is known why", lambda: why in run("show", id, service=service)[0])

    def listed(state):
        return run("jobs", "-q", "--state", state, service=service)[0].split()
    assert id in listed("queued") and id not in listed("running")
    run("cancel", id, service=service)


def test_lists_go_on_over_pages(service, draining):
    ids = [service.submit(spec(name=f"page-{i}")) for i in range(105)]
    out = run("jobs", "--state", "queued", "--limit", "104", service=service)[0]
    assert [line.split()[0] for line in out.splitlines()[1:]] == ids[::-1][:104]
    one = json.loads(run("jobs", "--state", "queued", "--json", service=service,
                         EVENSTEP_LIMIT="200")[0])
    assert [job["id"] for job in one["jobs"]] == ids[::-1] and one["next"] is None
    for id in ids:
        service.post(f"jobs/{id}/cancel")


def test_an_unknown_job_is_named_and_a_word_never_becomes_another_path(service):
    for odd in ("0123456789abcdef", "../nodes", "a?b&state=queued", "x" * 100):
        _, err, status = run("show", odd, service=service)
        assert status == 6 and odd in err, err
    for odd in ("", "x" * 200):
        _, err, status = run("show", odd, service=service)
        assert status == 2 and "is neither the id nor the name of a job" in err


def test_a_job_is_found_by_its_name_or_the_beginning_of_its_id(service, draining):
    ids = [service.submit(spec(name=name)) for name in ("named-so", "twice", "twice")]
    assert json.loads(run("show", "named-so", "--json", service=service)[0])["id"] == ids[0]
    assert json.loads(run("show", ids[0][:12], "--json", service=service)[0])["id"] == ids[0]
    _, err, status = run("cancel", "twice", service=service)
    assert status == 2 and all(f"  {id}  twice  queued" in err for id in ids[1:])
    _, err, status = run("show", "nmaed-so", service=service)
    assert status == 6 and "did you mean 'named-so'?" in err
    for id in ids:
        assert run("cancel", id, service=service)[2] == 0


@pytest.fixture(scope="module")
def done(service):
    """Two jobs that succeeded and differ in their strategy and epochs."""
    ids = [service.submit(spec(name="level", epochs=2)),
           service.submit(spec(name="ahead", epochs=3, strategy={"type": "asgd"}))]
    for id in ids:
        service.wait(id, "succeeded")
    return ids


def rows(out):
    return [line.split() for line in out.splitlines()]


def test_what_a_job_left_is_listed_downloaded_and_deleted(service, done, tmp_path):
    out, _, status = run("artifacts", "level", service=service)
    assert status == 0 and "model.safetensors" in out
    out, err, status = run("download", "level", "model.safetensors", "-o", str(tmp_path / "into"),
                           service=service)
    assert (status, err) == (0, "") and out == f"{tmp_path}/into/model.safetensors\n"
    there = tmp_path / "into/model.safetensors"
    assert there.read_bytes() == service.artifact(done[0])
    _, err, status = run("download", "level", "model.safetensor", service=service, cwd=tmp_path)
    assert status == 6 and "model.safetensor" in err and not list(tmp_path.glob("model*"))
    _, err, status = run("download", "level", "--output", str(there), service=service)
    assert status == 5 and "model.safetensors" in err
    id = service.submit(spec(name="goes", epochs=1))
    service.wait(id, "succeeded")
    assert run("delete", "goes", service=service) == (f"{id} deleted\n", "", 0)
    assert run("delete", "goes", service=service)[2] == 6
    assert service.get("jobs/" + id).status_code == 404


def test_figures_are_tables_and_json(service, done):
    for command in ("series", "steps", "staleness", "assignments", "evaluations", "norms",
                    "confusion"):
        out, err, status = run(command, "ahead", service=service)
        assert (status, err) == (0, "") and len(out.splitlines()) > 1, command
        answer = json.loads(run(command, "ahead", "--json", service=service)[0])
        assert isinstance(answer, dict), command
    head, *lines = rows(run("staleness", "ahead", service=service)[0])
    assert head[0] == "node" and sorted(line[0] for line in lines) == ["fast", "slow"]
    for command in ("series", "evaluations", "norms"):
        table = list(csv.DictReader(run(command, "ahead", "--csv", service=service)[0].split()))
        assert table and all(len(row) == len(table[0]) and None not in row for row in table)
    assert {row["tensor"] for row in table} >= {"dense1.weight", "dense2.bias"}, table[0]


def test_jobs_are_compared_in_what_differs(service, done):
    out, _, status = run("compare", *done, service=service)
    table = {line[0]: line[1:] for line in rows(out) if line}
    assert status == 0 and table["/strategy/type"] == ["sync", "asgd"]
    assert table["/epochs"] == ["2", "3"] and table["state"] == ["succeeded", "succeeded"]
    assert "/seed" not in table
    answer = json.loads(run("compare", *done, "--json", service=service)[0])
    assert {"pointer": "/epochs", "values": [2, 3]} in answer["differences"]


def test_a_tables_lines_are_as_wide_as_the_terminal_at_most(service, done):
    wide = run("jobs", service=service)[0]
    assert max(map(len, wide.splitlines())) > 60
    for columns in (40, 60):
        narrow = run("jobs", service=service, COLUMNS=str(columns))[0]
        assert max(map(len, narrow.splitlines())) <= columns
        assert all(word in narrow for word in wide.splitlines()[0].split()), "no column is lost"
    assert done[0] in narrow, "ids stay whole"


@pytest.mark.parametrize("command", [
    "show ahead", "steps ahead", "norms ahead", "assignments ahead", "confusion ahead", "disk",
    "nodes", "load fast", "catalog", "owners", "audit"])
def test_at_forty_columns_lines_fit_and_numbers_and_times_stay_whole(service, done, command):
    out, err, status = run(*command.split(), service=service, COLUMNS="40")
    assert (status, err) == (0, "") and max(map(len, out.splitlines())) <= 40
    # the beginning of an id may be all digits
    assert not re.search(r"^\d{4}-\S*…|:\S*…| \d{1,9}(\.\d*)?…( |$)", out, re.M)


def test_priority_is_changed_and_what_is_no_number_is_not_sent(service, draining):
    id = service.submit(spec())
    assert run("priority", id, "7", service=service) == (f"{id} priority 7\n", "", 0)
    assert service.job(id)["priority"] == 7
    assert run("priority", id, "high", service=service)[2] == 2
    assert json.loads(run("priority", id, "1", "--json", service=service)[0])["priority"] == 1
    run("cancel", id, service=service)


def test_tags_are_added_and_taken_away_one_by_one_and_jobs_are_found_by_them(service, draining):
    id = service.submit(spec(name="tagged", tags=["old"]))
    assert run("tag", id, "+new", "-old", "--note", "two words", service=service) == (
        f"{id} new\ntwo words\n", "", 0)
    assert run("tag", id, service=service)[0] == f"{id} new\ntwo words\n"
    assert run("tag", id, "+new", "+b/2", "--note", "", service=service)[0] == f"{id} new b/2\n"
    assert run("tag", id, "new", service=service)[2] == 2
    _, err, status = run("tag", id, "+two words", service=service)
    assert status == 7 and "begins with a letter or a digit" in err
    other = service.submit(spec(name="other", tags=["new"], strategy={"type": "local-sgd"}))

    def found(*options):
        return run("jobs", "-q", "--tag", "new", *options, service=service)[0].split()

    assert found() == [other, id] and found("--sort", "created") == [id, other]
    assert found("--tag", "new,b/2") == found("--strategy", "sync") == [id]
    assert found("--where", "spec.batching.policy=equal,name=other", "--model", "mlp") == [other]
    assert found("--accuracy", "0.5") == []
    _, err, status = run("jobs", "--where", "spec.strateg=1", service=service)
    assert status == 7 and "did you mean 'strategy'?" in err
    for job in (id, other):
        run("cancel", job, service=service)


def test_nodes_are_drained_enabled_disabled_and_not_forgotten_while_they_report(service):
    for command, state in (("drain", "draining"), ("disable", "disabled"), ("enable", "ready")):
        assert run(command, "slow", service=service) == (f"slow {state}\n", "", 0)
        assert service.get("nodes/slow").json()["state"] == state
    _, err, status = run("forget", "slow", service=service)
    assert status == 7 and "still reports" in err
    _, err, status = run("drain", "solw", service=service)
    assert status == 6 and "did you mean 'slow'?" in err


def test_a_node_is_shown_whole_with_a_line_for_each_value(service):
    out, _, status = run("nodes", "fast", service=service, COLUMNS="80")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert status == 0 and not re.search(r"[{\[…]", out)
    node = service.get("nodes/fast").json()
    assert lines["versions.evenstep"] == node["versions"]["evenstep"]
    assert lines["precisions"] == ", ".join(node["precisions"])
    assert (lines["labels"], lines["job"], lines["state"]) == ("-", "-", "ready")


def test_a_slip_in_a_data_sets_name_is_told_with_the_nearest(service):
    digits = service.data / "digits"
    digits.mkdir(parents=True)
    for part, n in (("train", 8), ("t10k", 4)):
        (digits / f"{part}-images-idx3-ubyte").write_bytes(
            struct.pack(">IIII", 2051, n, 8, 8) + bytes(n * 64))
        (digits / f"{part}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 2049, n) + bytes(range(n)))
    assert ["digits", "idx"] in [r[:2] for r in rows(run("datasets", service=service)[0])]
    job = spec(data={"format": "idx", "path": "digist"})
    _, err, status = run("submit", "-", service=service, text=json.dumps(job))
    assert status == 7 and "did you mean 'digits'?" in err and err.count("cannot find") == 1, err
    told = service.post("jobs?dryRun=true", job).json()["errors"][0]  # the form's message
    assert told["message"].endswith("; did you mean 'digits'?"), told


def test_json_is_alone_on_stdout(service, done):
    job = json.dumps(spec(name="alone", epochs=1))
    out, err, status = run("submit", "-", "--watch", "--json", service=service, text=job)
    assert status == 0 and json.loads(out)["state"] == "succeeded" and "100 %" in err
    for command in (["show", "level"], ["artifacts", "level"], ["nodes"], ["nodes", "fast"],
                    ["datasets"], ["programs"], ["catalog"], ["link"], ["whoami"], ["metrics"],
                    ["disk"], ["load", "fast"], ["confusion", "level"],
                    ["enable", "slow"], ["watch", "level"]):
        out, _, status = run(*command, "--json", service=service)
        assert status == 0 and json.loads(out), command
    out, err, status = run("show", "nowhere", "--json", service=service)
    assert (out, status) == ("", 6) and "nowhere" in err


def watched(service, id, term, columns=70):
    """What `evenstep watch` writes to such a terminal until the job ends."""
    mine, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 20, columns, 0, 0))
    plain = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    plain.update(EVENSTEP_URL=service.url, EVENSTEP_TOKEN=service.token, TERM=term)
    watch = subprocess.Popen([EVENSTEP, "watch", id], stdout=its, env=plain)
    os.close(its)
    drawn = b""
    while True:
        try:
            drawn += os.read(mine, 65536)
        except OSError:  # its end is closed
            break
    os.close(mine)
    assert watch.wait() == 0
    return drawn.decode()


def test_watch_on_a_terminal_that_cannot_draw_prints_a_line_per_tenth(service):
    drawn = watched(service, service.submit(spec(name="dumb", epochs=3)), "dumb")
    assert "\x1b" not in drawn and "succeeded [" in drawn, drawn


def test_watch_on_a_terminal_draws_a_bar_for_each_node(service):
    """Text is cleared before it is drawn over, and no line is wider than the terminal."""
    drawn = watched(service, service.submit(spec(name="seen", epochs=30)), "xterm")
    last = drawn.split("\r\x1b[J")[-1].splitlines()
    assert last[0].startswith("succeeded [") and "accuracy" in last[0]
    assert [line.split()[0] for line in last[1:3]] == ["fast", "slow"]
    assert "█" in last[1] and "computes" in last[3] and all(len(line) < 70 for line in last)


def test_watch_on_a_narrow_terminal_has_short_bars(service):
    drawn = watched(service, service.submit(spec(name="narrow", epochs=3)), "xterm", 40)
    last = drawn.split("\x1b[J")[-1].splitlines()  # long bars left no room for figures
    assert "100 %" in last[0] and all(len(line) < 40 for line in last), last
    assert all("/s" in line for line in last[1:3]), last


@pytest.mark.parametrize("words, last", [("logs --rank 0 --follow", "ready"), ("watch", "paused"),
                                         ("events", "paused")])
def test_what_goes_on_ends_when_nobody_reads_it_any_more(service, words, last):
    """As before `| head -1`, even while there is nothing to print."""
    id = service.submit(spec(name="read", epochs=3000))
    until("it runs", lambda: service.job(id)["state"] == "running")
    env = dict(os.environ, EVENSTEP_URL=service.url, EVENSTEP_TOKEN=service.token)
    told = subprocess.Popen([EVENSTEP, *words.split(), id], stdout=subprocess.PIPE, text=True,
                            env=env)
    assert told.stdout.readline()
    service.post(f"jobs/{id}/pause")
    until("it is paused", lambda: service.job(id)["state"] == "paused")
    if last != "ready":
        assert any(last in line for line in told.stdout)
    told.stdout.close()
    try:
        assert told.wait(30) == -signal.SIGPIPE
    finally:
        told.kill()
        service.post(f"jobs/{id}/cancel")


def test_nodes_and_the_catalogue_are_listed(service):
    out, _, status = run("nodes", service=service)
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == ["node", "fast", "slow"]
    out, _, status = run("catalog", service=service)
    assert status == 0 and re.search(r"^  asgd +\S", out, re.M)
    assert re.search(r"^      learning_rate +", out, re.M)
    assert "asgd" in json.dumps(json.loads(run("catalog", "--json", service=service)[0]))


def test_a_link_is_good_for_one_session(service):
    out, _, status = run("link", service=service)
    address, code = out.strip().split("/#token=")
    assert status == 0 and address == service.url

    def session():
        return requests.post(service.url + "/api/v1/session", json={"token": code},
                             headers={"Origin": service.url}, timeout=30).status_code
    assert session() < 300 and session() == 401


def test_two_services_do_not_share_a_data_directory(service):
    out, err, status = run("serve", "--data-dir", str(service.dir), "--listen", "127.0.0.1:0")
    assert status == 1 and "another evenstep serve works in" in err
    assert service.get("nodes").status_code == 200


def test_a_port_that_is_in_use_is_told_and_nothing_is_left(service, tmp_path):
    _, err, status = run("serve", "--data-dir", str(tmp_path / "other"),
                         "--listen", service.url.split("//")[1])
    assert status == 1 and "Address already in use" in err and "choose another --listen" in err
    assert not processes_of(str(tmp_path / "other"))


def test_without_mpirun_a_job_fails_and_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "redis-server").symlink_to(shutil.which("redis-server"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with Service(nodes=("a=cpu:1",)) as s:
        monkeypatch.undo()
        id = s.submit(spec(workers=1, max_restarts=0))
        error = s.wait(id, "failed")["error"]["message"]
        assert "cannot start 'mpirun'" in error and "openmpi-bin" in error
