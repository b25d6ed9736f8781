"""What this suite imports: tests/integration has the service, tests/lab a disk soon full."""
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "integration"), str(TESTS / "lab")]
