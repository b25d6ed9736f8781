"""Imports for this suite: the service of tests/integration, and the network of tests/lab."""
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "chaos"), str(TESTS / "integration"), str(TESTS / "lab")]
