"""A process that has imported a framework once, and forks a child for each program of a test.

Run as a script it reads one JSON object a line: {"module", "case", "output", "socket"}; it answers
with the child's pid, and with its exit status when asked by {"wait": pid}. A child ends as an
interpreter does: excepthook, then what atexit holds.
"""

import atexit
import faulthandler
import importlib
import json
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


class Nursery:
    """For the tests: the process, and its children."""

    def __init__(self, python, framework, environment):
        self.process = subprocess.Popen(
            [python, os.path.abspath(__file__), framework],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=HERE,
        )
        self.ready = self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        assert line, "the framework could not be imported"
        return json.loads(line)

    def _ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def start(self, module, case, output, socket=None):
        """The pid; what the program writes goes to OUTPUT.log."""
        return self._ask(module=module, case=case, output=str(output), socket=socket)

    def wait(self, pid):
        return self._ask(wait=pid)

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


def _be_program(order):
    log = os.open(order["output"] + ".log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.pop("EVENSTEP_SOCKET", None)
    if order["socket"]:
        os.environ["EVENSTEP_SOCKET"] = order["socket"]
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    code = 0
    try:
        getattr(importlib.import_module(order["module"]), order["case"])(order["output"])
    except SystemExit as e:
        code = e.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main():
    answers = os.dup(1)
    os.dup2(2, 1)
    for name in sys.argv[1].split(","):
        importlib.import_module(name)

    def answer(what):
        os.write(answers, (json.dumps(what) + "\n").encode())

    answer("ready")
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            answer(os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1]))
            continue
        pid = os.fork()
        if pid == 0:
            _be_program(order)
        answer(pid)


if __name__ == "__main__":
    main()
