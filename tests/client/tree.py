"""The location of this tree, and the environment of a program that uses the package from there."""

import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("EVENSTEP_BUILD", os.path.join(ROOT, "build"))


def environment():
    return dict(
        os.environ,
        PYTHONPATH=os.path.join(ROOT, "client/python"),
        EVENSTEP_LIBRARY=os.path.join(BUILD, "libevenstep.so"),
        OMP_NUM_THREADS="1",
        PYTHONDONTWRITEBYTECODE="1",
    )
