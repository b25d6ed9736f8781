"""Runs one case as a program of its own: case.py MODULE CASE OUTPUT. Where a rank started it, its
number is added to OUTPUT, so that every rank leaves a file of its own."""

import importlib
import os
import sys

module, case, output = sys.argv[1:]
rank = os.environ.get("EVENSTEP_RANK")
getattr(importlib.import_module(module), case)(output if rank is None else f"{output}-{rank}")
