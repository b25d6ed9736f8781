"""An nginx with the lines of docs/deployment.md in front of the service, and a stand-in for
oauth2-proxy: who carries its cookie is ada."""
import http.server
import os
import re
import shutil
import subprocess
import threading

import pytest
import requests

from authority import Authority
from service import ROOT, Service, free_port, spec, until
from test_cli import run

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin")
pytestmark = pytest.mark.skipif(not NGINX, reason="nginx is not installed (deploy/setup test)")
SIGNED = {"signed": "ada"}
FOLDERS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


class SignIn(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = "signed=ada" in (self.headers.get("Cookie") or "")
        asked = self.path == "/oauth2/auth"
        body = b"" if asked else b"<h1>Sign in</h1>"
        self.send_response((202 if known else 401) if asked else 200)
        if asked and known:
            self.send_header("X-Auth-Request-User", "ada")
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def sign_in():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), SignIn)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


def lines(ports):
    """Lines of the guide, with our ports and files."""
    text = (ROOT / "docs" / "deployment.md").read_text()
    block = re.search(r"```\n(ssl_certificate .*?)```", text, re.S).group(1)
    for old, new in ports.items():
        assert old in block
        block = block.replace(old, new)
    return block


class Front:
    """The addresses of an nginx: for people and for scripts."""

    def __init__(self, folder, service, sign_in):
        authority = Authority(folder)
        cert, key = folder / "cert.pem", folder / "key.pem"
        authority.issue(cert, key, 1)
        people, scripts = free_port(), free_port()
        live = "/etc/letsencrypt/live/train.example.org/"
        block = lines({"127.0.0.1:8080": service.url.removeprefix("http://"),
                       "127.0.0.1:4180": f"127.0.0.1:{sign_in}",
                       "listen 443": f"listen 127.0.0.1:{people}",
                       "listen 8443": f"listen 127.0.0.1:{scripts}",
                       live + "fullchain.pem": str(cert), live + "privkey.pem": str(key)})
        temporary = "".join(f"{f}_temp_path {folder}/{f};\n" for f in FOLDERS)
        user = "" if os.geteuid() else "user root;\n"  # else another one may not enter the folder
        (folder / "nginx.conf").write_text(
            f"{user}pid {folder}/pid; daemon off; error_log {folder}/error.log;\nevents {{}}\n"
            f"http {{ access_log off;\n{temporary}{block}}}\n")
        self.people, self.scripts = (f"https://127.0.0.1:{p}" for p in (people, scripts))
        self.authority = str(authority.file)
        self.process = subprocess.Popen([NGINX, "-c", folder / "nginx.conf", "-e",
                                         folder / "error.log"])

    def ask(self, method, url, **kw):
        with requests.Session() as session:
            session.trust_env = False
            return session.request(method, url, verify=self.authority, timeout=60, **kw)

    def up(self):
        try:
            return self.ask("GET", self.people + "/").ok
        except requests.ConnectionError:
            return False


@pytest.fixture(scope="module")
def service():
    options = ["--allow-host", "127.0.0.1", "--proxy-user-header", "X-Forwarded-User",
               "--proxy-address", "127.0.0.1", "--proxy-role", "operator"]
    with Service(nodes=["one=cpu:1"], options=options) as s:
        yield s


@pytest.fixture(scope="module")
def front(tmp_path_factory, service, sign_in):
    front = Front(tmp_path_factory.mktemp("nginx"), service, sign_in)
    until("nginx answers", front.up)
    yield front
    front.process.terminate()
    front.process.wait(30)


def test_who_has_not_signed_in_gets_the_sign_in(front):
    answer = front.ask("GET", front.people + "/api/v1/jobs", headers={"X-Forwarded-User": "eve"})
    assert "Sign in" in answer.text


def test_who_has_signed_in_owns_what_they_submit(front):
    """The Origin is a browser's, with the port."""
    answer = front.ask("POST", front.people + "/api/v1/jobs", json=spec(workers=1, epochs=1),
                       cookies=SIGNED, headers={"Origin": front.people, "X-Forwarded-User": "eve"})
    assert answer.status_code == 201 and answer.json()["owner"] == "ada", answer.text


@pytest.mark.parametrize("address", ["people", "scripts"])
def test_a_body_of_many_bytes_reaches_the_service(front, service, address):
    """The service answers, which has its own limit of four MiB."""
    headers = {"Origin": front.people} if address == "people" else {
        "Authorization": "Bearer " + service.token}
    answer = front.ask("POST", getattr(front, address) + "/api/v1/jobs?dryRun=true",
                       json={"name": "x" * (3 << 20)}, cookies=SIGNED, headers=headers)
    assert answer.status_code == 422, answer.text[:500]
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_events_come_one_by_one(front, service):
    with requests.Session() as session:
        session.trust_env = False
        with session.get(front.people + "/api/v1/events", verify=front.authority, stream=True,
                         cookies=SIGNED, timeout=60) as stream:
            events = stream.iter_lines(chunk_size=1)
            assert b"event: hello" in events
            for command in ("drain", "enable"):
                assert service.post("nodes/one/" + command).status_code == 200
                assert b"event: node" in events


def test_the_address_of_scripts_believes_tokens_alone(front, service):
    jobs = front.scripts + "/api/v1/jobs"
    answer = front.ask("GET", jobs, cookies=SIGNED, headers={"X-Forwarded-User": "eve"})
    assert answer.status_code == 401
    _, err, status = run("nodes", "--cacert", front.authority, EVENSTEP_URL=front.scripts,
                         EVENSTEP_TOKEN=service.token)
    assert status == 0, err
