"""README's job by hand, as it is typed: two terminals, in the order of the page."""
import os
import re
import subprocess

import pytest
import requests

from programs import BUILD, ROOT
from service import free_port, until


def blocks(title):
    """The code blocks beneath a heading of README.md."""
    part = (ROOT / "README.md").read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^```\n(.*?)^```$", part, re.M | re.S)


class Terminal:
    """A shell in a built clone, with its own port."""

    def __init__(self, folder):
        (folder / "build").symlink_to(BUILD)
        (folder / "deploy").symlink_to(ROOT / "deploy")
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}"
        env = {**os.environ, "EVENSTEP_LISTEN": address, "EVENSTEP_URL": self.url}
        self.how = dict(cwd=folder, env=env, text=True, stderr=subprocess.STDOUT)

    def run(self, typed):
        done = subprocess.run(["bash", "-ec", typed], stdout=subprocess.PIPE, timeout=60,
                              **self.how)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def start(self, typed, out=subprocess.PIPE):
        """The last command is the returned process."""
        typed = re.sub(r"^(?=evenstep (serve|watch))", "exec ", typed, flags=re.M)
        return subprocess.Popen(["bash", "-ec", typed], stdout=out, **self.how)

    def answers(self):
        try:
            return requests.get(self.url + "/readyz", timeout=5).ok
        except requests.ConnectionError:
            return False


@pytest.mark.skipif(os.cpu_count() < 2, reason="the two nodes are for a machine of two cores")
def test_the_first_job_by_hand_starts_and_is_watched(tmp_path):
    serving, asking = blocks("Use it")[:2]
    setup, submit, watch, link = asking.splitlines()
    terminal = Terminal(tmp_path)
    with open(tmp_path / "log", "w") as log:
        service = terminal.start(serving, log)
    try:
        until("the service is ready", terminal.answers)
        assert "their speeds will not be" not in (tmp_path / "log").read_text()
        terminal.run(f"{setup}\n{submit}\n")
        watched = terminal.start(f"{setup}\n{watch}\n")
        until("it is seen to run", lambda: watched.stdout.readline().startswith("running"))
        assert terminal.run(f"{setup}\n{link}\n").startswith(terminal.url)
        terminal.run(f"{setup}\nevenstep cancel {watch.split()[2]}\n")
        watched.communicate(timeout=60)
        assert watched.returncode == 4, "the job was cancelled"
    finally:
        service.terminate()
        service.wait(60)
