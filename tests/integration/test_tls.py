"""TLS of page and API: certificates that the test makes, their renewal, and clients that verify."""
import subprocess

import pytest
import requests

from authority import Authority, openssl
from service import Service, until
from test_cli import run

def pin_of(cert):
    """The pin in the form of `evenstep --pin` and curl."""
    script = ('openssl x509 -in "$0" -pubkey -noout | openssl pkey -pubin -outform der | '
              'openssl dgst -sha256 -binary | openssl base64 -A')
    return "sha256//" + subprocess.run(["sh", "-c", script, cert], check=True, text=True,
                                       capture_output=True, timeout=60).stdout


class TlsService(Service):
    def start(self):
        super().start()
        self.http.verify = str(self.authority.file)
        self.http.trust_env = False  # else REQUESTS_CA_BUNDLE goes before it
        return self


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    authority, cert, key = Authority(folder), folder / "cert.pem", folder / "key.pem"
    authority.issue(cert, key, 1)
    TlsService.authority = authority
    with TlsService(nodes=["one=cpu:1,slowdown=4"], data=tmp_path_factory.mktemp("data"),
                    options=["--tls-cert", str(cert), "--tls-key", str(key)]) as s:
        s.cert, s.key = cert, key
        yield s


def ask(site, *args, **env):
    return run(*args, EVENSTEP_URL=site.url, EVENSTEP_TOKEN=site.token, **env)


def serial(site):
    """The serial number of the certificate on a new connection."""
    port = site.url.rsplit(":", 1)[1]
    shown = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}"], input="",
                           capture_output=True, text=True, timeout=60).stdout
    return int(subprocess.run(["openssl", "x509", "-noout", "-serial"], input=shown, check=True,
                              capture_output=True, text=True,
                              timeout=60).stdout.strip().split("=")[1], 16)


def test_page_and_api_are_https_alone(site):
    assert site.url.startswith("https://")
    assert site.get("jobs").status_code == 200
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.get(site.url.replace("https://", "http://") + "/healthz", timeout=30)


def test_the_cookie_travels_with_tls_alone_and_links_are_https(site):
    link = site.post("link", {"role": "viewer"}).json()["url"]
    assert link.startswith(site.url + "/#token=")
    answer = requests.post(site.url + "/api/v1/session", json={"token": link.split("=", 1)[1]},
                           verify=str(site.authority.file), timeout=30)
    assert answer.status_code == 201
    assert "Secure" in [word.strip() for word in answer.headers["Set-Cookie"].split(";")]


def test_events_come_through_tls(site):
    with site.http.get(site.url + "/api/v1/events", stream=True, timeout=30) as stream:
        lines = stream.iter_lines(chunk_size=1)
        assert b"event: hello" in lines  # reads on until it comes
        assert site.post("nodes/one/drain").status_code == 200
        assert b"event: node" in lines
    assert site.post("nodes/one/enable").status_code == 200


def test_long_answers_and_bodies_come_whole(site):
    assert len(site.get("../../openapi.json").json()["paths"]) > 20
    body = {"name": "x" * (1 << 20)}
    assert site.post("jobs?dryRun=true", body).status_code == 422


def test_the_command_line_takes_nobody_unknown_for_the_service(site):
    _, err, status = ask(site, "nodes")
    assert status == 3 and "certificate" in err and "--cacert" in err
    assert ask(site, "nodes", "--cacert", str(site.authority.file))[2] == 0
    assert ask(site, "nodes", EVENSTEP_CACERT=str(site.authority.file))[2] == 0
    _, err, status = run("nodes", EVENSTEP_URL=site.url.replace("https:", "http:"),
                         EVENSTEP_TOKEN="x")
    assert status == 3 and "begins with https://" in err


def test_a_pin_is_the_services_key_and_no_other(site, tmp_path):
    pin = pin_of(site.cert)
    assert f"pin={pin}" in site.text()
    assert ask(site, "nodes", "--pin", pin)[2] == 0
    Authority(tmp_path).issue(tmp_path / "cert", tmp_path / "key", 1)
    _, err, status = ask(site, "nodes", "--pin", pin_of(tmp_path / "cert"))
    assert status == 3 and "--pin" in err


def test_a_renewed_certificate_is_used_without_a_restart(site):
    before = serial(site)
    pin = pin_of(site.cert)
    site.authority.issue(site.cert, site.key, before + 1, new_key=False)
    until("the renewed certificate is used", lambda: serial(site) == before + 1)
    assert ask(site, "nodes", "--pin", pin)[2] == 0  # the key is the same
    site.authority.issue(site.cert, site.key, before + 2)
    until("the new key is used", lambda: serial(site) == before + 2)
    assert site.get("jobs").status_code == 200


def test_a_pair_that_does_not_fit_leaves_the_one_before(site, tmp_path):
    before = serial(site)
    good = site.key.read_bytes()
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out",
            tmp_path / "other")
    site.key.write_bytes((tmp_path / "other").read_bytes())
    until("the service has seen it", lambda: serial(site) and "stays the one before" in site.text())
    assert serial(site) == before and site.get("jobs").status_code == 200
    site.key.write_bytes(good)


def test_a_key_of_another_certificate_is_told_at_the_start(tmp_path):
    authority = Authority(tmp_path)
    authority.issue(tmp_path / "cert", tmp_path / "key", 1)
    authority.issue(tmp_path / "other", tmp_path / "other.key", 2)
    _, err, status = run("serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0",
                         "--no-local-node", "--tls-cert", str(tmp_path / "cert"), "--tls-key",
                         str(tmp_path / "other.key"))
    assert status == 1 and "it is not the key of" in err
    _, err, status = run("serve", "--data-dir", str(tmp_path / "data"), "--tls-cert", "x")
    assert status == 1 and "need each other" in err
