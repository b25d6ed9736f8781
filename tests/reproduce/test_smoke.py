"""Every table runs from its script, on drawn digits and a few hundred samples; what was made once
is kept, and charts are SVG."""
import json
import os
import subprocess
import sys
import xml.etree.ElementTree

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import simulator  # noqa: E402
import svg  # noqa: E402

pytestmark = pytest.mark.skipif(not os.path.exists(simulator.program()),
                                reason=f"{simulator.program()} is not built (make BUILD=...)")
ROWS = {"dbs_sgd": 7, "ddc_asgd": 5, "hpsgd": 10, "hierarchical": 5}


def make(table, tmp_path):
    done = subprocess.run([sys.executable, os.path.join(HERE, table + ".py"), "--size", "smoke",
                           "--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")],
                          capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("table", ROWS)
def test_a_table_is_made_and_goes_on_where_it_stopped(table, tmp_path):
    make(table, tmp_path)
    page = (tmp_path / "out" / (table.replace("_", "-") + ".md")).read_text()
    first = page.split("| --- |", 1)[1].split("\n\n")[0]
    rows = [line for line in first.split("\n") if line.startswith("| ")
            and not line.startswith("| ---")]
    assert len(rows) == ROWS[table] and "Command: `" in page
    charts = list((tmp_path / "out").glob("*.svg"))
    assert charts and all(xml.etree.ElementTree.parse(c).getroot().tag.endswith("svg")
                          for c in charts)
    kept = sorted((tmp_path / "work" / table).glob("*.json"))
    kept[0].unlink()        # as if it had been interrupted there
    again = make(table, tmp_path)
    assert f"  1/1  " in again and "2/" not in again.split("kept from before", 1)[1].split(
        "wrote")[0]
    assert (tmp_path / "out" / (table.replace("_", "-") + ".md")).read_text().split(
        "Command")[0] == page.split("Command")[0]


@pytest.mark.parametrize("table", ROWS)
def test_every_size_has_the_settings_that_the_table_needs(table):
    with open(os.path.join(HERE, table + ".json")) as f:
        configuration = json.load(f)
    for size in ("quick", "full"):
        for part in configuration[size]:
            assert set(part) == set(configuration["smoke"][0]), (size, part["data"])
    for part in configuration["quick"]:     # issue 6
        assert (part["model"] in ("mlp", "cifar-quick") and part["samples"] <= 10000
                and part["epochs"] <= 2 and len(part["rates"]) <= 2)


def test_a_chart_without_points_is_not_made_and_one_point_is_enough(tmp_path):
    path = str(tmp_path / "a.svg")
    assert not svg.chart(path, "t", "x", "y", [("a", [(1, None)])]) and not os.path.exists(path)
    assert svg.chart(path, "a < b & c", "x", "y", [("a", [(1, 2.0)])], log_x=True, log_y=True)
    assert xml.etree.ElementTree.parse(path).getroot().find(
        "{http://www.w3.org/2000/svg}title").text == "a < b & c"
