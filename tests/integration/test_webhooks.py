"""Webhooks with receivers as they are: one that fails first, one that is slow, one that redirects,
one that is dead, and one that comes back while the coordinator was away. Signatures are checked by
the code of docs/webhooks.md."""
import contextlib
import datetime
import http.server
import json
import os
import re
import shutil
import socket
import sys
import threading
import time

import pytest

from programs import ROOT
from service import Service, free_port, spec, until
from test_cli import run

sys.path.insert(0, str(ROOT / "tests/lab"))
import netns  # noqa: E402

QUICK = spec(epochs=1, data={"format": "glyphs", "samples": 256, "test_samples": 50})
manual = {}
exec(re.search(r"```python\n(.*?)```", (ROOT / "docs/webhooks.md").read_text(), re.S).group(1),
     manual)


class Receiver:
    """Answers each POST as `answer(n)` says, n its number: a status, or (status, headers); `hold`
    is waited for before."""

    def __init__(self, answer=lambda n: 204, hold=None, port=0, at="127.0.0.1"):
        self.got, self.hold = [], hold
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((dict(self.headers), body))
                if outer.hold:
                    outer.hold.wait(60)
                told = answer(len(outer.got))
                status, headers = told if isinstance(told, tuple) else (told, {})
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    for name, value in {**headers, "Content-Length": "0"}.items():
                        self.send_header(name, value)
                    self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((at, port), Handler)
        self.server.daemon_threads = True
        self.url = f"http://{at}:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.hold:
            self.hold.set()
        self.server.shutdown()
        self.server.server_close()

    def told(self, secret):
        """What it was told, each signed by this secret: [(id, document)]."""
        for headers, body in self.got:
            names = {name.lower(): value for name, value in headers.items()}
            assert manual["verify"](secret, names, body)
            assert not manual["verify"](secret, names, body + b" ")
        return [(headers["webhook-id"], json.loads(body)) for headers, body in self.got]


@pytest.fixture(scope="module")
def service():
    with Service(nodes=("a=cpu:1", "b=cpu:1"), options=("--allow-local-webhooks",)) as s:
        yield s


def make(service, address, **more):
    made = service.post("webhooks", {"address": address, **more})
    assert made.status_code == 201, made.text
    return made.json()


def tries(service, hook):
    return service.get(f"webhooks/{hook['id']}").json()["tries"]


def test_what_fails_first_is_told_again_under_the_same_id(service):
    with Receiver(lambda n: 500 if n == 1 else 204) as receiver:
        hook = make(service, receiver.url, states=["cancelled", "succeeded"])
        job = service.submit(QUICK)
        service.wait(job, "succeeded")
        until("the delivery is done", lambda: service.get(
            f"webhooks/{hook['id']}").json()["waiting"] == 0 and len(receiver.got) == 2)
        (first, told), (second, _) = receiver.told(hook["secret"])
        assert first == second and told["type"] == "job.succeeded"
        assert told["data"]["id"] == job and told["data"]["owner"] == "admin"
        done, failed = until("both tries are listed",
                             lambda: len(tries(service, hook)) == 2 and tries(service, hook))
        assert (failed["outcome"], failed["status"], failed["try"]) == ("waits", 500, 1)
        assert (done["outcome"], done["status"], done["message"]) == ("delivered", 204, None)
        assert failed["next"] > failed["time"] and done["next"] is None
    assert service.ask("DELETE", f"webhooks/{hook['id']}").status_code == 204


def test_a_slow_and_a_dead_receiver_hold_up_nobody(service):
    with Receiver(hold=threading.Event()) as slow, Receiver() as quick:
        hooks = [make(service, address, states=["queued", "succeeded"])
                 for address in (slow.url, f"http://127.0.0.1:{free_port()}/", quick.url)]
        service.wait(service.submit(QUICK), "succeeded")
        until("the quick one was told of both", lambda: len(quick.got) == 2)
        assert [told["type"] for _, told in quick.told(hooks[2]["secret"])] == \
            ["job.queued", "job.succeeded"]
        until("the slow one was told of the first", lambda: slow.got)
        assert len(slow.got) == 1  # it has not answered that yet
        dead = until("the dead one was tried", lambda: tries(service, hooks[1]))[0]
        assert dead["status"] is None and dead["outcome"] == "waits" and dead["message"]
    for hook in hooks:
        service.ask("DELETE", f"webhooks/{hook['id']}")


def test_a_receiver_that_never_answers_is_deleted_meanwhile_and_holds_up_no_stop(tmp_path):
    with Service(folder=tmp_path, options=("--allow-local-webhooks",)) as s, \
            Receiver(hold=threading.Event()) as silent, Receiver() as quick:
        hooks = [make(s, silent.url, states=["succeeded"]) for _ in range(20)]
        make(s, quick.url, states=["succeeded"])
        s.wait(s.submit(QUICK), "succeeded")
        until("all were told", lambda: len(silent.got) == 20 and quick.got)
        assert s.ask("DELETE", f"webhooks/{hooks[0]['id']}").status_code == 204
        assert s.get(f"webhooks/{hooks[0]['id']}").status_code == 404
        s.wait(s.submit(QUICK), "succeeded")
        until("the quick one is told again", lambda: len(quick.got) == 2)
        s.stop()
        assert s.process.returncode == 0 and len(silent.got) == 20


class Nameless(Service):
    """A service whose name server, 127.0.0.77, listens and never answers: to give a name up takes
    longer than tests wait."""

    def wrap(self, command):
        (self.dir / "resolv.conf").write_text("nameserver 127.0.0.77\n"
                                              "options timeout:30 attempts:5\n")
        mount = f"mount --bind {self.dir}/resolv.conf /etc/resolv.conf && exec \"$@\""
        return ["unshare", "--mount", "sh", "-c", mount, "sh", *command]


def test_a_name_that_is_looked_up_for_minutes_holds_up_nobody_and_no_stop(tmp_path):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("only root can give a program a name server of its own")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as names:
        names.bind(("127.0.0.77", 53))
        with Nameless(folder=tmp_path, options=("--allow-local-webhooks",)) as s, \
                Receiver() as quick:
            make(s, "http://receiver.example.org/", states=["queued", "succeeded"])
            make(s, quick.url, states=["queued", "succeeded"])
            s.submit(QUICK)
            assert names.recv(2000)
            until("the quick one was told of both", lambda: len(quick.got) == 2)
            s.stop()
            assert s.process.returncode == 0


class Elsewhere(Service):
    """A service in a network of its own, where a receiver's name has two addresses: one of the
    service's host, which is tried first, and one that may be told."""

    def wrap(self, command):
        (self.dir / "names").write_text("127.0.0.1 localhost\n::1 receiver.example.org\n"
                                        "192.0.2.7 receiver.example.org\n")
        mount = f"mount --bind {self.dir}/names /etc/hosts && exec \"$@\""
        return self.network.command("unshare", "--mount", "sh", "-c", mount, "sh", *command)


def test_an_address_that_may_be_told_is_told_once_though_its_name_has_one_that_may_not(tmp_path):
    reason = netns.reason_against()
    if reason:
        pytest.skip(reason)
    with contextlib.closing(netns.Namespace()) as network, network:
        network.run("ip", "address", "add", "192.0.2.7/32", "dev", "lo")
        s = Elsewhere(folder=tmp_path)
        s.network = network
        with Receiver(at="192.0.2.7") as receiver, s:
            hook = make(s, receiver.url.replace("192.0.2.7", "receiver.example.org"),
                        states=["queued"])
            s.submit(QUICK)
            tried = until("it was tried", lambda: tries(s, hook))[0]
            assert (tried["outcome"], tried["status"], tried["message"]) == ("delivered", 204, None)
            assert receiver.got


@contextlib.contextmanager
def saying(text):
    """The address of a receiver that sends these bytes and no more, and keeps the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    kept.append(server.accept()[0])
                    kept[-1].recv(1 << 16)
                    kept[-1].sendall(text)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/hook"
        for one in kept:
            one.close()


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.mark.parametrize("text, outcome", [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "delivered"),
    (CONTINUE + b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", "delivered"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello", "delivered"),
    (b"HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\n", "waits"),
    (b"HTTP/1.1 200 OK\r\nContent-Len", "waits")])
def test_an_answer_counts_once_its_header_is_complete(service, text, outcome):
    """However long its body is; and not before."""
    with saying(text) as url:
        hook = make(service, url, states=["succeeded"])
        service.wait(service.submit(QUICK), "succeeded")
        begun = time.monotonic()
        told = until("it was tried", lambda: tries(service, hook), 30)[0]
        assert told["outcome"] == outcome
        assert text.endswith(b"Content-Len") == (time.monotonic() - begun > 10)
        assert service.ask("DELETE", f"webhooks/{hook['id']}").status_code == 204


def test_a_redirect_is_a_failure_and_not_followed(service):
    with Receiver() as target, Receiver(lambda n: (307, {"Location": target.url})) as receiver:
        hook = make(service, receiver.url)
        service.wait(service.submit(QUICK), "succeeded")
        tried = until("it was tried", lambda: tries(service, hook))[0]
        assert tried["status"] == 307 and "redirect" in tried["message"]
        assert not target.got
    service.ask("DELETE", f"webhooks/{hook['id']}")


def test_a_receiver_that_asks_for_time_gets_it(service):
    with Receiver(lambda n: (503, {"Retry-After": "40"})) as receiver:
        hook = make(service, receiver.url)
        service.wait(service.submit(QUICK), "succeeded")
        tried = until("it was tried", lambda: tries(service, hook))[0]
        at, again = (datetime.datetime.fromisoformat(tried[key]) for key in ("time", "next"))
        assert tried["status"] == 503 and (again - at).total_seconds() == pytest.approx(40, abs=1)
    service.ask("DELETE", f"webhooks/{hook['id']}")


def test_nothing_is_lost_when_the_coordinator_is_killed(tmp_path):
    port = free_port()
    with Service(folder=tmp_path, options=("--allow-local-webhooks",)) as s:
        hook = make(s, f"http://127.0.0.1:{port}/hook", states=["queued", "succeeded"])
        job = s.submit(QUICK)
        s.wait(job, "succeeded")
        until("it was tried", lambda: tries(s, hook))
        s.kill()
        with Receiver(port=port) as receiver:
            s.start()
            until("both changes were told",
                  lambda: len({headers["webhook-id"] for headers, _ in receiver.got}) == 2)
            kinds = {told["type"]: told["data"]["id"] for _, told in receiver.told(hook["secret"])}
            assert kinds == {"job.queued": job, "job.succeeded": job}
            until("nothing waits", lambda: s.get(f"webhooks/{hook['id']}").json()["waiting"] == 0)


def test_addresses_of_this_host_are_refused_when_made_and_when_sent_to(tmp_path):
    with Receiver() as receiver:
        s = Service(folder=tmp_path, options=("--allow-local-webhooks",))
        with s:
            hook = make(s, receiver.url, states=["queued"])
        s.options = ()
        with s:
            for address in ("http://127.0.0.1/", "http://[::1]:80/", "http://localhost:9/",
                            "http://169.254.169.254/latest", "https://2130706433/"):
                answer = s.post("webhooks", {"address": address})
                assert answer.status_code == 422 and "/address" in answer.text, address
            s.submit(QUICK)
            tried = until("it was tried", lambda: tries(s, hook))[0]
            assert tried["outcome"] == "waits" and tried["status"] is None
            assert "coordinator's host" in tried["message"]
            assert not receiver.got


def test_the_command_line_makes_lists_and_deletes_them(service):
    def evenstep(*arguments):
        """stdout, stderr and status."""
        return run("webhooks", *arguments, service=service)

    with Receiver() as receiver:
        id, secret = evenstep("create", receiver.url, "--state", "queued")[0].split()
        service.submit(QUICK)
        until("it was told", lambda: receiver.got)
        assert receiver.told(secret)[0][1]["type"] == "job.queued"
        listed = until("it is listed as delivered", lambda: (
            lambda text: "delivered" in text and text)(evenstep()[0]))
        assert id in listed and receiver.url[:20] in listed and secret not in listed
        assert "job.queued" in evenstep("show", id)[0]
        assert evenstep("delete", id)[0] == f"{id} deleted\n"
        assert evenstep("show", id)[2] == 6
        assert evenstep("remove", id)[2] == 2


def test_the_command_line_says_why_the_last_delivery_failed(service):
    """"waits" told nothing of a receiver that has answered 500."""
    with Receiver(lambda n: 500) as receiver:
        id = run("webhooks", "create", receiver.url, "--state", "queued",
                 service=service)[0].split()[0]
        service.submit(QUICK)
        until("it was told", lambda: receiver.got)
        listed = until("the reason is listed", lambda: (
            lambda text: "it answered 500" in text and text)(run("webhooks", service=service)[0]))
        assert "waits" not in listed
        shown = run("webhooks", "show", id, service=service)[0]
        assert re.search(r"job\.queued .* 1 +failed +500  it answered 500", shown), shown
        run("webhooks", "delete", id, service=service)
