"""deploy/demo, the README's first command, on machines with other data sets or busy ports."""
import json
import os
import socket
import subprocess

import pytest

from service import BUILD, PATIENCE, ROOT

SPEC = {
    "name": "demo", "model": "mlp", "workers": 4, "epochs": 1, "seed": 1,
    "data": {"format": "glyphs", "samples": 1024, "test_samples": 100},
    "optimizer": {"type": "sgd", "learning_rate": 0.05}, "strategy": {"type": "sync"},
    "batching": {"global_batch": 256, "policy": "dynamic"},
}


@pytest.fixture
def demo(tmp_path):
    def run(listen, **more):
        (tmp_path / "spec.json").write_text(json.dumps(SPEC))
        env = {**os.environ, "BUILD": str(BUILD), "DEMO_DIR": str(tmp_path / "demo"),
               "DEMO_SPEC": str(tmp_path / "spec.json"), "DEMO_LISTEN": listen, **more}
        done = subprocess.run(["deploy/demo", "--no-build", "--once"], cwd=ROOT, env=env,
                              capture_output=True, text=True, check=False, timeout=60 * PATIENCE)
        assert done.returncode == 0 and "\nsucceeded " in done.stdout, done.stdout + done.stderr
        return done.stdout
    return run


def test_a_link_to_nowhere_is_told_and_the_demo_goes_on(demo, tmp_path):
    root = tmp_path / "data"
    root.mkdir()
    (root / "mnist").symlink_to("/nowhere/mnist")
    told = demo("127.0.0.1:0", EVENSTEP_DATA=str(root))
    assert f"{root}/mnist leads to /nowhere/mnist, where there is nothing" in told


@pytest.mark.parametrize("address, form, then", [
    ("127.0.0.1", "{}", "http://127.0.0.1:"),
    ("127.0.0.1", "127.0.0.1:{}", "http://127.0.0.1:"),
    ("::1", "[::1]:{}", "http://[::1]:"),
])
def test_a_port_that_is_taken_is_told_and_another_one_is_used(demo, address, form, then):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as taken:
        try:
            taken.bind((address, 0))
        except OSError:
            pytest.skip(f"{address} is no address of this machine")
        taken.listen()
        port = taken.getsockname()[1]
        told = demo(form.format(port))
    assert f":{port} is in use; taking a free port" in told
    assert then in told and f"{then}{port}/" not in told
