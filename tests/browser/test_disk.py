"""That the service's disk is nearly full is on every page, with what could go."""
import json
import os

import pytest

from disk import SmallDisk
from page import Page
from service import Service, spec
from test_pure import call


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted as root only")
def test_a_disk_that_is_nearly_full_is_told_with_jobs_that_could_go(driver, tmp_path):
    disk = SmallDisk(tmp_path / "small", 30 << 20)
    try:
        with Service(folder=disk.path) as s:
            id = s.submit(spec(epochs=1))
            s.wait(id, "succeeded")
            page = Page(driver, s)
            driver.get("about:blank")
            page.forget()
            driver.get(s.post("link").json()["url"])
            page.wait_text(".disk-full", "nearly full")
            page.wait_text(".disk-full", id[:8])
            driver.get("about:blank")
    finally:
        disk.remove()


def test_a_disk_with_room_is_not_told(page):
    page.wait_for("#new-job")
    assert not page.visible(".disk-full")


@pytest.mark.parametrize("free, goes, data, jobs, told", [
    (9 << 20, 0, 0, 0, "nearly full: 9.44 MB are free."),
    (9 << 20, 0, 0, 1, "are free. Deleting jobs gives all of theirs back, first of all "),
    (9 << 20, 0, 5 << 20, 0, "are free. Uploaded data sets take 5.24 MB."),
    (9 << 20, 2 << 20, 0, 1, "are free. History and checkpoints of jobs that have ended take 2.10 "
     "MB (--max-disk, --keep-jobs); deleting jobs gives all of theirs back, first of all "),
    (9, 2 << 20, 0, 1, "service is full: 9 B are free. No job can be deleted before there is room: "
     "remove history/ and checkpoints/ of jobs that have ended by hand, beneath jobs/ in its data "
     "folder, first of all ")])
def test_what_may_go_is_a_sentence_and_what_can_be_done(loaded, free, goes, data, jobs, told):
    """A full disk stops the store, and then no job can be deleted, which the page proposed; where
    nothing may go, it began "deleting jobs gives all of theirs back"."""
    disk = {"free_bytes": free, "can_go_bytes": goes, "data_bytes": data, "low": True,
            "full": free < 1 << 20,
            "jobs": [{"id": "0" * 16, "disk_bytes": 1}] * jobs}
    text = call(loaded, "/js/frame/disk.js", f"m.sentence({json.dumps(disk)})")
    assert text.replace("\u202f", " ").replace("\u00a0", " ").endswith(told), text
