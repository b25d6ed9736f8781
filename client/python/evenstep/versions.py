"""The oldest versions of frameworks that programs may have."""

import importlib
import re

from .run import Error

LEAST = {"torch": (2, 1), "keras": (3, 3)}


def check(framework):
    """Refuses an older version before something that it lacks fails."""
    version, least = importlib.import_module(framework).__version__, LEAST[framework]
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < least:
        raise Error(
            "evenstep takes %s %d.%d or newer, and this program has %s"
            % (framework, *least, version)
        )
