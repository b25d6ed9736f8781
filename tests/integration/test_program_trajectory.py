"""The same network as a job of ours and as a user's program: with the same first parameters,
samples and order of gradients each strategy takes both along the same way, within rounding (oneDNN
and NumPy, or a program's loops, add in another order)."""
import subprocess

import pytest

from programs import BUILD, ROOT
from test_program import name_of
from trajectory import SERVED, TOGETHER, Network, go_the_same_way_served, go_the_same_way_together

PROGRAMS = ROOT / "tests/program"


def names(value):
    return name_of(value) if isinstance(value, dict) else str(value)


@pytest.fixture(scope="module", params=["numpy", "c"])
def network(request, tmp_path_factory):
    if request.param == "numpy":
        def start(folder, momentum, in_order):
            args = [str(folder), "--momentum", str(momentum), *(["--in-order"] if in_order else [])]
            command = ["/usr/bin/python3", str(PROGRAMS / "network.py")]
            return {"command": command, "args": args}
        return Network(8, 16, 4, "relu", 0.1, start)

    program = tmp_path_factory.mktemp("c") / "network"
    subprocess.run(["cc", "-O1", "-o", program, PROGRAMS / "network.c", "-I",
                    ROOT / "client/include", "-L", BUILD, "-levenstep", "-lm",
                    f"-Wl,-rpath,{BUILD}"], check=True)

    def start_c(folder, momentum, in_order):
        return {"command": [str(program)], "args": [str(folder), str(momentum), str(int(in_order))]}
    return Network(77, 32, 10, "tanh", 0.05, start_c)


@pytest.mark.parametrize("strategy, momentum", TOGETHER, ids=names)
def test_ranks_that_step_together_go_the_same_way(tmp_path, network, strategy, momentum):
    go_the_same_way_together(tmp_path, network, strategy, momentum)


@pytest.mark.parametrize("strategy, momentum", SERVED, ids=names)
def test_in_the_same_order_of_gradients_a_server_goes_the_same_way(tmp_path, network, strategy,
                                                                   momentum):
    go_the_same_way_served(tmp_path, network, strategy, momentum)
