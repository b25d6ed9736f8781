"""A process that has imported a framework once, and forks a child for each program of a test.

Run as a script it reads one JSON object a line: {"module", "case", "output", "socket"}; it answers
with the child's pid, and with its exit status when asked by {"wait": pid}. A child ends as an
interpreter does: excepthook, then what atexit holds.

A real rank starts its program itself, and kills and watches it. There the program is ward.py, which
asks the process for a child by a Unix socket, hands over its environment, folder and output, and
ends as that child does; a ward that is killed takes its child along.
"""

import atexit
import faulthandler
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


class Nursery:
    """For the tests: the process, and its children."""

    def __init__(self, python, framework, environment):
        self.folder = tempfile.TemporaryDirectory()
        self.door = os.path.join(self.folder.name, "door")
        self.process = subprocess.Popen(
            [python, os.path.abspath(__file__), framework, self.door],
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

    def command(self, module, case, output):
        """What a real rank starts; its rank is added to OUTPUT."""
        ward = os.path.join(HERE, "ward.py")
        return [sys.executable, "-S", ward, self.door, module, case, str(output)]

    def close(self):
        self.process.stdin.close()
        self.process.wait(120)
        self.folder.cleanup()


def _be_program(order):
    """The child, until it ends."""
    os.environ.pop("EVENSTEP_SOCKET", None)
    if order["socket"]:
        os.environ["EVENSTEP_SOCKET"] = order["socket"]
    log = os.open(order["output"] + ".log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.chdir(os.path.dirname(order["output"]))  # what it writes beside itself is the test's
    _run_case(order, log)


def _be_ward_of(order, output):
    os.environ.update(order["environ"])
    os.chdir(order["folder"])
    _run_case(order, output)


def _run_case(order, log):
    os.dup2(log, 1)
    os.dup2(log, 2)
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


class Wards:
    """Children that wards asked for; each connection ends when its child has."""

    def __init__(self, door, events):
        self.events = events
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(door)
        self.listener.listen(16)
        self.pids = {}  # by connection
        events.register(self.listener, selectors.EVENT_READ, self.take)

    def take(self):
        connection, _ = self.listener.accept()
        content, (output,), _, _ = socket.recv_fds(connection, 1 << 16, 1)
        pid = os.fork()
        if pid == 0:
            connection.close()
            _be_ward_of(json.loads(content), output)
        os.close(output)
        self.pids[connection] = pid
        pidfd = os.pidfd_open(pid)
        self.events.register(pidfd, selectors.EVENT_READ, lambda: self.ended(connection, pidfd))
        self.events.register(connection, selectors.EVENT_READ, lambda: self.left(connection))

    def left(self, connection):
        """The ward was killed."""
        self.events.unregister(connection)
        os.kill(self.pids[connection], signal.SIGKILL)

    def ended(self, connection, pidfd):
        status = os.waitpid(self.pids.pop(connection), 0)[1]
        self.events.unregister(pidfd)
        os.close(pidfd)
        if connection.fileno() in self.events.get_map():
            self.events.unregister(connection)
            connection.send(b"%d" % os.waitstatus_to_exitcode(status))
        connection.close()


def main():
    answers = os.dup(1)
    os.dup2(2, 1)
    for name in sys.argv[1].split(","):
        importlib.import_module(name)
    events = selectors.DefaultSelector()
    Wards(sys.argv[2], events)

    def answer(what):
        os.write(answers, (json.dumps(what) + "\n").encode())

    def obey():
        line = sys.stdin.readline()
        if not line:
            sys.exit()
        order = json.loads(line)
        if "wait" in order:
            answer(os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1]))
            return
        pid = os.fork()
        if pid == 0:
            _be_program(order)
        answer(pid)

    answer("ready")
    events.register(sys.stdin, selectors.EVENT_READ, obey)
    while True:
        for key, _ in events.select():
            key.data()


if __name__ == "__main__":
    main()
