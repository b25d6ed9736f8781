"""Programs with PyTorch or Keras, and the ranks that they run on (rank.py)."""

import os
import signal
import sys
import time

import numpy as np
import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(TESTS, "client"), os.path.join(TESTS, "integration")]
from nursery import Nursery  # noqa: E402
from programs import python_with  # noqa: E402
from rank import Ranks  # noqa: E402
from tree import environment  # noqa: E402


@pytest.fixture(scope="session")
def torch_programs():
    nursery = Nursery(python_with("torch"), "torch,torch._dynamo,numpy", environment())
    yield nursery
    nursery.close()


@pytest.fixture(scope="module", params=["tensorflow", "torch"])
def keras_programs(request):
    """TensorFlow hangs in a child that was forked after it was imported: children import it."""
    python = python_with("keras", request.param)
    more = {"KERAS_BACKEND": request.param, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    nursery = Nursery(python, "numpy", dict(environment(), **more))
    yield nursery
    nursery.close()


class Job:
    """What a run of programs left: an .npz of each, the stand-in ranks, exit codes, logs."""

    def __init__(self, outputs, results, ranks, codes, logs):
        self.outputs, self.results, self.ranks = outputs, results, ranks
        self.codes, self.logs = codes, logs

    @property
    def sides(self):
        return self.ranks.sides


@pytest.fixture
def run_programs(tmp_path):
    def run(nursery, module, case, shares=None, epochs=1, fails=False, **options):
        """shares None: one program, alone."""
        # short: a socket's path in it has at most 107 bytes
        folder = tmp_path / ("%.8s-%d" % (case, len(os.listdir(tmp_path))))
        folder.mkdir()
        n = len(shares(0) if callable(shares) else shares) if shares else 1
        ranks = Ranks(folder, shares, epochs, **options) if shares else None
        outputs = [folder / ("program-%d" % i) for i in range(n)]
        pids = [
            nursery.start(module, case, output, ranks and ranks.path(i))
            for i, output in enumerate(outputs)
        ]
        problem = None
        try:
            if ranks:
                ranks.join()
        except BaseException as e:
            problem = e
            for pid in pids:  # their stacks go to their logs
                os.kill(pid, signal.SIGUSR2)
            time.sleep(1)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        codes = [nursery.wait(pid) for pid in pids]
        logs = [open(str(o) + ".log").read() for o in outputs]
        assert problem is None, "%s\n%s" % (problem, "\n".join(logs))
        if not fails:
            assert codes == [0] * n, "\n".join(logs)
        files = [str(o) + ".npz" for o in outputs]
        results = [dict(np.load(f)) if os.path.exists(f) else None for f in files]
        return Job(outputs, results, ranks, codes, logs)

    return run

