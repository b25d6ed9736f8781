"""Data of one's own from the form: a folder is uploaded, its samples are shown, a network to begin
with is edited layer by layer, and the job trains; what is refused stands at the upload."""
import re
import sys
import pathlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from service import ROOT, Service, until  # noqa: E402

from stripes import np, stripes  # noqa: E402
from test_submit import open_form, spec_of  # noqa: E402

SHAPES = ("return [...document.querySelectorAll('.layer > .num:not(.quiet)')]"
          ".map(x => x.textContent)")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Service(nodes=("a=cpu:1",), data=tmp_path_factory.mktemp("roots")) as s:
        yield s


def test_an_uploaded_folder_is_shown_given_a_network_and_trained_on(page, service, tmp_path):
    open_form(page)
    page.find("#data-folder").send_keys(str(stripes(tmp_path / "my stripes", 60)))
    page.wait_text(".upload [role=status]", "as my-stripes: 60 samples in 4 files, SHA-256")
    until("the spec names it",
          lambda: spec_of(page)["data"] == {"format": "npy", "path": "my-stripes"})
    spec = spec_of(page)
    assert spec["model"]["input"] == [8, 8, 1] and spec["model"]["layers"][-1]["units"] == 3
    assert spec["optimizer"]["learning_rate"] == 0.0031  # for its batch of 16
    page.wait_text("main", "60 training samples, about 4 steps of 16 samples in an epoch")
    page.script("document.querySelector('.samples').open = true")
    page.wait_text(".samples", "20 of 0, 20 of 1, 20 of 2")
    page.wait_text(".json-state", "^valid")
    until("the shape of each layer is there", lambda: page.script(SHAPES)[0] == "8 × 8 × 16")
    assert page.script(SHAPES)[-1] == "3"

    field = '.field[data-pointer="/model/layers/0/filters"]'
    page.type(field + " input", "5")
    until("the shape follows", lambda: page.script(SHAPES)[0] == "8 × 8 × 5")
    page.type(field + " input", "many")
    page.wait_text(field + " .fault", "whole number")
    assert page.find(".layer-part").get_attribute("class").endswith("old")
    page.console()  # Chromium reports each answer that is an error
    page.type(field + " input", "4")
    page.click("#add-layer")
    page.wait_text(".layer:last-child .num", "^3$")
    n = len(spec_of(page)["model"]["layers"])
    page.click(".layer:last-child .actions button:last-child")
    until("it is gone", lambda: len(spec_of(page)["model"]["layers"]) == n - 1)
    page.wait_text("#layers-sum", "parameters .* a sample")
    page.wait_text(".json-state", "^valid")
    page.click("#submit")
    page.wait_text(".job-head .pill", "Succeeded", 120)


def test_a_preset_is_written_out_before_its_layers_are_edited(page):
    open_form(page)
    page.choose("/model", "mlp")
    assert not page.visible("#add-layer")
    page.click("#edit-layers")
    until("its layers are there", lambda: isinstance(spec_of(page)["model"], dict))
    page.wait_text("#layers-sum", "101,770 parameters")
    assert page.script(SHAPES)[-3:] == ["128", "128", "10"]


def test_what_a_layer_has_stands_in_one_line(page):
    """A convolution's padding stood beneath its other fields, beside an empty half of the line."""
    open_form(page)
    page.choose("/model", "lenet5")
    page.click("#edit-layers")
    page.wait_text("#layers-sum", "parameters")
    told = page.script("""return [...document.querySelectorAll('.layer')].map((l) =>
        [...l.querySelectorAll('.layer-fields .field')].map(
            (f) => Math.round(f.getBoundingClientRect().top)))""")
    assert max(len(tops) for tops in told) >= 4 and all(len(set(tops)) <= 1 for tops in told), told


def test_what_no_job_could_read_says_why(page, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "notes.txt").write_text("nothing")
    open_form(page)
    page.find("#data-folder").send_keys(str(folder))
    page.wait_text(".upload .fault", "not a data set that a job could read.*docs/data.md")
    assert page.text(".upload [role=status]") == "not uploaded"
    page.console()  # Chromium reports each answer that is an error


def test_what_was_refused_is_put_right_and_chosen_again(page, tmp_path):
    """The same files: a browser tells a change of the choice alone."""
    folder = stripes(tmp_path / "mended", 60)
    whole = (folder / "y.npy").read_bytes()
    (folder / "y.npy").write_bytes(whole[:40])
    open_form(page)
    page.find("#data-folder").send_keys(str(folder))
    page.wait_text(".upload [role=status]", "^not uploaded")
    (folder / "y.npy").write_bytes(whole)
    page.find("#data-folder").send_keys(str(folder))
    page.wait_text(".upload [role=status]", "as mended: 60 samples")
    page.console()  # Chromium reports each answer that is an error


def test_a_network_to_begin_with_fits_the_data(page):
    made = page.script(
        "return import('/js/spec/network.js').then((m) => arguments[0].map(m.firstNetwork))",
        [{"format": "npy", "shape": [4], "classes": 3},
         {"format": "npy", "shape": [5], "classes": 0},
         {"format": "images", "shape": [], "classes": 2},
         {"format": "npy", "shape": [2, 2, 1], "classes": 2},
         {"format": "images", "shape": [3000, 2000, 3], "classes": 2},
         {"format": "images", "shape": [48, 20, 1], "classes": 2}])
    numbers, targets, pictures, tiny, photographs, small = made
    assert [x["type"] for x in numbers["layers"]] == ["dense", "relu", "dense"]
    assert targets["loss"] == "mse" and targets["layers"][-1]["units"] == 1
    assert pictures["input"] == [32, 32, 3] and pictures["layers"][0]["type"] == "conv2d"
    assert tiny["layers"][0]["type"] == "flatten"
    assert photographs["input"] == [64, 64, 3] and small["input"] == [48, 20, 1]


def test_a_first_job_on_few_samples_has_a_batch_that_they_fill(page):
    """Its batch of 256 brought a fault to whoever had fewer samples."""
    counts = [1, 15, 60, 200, 1000, 60000]
    sizes = page.script("return import('/js/spec/network.js').then((m) => arguments[0].map("
                        "(samples) => m.firstBatch({samples})))", counts)
    assert sizes == [1, 15, 16, 16, 64, 256]


def test_a_first_job_on_few_samples_has_a_rate_for_its_batch(page):
    """At the rate of 256 samples its batch of 16 lost what it had learned, of any pictures."""
    sgd, adam = ({"type": t, "learning_rate": 0.05} for t in ("sgd", "adam"))
    made = page.script(
        "return import('/js/spec/network.js').then((m) => arguments[0].map("
        "([optimizer, ...batches]) => m.firstOptimizer(optimizer, ...batches).learning_rate))",
        [[sgd, 16], [sgd, 16, 16], [sgd, 256, 256], [sgd, 20, 64], [adam, 16]])
    assert made == [0.0031, 0.05, 0.05, 0.016, 0.05]


def test_one_class_is_nothing_to_learn(page, tmp_path):
    """Such a data set was taken without a word, and its job "reached 100.0 % test accuracy"."""
    folder = stripes(tmp_path / "same", 60)
    for name in ("y.npy", "test_y.npy"):
        np.save(folder / name, 0 * np.load(folder / name))
    open_form(page)
    page.find("#data-folder").send_keys(str(folder))
    page.wait_text(".upload .fault", "All samples are of one class")
    until("the spec names it", lambda: spec_of(page)["data"]["path"] == "same")
    page.wait_text(".json-state", "^valid")
    page.click("#submit")
    page.wait_text(".job-head .pill", "Succeeded", 120)
    page.wait_text("#verdict", "had nothing to learn: its network has one class")


def test_the_form_names_the_limit_that_the_service_has(page):
    """It said 10,000 files, the limit of programs, so that no set of 60,000 pictures was tried."""
    header = (ROOT / "common/archive/archive.h").read_text()
    limit = re.search(r"ARCHIVE_DATA_FILES = (\d+)", header)
    open_form(page)
    page.wait_text(".upload", f"and {int(limit.group(1)):,} files")
