"""That the service's disk is nearly full is on every page, with what could go."""
import os

import pytest

from disk import SmallDisk
from page import Page
from service import Service, spec


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
