"""What is generated from the table of commands: completions for shells, and the manual. Bash really
completes, with a service that it asks for names; zsh, fish and mandoc read theirs if they are
installed."""
import json
import os
import pty
import re
import select
import shutil
import subprocess

import pytest

from programs import ROOT
from service import BUILD, Service, spec, until
from test_data_upload import stripes

EVENSTEP = str(BUILD / "evenstep")
SHARED = {"--url", "--token-file", "--cacert", "--pin", "--json", "--help"}


def printed(*args):
    return subprocess.run([EVENSTEP, *args], check=True, capture_output=True, text=True).stdout


def commands():
    return re.findall(r"^  ([a-z]+) ", printed("--help").split("Exit status")[0], re.M)


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("bash") / "evenstep"
    path.write_text(printed("completion", "bash"))
    return path


def complete(script, *words, cwd="/", env=None, program=EVENSTEP):
    """Bash's completions for the last of these words."""
    ask = """
        source "$1"
        shift
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        _evenstep
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(["bash", "--norc", "-c", ask, "bash", script, program, *words],
                          check=True, capture_output=True, text=True, cwd=cwd,
                          env={"PATH": os.environ["PATH"], **(env or {})})
    assert not done.stderr, done.stderr
    return set(done.stdout.split())


# ---- bash ------------------------------------------------------------------------------------


def test_bash_takes_it(script):
    subprocess.run(["bash", "-n", script], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "-s", "bash", script], check=True)


def test_bash_completes_commands_options_and_words(script):
    assert complete(script, "") == {*commands(), "--help", "--version"}
    assert complete(script, "dr") == {"drain"}
    assert complete(script, "logs", "--") == {"--all", "--follow", "--rank", "--tail",
                                              *SHARED}
    assert complete(script, "submit", "--w") == {"--watch"}
    assert complete(script, "completion", "") == {"bash", "zsh", "fish"}
    assert complete(script, "jobs", "") == set()
    assert complete(script, "token", "") == {"create", "list", "revoke"}
    assert complete(script, "webhooks", "") == {"create", "list", "show", "delete"}
    assert complete(script, "datasets", "u") == {"upload"}


def test_bash_completes_files_and_folders_where_they_are_meant(script, tmp_path):
    (tmp_path / "job.json").touch()
    (tmp_path / "job").mkdir()
    assert complete(script, "submit", "j", cwd=tmp_path) == {"job.json", "job"}
    assert complete(script, "jobs", "--token-file", "j", cwd=tmp_path) == {"job.json", "job"}
    assert complete(script, "run", "--output", "j", cwd=tmp_path) == {"job"}
    assert complete(script, "run", "--workers", "2", "j", cwd=tmp_path) == {"job.json", "job"}
    assert complete(script, "jobs", "--state", "j", cwd=tmp_path) == set()
    assert complete(script, "jobs", "--state", "f") == {"failed"}
    assert complete(script, "accounting", "--by", "") == {"owner", "job", "day"}
    assert complete(script, "link", "--role", "v") == {"viewer"}
    assert complete(script, "submit", "job.json", "j", cwd=tmp_path) == set()


def test_bash_completes_names_that_the_service_tells(script):
    with Service(nodes=["big=cpu:1", "little=cpu:1"]) as s:
        env = {"EVENSTEP_URL": s.url, "EVENSTEP_TOKEN": s.token}
        id = s.submit(spec(epochs=1))
        s.wait(id, "succeeded")
        assert complete(script, "show", "", env=env) == {id}
        assert complete(script, "priority", id, "", env=env) == set()
        assert complete(script, "compare", id, id[:4], env=env) == {id}
        assert complete(script, "drain", "", env=env) == {"big", "little"}
        assert complete(script, "drain", "big", "l", env=env) == {"little"}
        assert complete(script, "logs", "--tail", "5", id[:4], env=env) == {id}
    assert complete(script, "show", "", env=env) == set(), "nobody answers: nothing is offered"


def test_bash_runs_nothing_that_stands_in_a_name(script, tmp_path):
    told = tmp_path / "evenstep"
    told.write_text("#!/bin/sh\necho '$(touch ran)'\necho '`touch ran`'\necho plain\n")
    told.chmod(0o755)
    offered = complete(script, "datasets", "show", "", cwd=tmp_path, program=told)
    assert {"plain", "\\$\\(touch\\", "ran\\)"} <= offered
    assert not (tmp_path / "ran").exists()


# ---- the others ------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_take_theirs(shell, tmp_path):
    text = printed("completion", shell)
    for command in commands():
        assert re.search(rf"\b{command}\b", text), command
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(text)
    subprocess.run([shell, "-n", tmp_path / "script"], check=True)


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A service that shells ask for names, as their environment; it has one job, whose id is in
    it."""
    data = tmp_path_factory.mktemp("data")
    (data / "drawn").mkdir()
    for name, content in stripes().items():
        (data / "drawn" / name).write_bytes(content)
    with Service(nodes=["big=cpu:1", "little=cpu:1"], data=data) as s:
        id = s.submit(spec(epochs=1))
        s.wait(id, "succeeded")
        yield {"PATH": f"{BUILD}:{os.environ['PATH']}", "HOME": str(data), "TERM": "dumb",
               "LC_ALL": "C.UTF-8", "EVENSTEP_URL": s.url, "EVENSTEP_TOKEN": s.token, "ID": id}


def test_fish_completes(asked):
    if not shutil.which("fish"):
        pytest.skip("fish is not installed")

    def offered(line):
        ask = f"evenstep completion fish | source; complete -C 'evenstep {line}'"
        done = subprocess.run(["fish", "-N", "-c", ask], check=True, capture_output=True,
                              text=True, env=asked)
        assert not done.stderr, done.stderr
        return {each.split("\t")[0] for each in done.stdout.splitlines()}

    assert offered("submit --w") == {"--watch"}
    assert offered("--") == {"--help", "--version"}
    assert offered("show ") == {asked["ID"]}
    assert offered("logs --tail 5 ") == {asked["ID"]}
    assert offered("drain ") == {"big", "little"}
    assert offered("drain big l") == {"little"}
    assert offered("datasets ") == {"list", "show", "upload", "delete"}
    assert offered("datasets show ") == {"drawn"}
    assert offered("priority " + asked["ID"] + " ") == set()
    assert offered("compare --json " + asked["ID"] + " ") == {asked["ID"]}


@pytest.mark.parametrize("typed, becomes", [
    ("sub", "submit"), ("submit --w", "--watch"), ("--ver", "--version"), ("show ", "ID"),
    ("logs --tail 5 ", "ID"), ("drain big l", "little"), ("datasets show ", "drawn"),
    ("completion z", "zsh")])
def test_zsh_completes(asked, typed, becomes):
    """As a person does it on a terminal: types, presses tab, and reads the line."""
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed")
    mine, its = pty.openpty()
    shell = subprocess.Popen(["zsh", "-f", "-i"], stdin=its, stdout=its, stderr=its, env=asked,
                             start_new_session=True)
    os.close(its)
    wanted = asked.get(becomes, becomes)
    ready = "autoload -Uz compinit && compinit -u -D; source <(evenstep completion zsh)"
    os.write(mine, f"{ready}; PROMPT='rea''dy '\n".encode())
    shown = told_until(mine, "", "ready ")
    os.write(mine, f"evenstep {typed}\t".encode())
    told_until(mine, shown.split("ready ")[-1], wanted)
    shell.kill()
    shell.wait()
    os.close(mine)


def told_until(terminal, shown, wanted):
    """What a terminal shows until it contains this."""
    def read():
        nonlocal shown
        if select.select([terminal], [], [], 0.05)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")
        return wanted in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[\x07\x08]", "", shown)

    until(f"the terminal shows {wanted!r}", read, 60)
    return shown


def test_a_shell_that_is_not_known_is_wrong_use():
    done = subprocess.run([EVENSTEP, "completion", "csh"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "") and "bash, zsh or fish" in done.stderr


def check_roff(page):
    """Without a date, so that the same source gives the same page on every day."""
    if shutil.which("mandoc"):
        said = subprocess.run(["mandoc", "-T", "lint"], input=page, text=True,
                              capture_output=True).stdout.splitlines()
        assert not [line for line in said if "missing date" not in line], said


def test_the_manual_has_every_command_option_and_exit_status(tmp_path):
    if not shutil.which("man"):
        pytest.skip("man is not installed")
    check_roff(printed("manual"))
    (tmp_path / "evenstep.1").write_text(printed("manual"))
    env = {**os.environ, "MANWIDTH": "400", "MAN_KEEP_FORMATTING": "", "LC_ALL": "C.UTF-8"}
    shown = subprocess.run(["man", "--warnings", "-l", tmp_path / "evenstep.1"], env=env,
                           check=True, capture_output=True, text=True)
    assert not shown.stderr, shown.stderr
    for command in commands():
        assert f"evenstep {command}" in shown.stdout, command
        for option in re.findall(r"^  (--\S+)", printed(command, "--help"), re.M):
            assert option in shown.stdout, option
    statuses = printed("--help").split("Exit status\n")[1]
    for number, text in re.findall(r"^  (\d+) +(.*)$", statuses, re.M):
        assert re.search(rf"^ +{number} +{re.escape(text)}$", shown.stdout, re.M), text


@pytest.mark.parametrize("program", ["agent", "launch", "simulate", "worker"])
def test_the_other_programs_have_their_manuals(program, tmp_path):
    def printed_by(*args):
        return subprocess.run([BUILD / f"evenstep-{program}", *args], check=True,
                              capture_output=True, text=True).stdout

    page = printed_by("--manual")
    check_roff(page)
    if not shutil.which("man"):
        pytest.skip("man is not installed")
    (tmp_path / "page.1").write_text(page)
    env = {**os.environ, "MANWIDTH": "400", "LC_ALL": "C.UTF-8"}
    shown = subprocess.run(["man", "--warnings", "-l", tmp_path / "page.1"], env=env, check=True,
                           capture_output=True, text=True)
    assert not shown.stderr, shown.stderr
    helped = printed_by("--help")
    assert helped.startswith(f"usage: evenstep-{program} ")
    for option, help in re.findall(r"^  (--\S+).*?  +(\S+)", helped, re.M):
        assert re.search(rf"^ +{option}\b", shown.stdout, re.M), option
        assert help in shown.stdout, help
    for part in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT"):
        assert re.search(rf"^{part}$", shown.stdout, re.M), part
    assert re.search(r"^ +1 +\S", shown.stdout, re.M), "what it ends with when it fails"


def test_programs_read_the_table_of_commands_as_json():
    told = json.loads(printed("manual", "--json"))
    assert [c["name"] for c in told["commands"]] == commands()
    assert {s["status"] for s in told["statuses"]} >= {0, 1, 2}
    without = {c["name"] for c in told["commands"]
               if not any(o["name"] == "json" for o in c["options"])}
    assert without == {"serve", "completion"}, "one goes on, the other prints a shell's program"


def test_mandoc_finds_nothing_wrong_in_the_manual():
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed")
    done = subprocess.run(["mandoc", "-T", "lint"], input=printed("manual"), text=True,
                          capture_output=True)
    said = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert not said, said  # no date, so that the same table gives the same page


def test_they_are_installed_where_shells_and_man_look(tmp_path):
    make = ["make", "-s", f"BUILD={BUILD.relative_to(ROOT)}", "PREFIX=/usr", "CUDA=0"]
    subprocess.run([*make, f"DESTDIR={tmp_path}", "install-share"], check=True, cwd=ROOT,
                   capture_output=True)
    share = tmp_path / "usr/share"
    for name, args in {"bash-completion/completions/evenstep": ["completion", "bash"],
                       "zsh/site-functions/_evenstep": ["completion", "zsh"],
                       "fish/vendor_completions.d/evenstep.fish": ["completion", "fish"],
                       "man/man1/evenstep.1": ["manual"]}.items():
        assert (share / name).read_text() == printed(*args), name
    manuals = {page.stem for page in (share / "man/man1").iterdir()}
    programs = {p.name for p in BUILD.glob("evenstep*") if p.is_file() and not p.suffix}
    assert manuals == programs, "each program that is installed has its page"
