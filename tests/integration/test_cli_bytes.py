"""Words of the command line that are not UTF-8: no name of the service may be one, but a file's
name may. And an option where a command is expected."""
import os
import subprocess

import pytest

from service import BUILD, Service
from test_cli import run

OBEYED = "x\x1b[2J\u009b31m\u202ey"  # a terminal would obey it
LATIN = os.fsdecode(b"caf\xe9.x")


@pytest.fixture(scope="module")
def service():
    with Service() as s:
        yield s


@pytest.mark.parametrize("words", [("show",), ("logs",), ("download",), ("tag",), ("delete",),
                                   ("datasets", "show"), ("datasets", "upload"),
                                   ("token", "create"), ("webhooks", "create")])
def test_a_name_that_is_not_utf_8_is_refused_here(service, words):
    """A token was made for the part before that byte, and a query failed as if the service had
    refused it."""
    more = ("/tmp",) if words[-1] == "upload" else ()
    out, said, status = run(*words, LATIN, *more, service=service)
    assert (out, said, status) == ("", "evenstep: 'caf\\xe9.x' is not UTF-8\n", 2)
    assert [t["name"] for t in service.get("tokens").json()["tokens"]] == ["admin"]


def test_an_error_is_one_line_whatever_it_quotes(service):
    """A line end in a name started a new line, as if the command had printed it."""
    _, said, status = run("show", "no\nsuch", service=service)
    assert status == 6 and said.startswith("evenstep: there is no job 'no\\u000asuch'\n")


@pytest.mark.parametrize("option", ["--pin", "--cacert"])
def test_what_tells_a_services_certificate_is_refused_where_nothing_is_encrypted(service, option):
    """It was ignored without a message."""
    out, said, status = run("jobs", option, "sha256//x=", service=service)
    assert (out, status) == ("", 2) and "begins with https://" in said
    assert f"{option} is for a service that speaks TLS, and '{service.url}' is not" in said


def test_an_agent_tells_its_version():
    told = [subprocess.run([BUILD / name, "--version"], capture_output=True, text=True)
            for name in ("evenstep", "evenstep-agent")]
    assert [t.returncode for t in told] == [0, 0]
    assert told[1].stdout == "evenstep-agent " + told[0].stdout.split()[1] + "\n"


@pytest.mark.parametrize("command", ["evaluate", "export"])
def test_an_error_about_a_file_whose_name_is_not_utf_8_says_what_is_wrong(command):
    """The message was "(text that is not UTF-8)"."""
    _, said, status = run(command, LATIN)
    assert status and "caf\\xe9.x" in said and "No such file" in said


def test_an_option_before_the_command_is_told_to_follow_it():
    """The message was "there is no command '--url'"."""
    out, said, status = run("--url", "http://127.0.0.1:8080", "nodes")
    assert status == 2 and not out
    assert "'--url' stands before the command; options follow it" in said


@pytest.mark.parametrize("words", [
    ["evenstep", OBEYED], ["evenstep", "-" + OBEYED], ["evenstep", "completion", OBEYED],
    ["evenstep", "serve", "--" + OBEYED],
    ["evenstep", "serve", "--data-dir", "/dev/null/" + OBEYED],
    ["evenstep-agent", "--" + OBEYED], ["evenstep-worker", "--" + OBEYED],
    ["evenstep-simulate", "--" + OBEYED], ["evenstep-simulate", "--job", OBEYED, "--out", "/x"]])
def test_a_word_that_is_told_again_is_not_obeyed_by_the_terminal(words):
    """They were printed unchanged: unknown commands, and quotes from a log."""
    done = subprocess.run([BUILD / words[0], *words[1:]], capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert done.returncode and "31m" in said
    assert not {"\x1b", "\u009b", "\u202e"} & set(said), ascii(said)
