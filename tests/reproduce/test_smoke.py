"""Tables are made from their settings, on drawn digits and a few hundred samples: what was made
once is kept, what another rule or kernel made is not, rates are chosen without the test set."""
import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import xml.etree.ElementTree

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
pytest.importorskip("matplotlib", reason="python3-matplotlib draws the figures")
import datasets  # noqa: E402
import figures  # noqa: E402
import plan  # noqa: E402
import proofs  # noqa: E402
import reproduce  # noqa: E402
import simulator  # noqa: E402
from service import until  # noqa: E402

pytestmark = pytest.mark.skipif(not os.path.exists(simulator.program()),
                                reason=f"{simulator.program()} is not built (make BUILD=...)")
# lines of a page's first table
ROWS = {"dbs_sgd": 7, "ddc_asgd": 5, "hpsgd": 10, "hierarchical": 5, "which_strategy": 1}


def start(tmp_path, *tables, **env):
    command = [sys.executable, os.path.join(HERE, "reproduce.py"), *tables, "--size", "smoke",
               "--out", str(tmp_path / "out"), "--work", str(tmp_path / "work"),
               "--runs", str(tmp_path / "runs")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={**os.environ, **env})


def make(tmp_path, *tables, **env):
    running = start(tmp_path, *tables, **env)
    said = running.communicate(timeout=200)[0]
    assert running.returncode == 0, said
    return said


def runs_of(tmp_path, table):
    return [(path, json.loads(path.read_text()))
            for path in sorted((tmp_path / "runs" / table).glob("*.json"))]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """All tables, made together."""
    folder = tmp_path_factory.mktemp("made")
    make(folder, *ROWS)
    return folder


@pytest.mark.parametrize("table", ROWS)
def test_a_table_has_its_rows_and_figures(made, table):
    name = table.replace("_", "-")
    page = (made / "out" / (name + ".md")).read_text()
    first = page.split("| --- |", 1)[1].split("\n\n")[0]
    rows = [line for line in first.split("\n") if line.startswith("| ")
            and not line.startswith("| ---")]
    assert len(rows) == ROWS[table] and f"TABLES={table}" in page
    charts = list((made / "out").glob(name + "*.svg"))
    assert charts and all(xml.etree.ElementTree.parse(c).getroot().tag.endswith("svg")
                          for c in charts)
    with open(charts[0].with_suffix(".csv")) as f:
        assert len(list(csv.reader(f))) > 1


@pytest.mark.parametrize("table", ROWS)
def test_rates_are_chosen_on_training_samples_and_shown_on_test_samples(made, table):
    c = reproduce.configuration(table)["smoke"][0]
    runs = [run for _, run in runs_of(made, table) if "diverged" not in run]
    forms = {run["form"] for run in runs}
    assert forms == {"select", "final"}
    seen = {form: {run["samples"] for run in runs if run["form"] == form} for form in forms}
    assert min(seen["final"]) >= c["samples"] > max(seen["select"])


def test_runs_are_kept_and_a_missing_one_is_made_again(made):
    kept = runs_of(made, "dbs_sgd")
    before = (made / "out" / "dbs-sgd.md").read_text()
    kept[0][0].unlink()  # as if it had been interrupted there
    assert "1 runs were made" in make(made, "dbs_sgd")
    assert (made / "out" / "dbs-sgd.md").read_text() == before
    again = dict(runs_of(made, "dbs_sgd"))
    assert again[kept[0][0]]["curve"] == kept[0][1]["curve"]


def test_runs_of_another_rule_or_kernel_are_made_again(made):
    path, run = runs_of(made, "ddc_asgd")[0]
    path.write_text(json.dumps({**run, "build": {**run["build"], "commit": "of before"}}))
    assert "0 runs were made" in make(made, "ddc_asgd")
    path.write_text(json.dumps({**run, "build": {**run["build"], "proof": "other bits"}}))
    assert "1 runs were made" in make(made, "ddc_asgd")


def test_runs_of_another_platform_hold_until_the_rule_changes_here(made, tmp_path):
    path, run = runs_of(made, "ddc_asgd")[0]
    table = reproduce.importlib.import_module("ddc_asgd").TABLE
    sim = simulator.Simulator(str(tmp_path), str(tmp_path / "data"))
    file = str(tmp_path / "proofs.json")
    mine = proofs.Proofs(sim, file)
    known = plan.Known(table, reproduce.configuration("ddc_asgd")["smoke"][0], None,
                       str(tmp_path / "data"))
    case = known.case(run["row"], run["form"], run["rate"], run["seed"])
    assert run["job"] == proofs.digest(case["job"])
    rule, proof = mine.of(case)
    assert proof == run["build"]["proof"] and mine.holds(case, run["build"])
    theirs = {"platform": "another", "proof": "theirs"}
    assert not mine.holds(case, theirs)  # nothing is known of that platform
    mine.known[rule]["another"] = "theirs"
    assert mine.holds(case, theirs)
    mine.known[rule][mine.platform] = "of before the rule was changed"
    assert not mine.holds(case, theirs) and mine.known[rule] == {mine.platform: proof}
    assert json.loads(open(file).read())[rule] == {mine.platform: proof}


def test_it_may_be_stopped_and_writes_pages_of_what_is_there(tmp_path):
    running = start(tmp_path, "hierarchical")
    for line in running.stdout:
        if line.startswith("  hierarchical"):
            break
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=100)[0]
    assert running.returncode == 0, said
    assert "runs were made" in said and (tmp_path / "out" / "hierarchical.md").exists()
    files = list((tmp_path / "runs").rglob("*"))
    assert not [f for f in files if f.suffix == ".part"]
    assert "runs were made" in make(tmp_path, "hierarchical")


def simulators_in(folder):
    """Living processes that run a job beneath the folder."""
    found = []
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(p / "cwd").startswith(str(folder)):
                found.append(p.name)
        except OSError:
            pass
    return found


def test_a_kill_in_the_middle_of_a_run_leaves_nothing_half_made(tmp_path):
    running = start(tmp_path, "hierarchical")
    for line in running.stdout:
        if line.startswith("  hierarchical"):
            break
    running.kill()
    running.communicate(timeout=100)
    until("the runs under way have ended too", lambda: not simulators_in(tmp_path / "work"))
    for path in (tmp_path / "runs").rglob("*.json"):
        json.loads(path.read_text())
    made = len(runs_of(tmp_path, "hierarchical"))
    left = len(list((tmp_path / "work").glob("run-*")))
    said = make(tmp_path, "hierarchical")
    assert not list((tmp_path / "work").glob("run-*")) and left <= os.cpu_count()
    assert f"{len(runs_of(tmp_path, 'hierarchical')) - made} runs were made" in said
    assert "All 5 rows have 1 seed." in (tmp_path / "out" / "hierarchical.md").read_text()


def test_proofs_of_two_processes_add_up(tmp_path):
    sim = simulator.Simulator(str(tmp_path), str(tmp_path / "data"))
    path = str(tmp_path / "proofs.json")
    mine, theirs = proofs.Proofs(sim, path), proofs.Proofs(sim, path)
    for i, each in enumerate((mine, theirs)):  # neither has seen what the other wrote
        each.mine[f"rule {i}"] = f"proof {i}"
        each.remember(f"rule {i}")
    assert proofs.read(path) == {f"rule {i}": {mine.platform: f"proof {i}"} for i in (0, 1)}


def test_it_stops_when_its_time_is_over(tmp_path):
    said = make(tmp_path, TIME="0.1s")
    assert "wrote" in said
    assert "No run has been made of: " in (tmp_path / "out" / "hpsgd.md").read_text()


def test_a_setting_can_be_named_with_its_table():
    names = [c["name"] for c in reproduce.configuration("dbs_sgd")["full"]]
    assert reproduce.chosen(["dbs_sgd:mnist"], "full") == {"dbs_sgd": ["mnist"]}
    assert reproduce.chosen(["dbs_sgd"], "full") == {"dbs_sgd": names}
    for wrong in ("nothing", "dbs_sgd:nothing"):
        with pytest.raises(SystemExit):
            reproduce.chosen([wrong], "full")


@pytest.mark.parametrize("table", ROWS)
def test_every_size_has_the_settings_that_the_table_needs(table):
    configuration = reproduce.configuration(table)
    optional = {"optimizer", "every_rate", "rules"}
    for size in ("quick", "scouting", "full"):
        names = [c["name"] for c in configuration[size]]
        assert len(names) == len(set(names))
        for c in configuration[size]:
            assert set(c) - optional == set(configuration["smoke"][0]), (size, c["name"])
    for c in configuration["quick"]:
        assert c["samples"] <= 10000 and c["epochs"] <= 2 and len(c["rates"]) <= 2


def test_the_best_rate_is_found_from_the_middle_and_lost_ones_are_left_out():
    rates = [0.001, 0.01, 0.1, 1, 10]

    def walk(accuracy):
        scores = {}
        while (rate := plan.next_rate(rates, scores)) is not None:
            scores[rate] = accuracy[rate]
        return scores
    tried = walk({0.001: 0, 0.01: 5, 0.1: 4, 1: 3, 10: 9})  # an end that nobody reaches
    assert set(tried) == {0.001, 0.01, 0.1} and max(tried, key=tried.get) == 0.01
    rising = walk({r: i for i, r in enumerate(rates)})
    assert max(rising, key=rising.get) == 10 and 0.001 not in rising


def test_the_evaluation_at_the_very_end_counts_by_then():
    """A curve keeps six digits of its times, the end of a run has all."""
    curve = {"time": [1.0, float(f"{3.1357467:.6g}")], "accuracy": [0.2, 0.3]}
    assert curve["time"][1] > 3.1357467
    assert simulator.accuracy_at({"curve": curve}, 3.1357467) == 0.3
    assert simulator.accuracy_at({"curve": curve}, 0.5) == 0.1


def test_the_validation_samples_are_the_last_tenth_of_those_to_train():
    train, test = ([*range(20)], [*range(20)]), ([*range(100, 110)], [*range(100, 110)])
    assert datasets.parted("final", train, test) == (train, test)
    learnt, held_out = datasets.parted("select", train, test)
    assert learnt[0] == [*range(18)] and held_out[0] == [18, 19]


def test_a_chart_without_points_is_not_made_and_the_same_numbers_give_the_same_bytes(tmp_path):
    path = str(tmp_path / "a")
    assert not figures.chart(path, "t", "x", "y", [("a", [(1, None)])])
    assert not os.path.exists(path + ".svg") and not os.path.exists(path + ".csv")

    def draw():
        assert figures.chart(path, "a < b & c", "x", "y", [("a", [(1, 2.0)])], log_x=True,
                             log_y=True)
        return open(path + ".svg", "rb").read()
    assert draw() == draw() and xml.etree.ElementTree.parse(path + ".svg")
    assert open(path + ".csv").read() == "line,x,y\na,1,2\n"
