"""A program from the form: a folder is uploaded, chosen, and trains; what is refused stands at its
field; and the network comes back."""
import json
import pathlib
import sys
import tarfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from service import ROOT, Service, until  # noqa: E402

from test_submit import open_form, spec_of  # noqa: E402
from test_pure import call  # noqa: E402


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    place = folder / "programs/mine"
    place.mkdir(parents=True)
    (place / "manifest.json").write_text(
        json.dumps({"description": "counts samples", "command": ["true"]}))
    with Service(folder=folder, nodes=("a=cpu:1", "b=cpu:1"), options=["--allow-programs"]) as s:
        yield s


@pytest.fixture
def program(tmp_path):
    folder = tmp_path / "counting"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/config").write_text("not to be uploaded")
    for name in ("wire.py", "counting.py"):
        (folder / name).write_text((ROOT / "tests/program" / name).read_text())
    return folder


def test_a_folder_is_uploaded_chosen_and_trains(page, service, program):
    open_form(page)
    page.find("#program-folder").send_keys(str(program))
    page.wait_text('.field[data-pointer="/program"]', "uploaded")
    until("the spec names it", lambda: "digest" in spec_of(page).get("program", {}))
    spec = spec_of(page)
    assert "model" not in spec and "data" not in spec and "optimizer" not in spec
    assert service.get(
        "programs/" + spec["program"]["digest"]).json()["files"] == 2, "what is hidden is left out"
    page.wait_text('.field[data-pointer="/program/command"] .fault', "no manifest")
    assert not page.visible(page.field("/optimizer/learning_rate"))
    page.type(page.field("/name"), "my program")
    page.type(page.field("/program/command"), "/usr/bin/python3 counting.py")
    page.type(page.field("/program/args"), "--rate 0.5 --log 1")
    page.type(page.field("/epochs"), "2")
    page.wait_text(".json-state", "^valid")
    page.click("#submit")
    page.wait_text("h1", "my program")
    page.wait_text(".job-head .pill", "Succeeded", 120)
    # eight steps, each of which logs a quarter of its number
    until("what it logs is shown", lambda: page.visible("[data-chart=bleu]")
          and page.text(".named-charts .ends") == "2", 20)
    # runs are compared by it
    id = page.script("return location.hash").rsplit("/", 1)[1]
    page.open("/compare?runs=" + id)
    until("its curve is there",
          lambda: [e.text for e in page.all("[data-chart=bleu] .ends span")][:1] == ["A\n2"], 20)
    # and trials of the program are
    page.open("/sweeps/new?from=" + id)
    page.wait_for("#json")
    page.choose("/metric/name", "logged.bleu")
    metric = lambda: json.loads(  # noqa: E731
        page.script("return document.getElementById('json').value"))["metric"]
    until("it is chosen", lambda: metric() == {"name": "logged.bleu", "direction": "max"})
    page.choose("/metric/direction", "min")
    until("so is the least", lambda: metric() == {"name": "logged.bleu", "direction": "min"})
    page.type(page.field("/parameters/0/pointer"), "/program/args/1")
    page.type(page.field("/parameters/0/values"), '"0.1", "0.2"')
    page.wait_text(".json-state", "^valid$")


def test_an_archive_that_is_refused_says_why(page, tmp_path):
    bad = tmp_path / "bad.tar"
    with tarfile.open(bad, "w") as tar:
        link = tarfile.TarInfo("soft")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    open_form(page)
    page.find("#program-archive").send_keys(str(bad))
    page.wait_text('.field[data-pointer="/program"] .fault', "'soft' is a symbolic link")
    page.console()  # Chromium reports each answer that is an error


def test_an_operators_program_is_offered_and_the_network_comes_back(page):
    open_form(page)
    before = spec_of(page)
    page.choose("/program", "mine")
    until("it is chosen", lambda: spec_of(page).get("program") == {"name": "mine"})
    page.wait_text('.field[data-pointer="/program"]', "Counts samples")
    page.choose("/program", "")
    until("the network is there again", lambda: spec_of(page) == before)
    assert page.visible(page.field("/optimizer/learning_rate"))


@pytest.mark.parametrize("name",
                         ["train.py", "ä/ö.py", "f" * 100, "f" * 101, "deep/" * 60 + "file"])
def test_archives_of_the_page_are_those_that_tar_reads(page, tmp_path, name):
    expression = (
        f"[...m.archive([{{name: {json.dumps(name)}, bytes: new TextEncoder().encode('text')}}, "
        "{name: 'empty', bytes: new Uint8Array(0)}])"
        ".reduce((all, p) => all.concat([...p]), [])]")
    path = tmp_path / "made.tar"
    path.write_bytes(bytes(call(page, "/js/views/submit/tar.js", expression)))
    with tarfile.open(path) as tar:
        assert sorted(tar.getnames()) == sorted([name, "empty"])
        assert tar.extractfile(name).read() == b"text"
