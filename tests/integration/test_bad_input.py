"""Bad input at the real service: each is answered with what is wrong and where, and after all of
them the service stands as before: nothing queued, no process, no file. Kinds that need no whole
service are tested closer to their parsers; docs/testing.md has the table."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import socket
import subprocess

import pytest

from service import Service, processes_of, spec, until


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    secret = tmp_path_factory.mktemp("elsewhere")
    (secret / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    (root / "below").mkdir()
    (root / "below" / "link").symlink_to(secret)
    (root / "below" / "link.safetensors").symlink_to(secret / "model.safetensors")
    (root / "loop").symlink_to(root / "loop")
    with Service(nodes=("a=cpu:1", "b=cpu:1"), data=root) as s:
        yield s
        assert s.get("jobs").json()["jobs"] == [], "nothing of this was queued"
        assert not any("evenstep-worker" in pathlib.Path(f"/proc/{p}/cmdline").read_text()
                       for p in processes_of(str(s.dir)))
        assert not list((s.dir / "jobs").glob("*")), "nothing of this has files"


@pytest.fixture(autouse=True)
def stands(service):
    """The same process still answers."""
    pid = service.process.pid
    yield
    assert service.process.poll() is None and service.process.pid == pid
    assert service.get("nodes").status_code == 200


def changed(path, value):
    job = spec()
    at = job
    *folders, last = path.strip("/").split("/")
    for key in folders:
        at = at[key]
    at[last] = value
    return job


DENSE = {"type": "dense", "units": 10}


@pytest.mark.parametrize("path, value, words", [
    ("/workers", 0, "/workers"), ("/workers", 10**9, "/workers"), ("/workers", "two", "/workers"),
    ("/workers", 1.5, "/workers"), ("/epochs", -1, "/epochs"), ("/epochs", 10**17, "/epochs"),
    ("/seed", -1, "/seed"), ("/name", "", "/name"), ("/name", "x" * 10000, "/name"),
    ("/name", ["a"], "/name"), ("/epoch", 3, "did you mean 'epochs'"),
    ("/batching/global_batch", 10**12, "/batching/global_batch"),
    ("/batching/global_batch", 1, "/batching"),
    ("/batching/max_batch", 1, "more than 2 workers times the largest minibatch of 1"),
    ("/data/samples", 10**15, "/data/samples"), ("/data/samples", 0, "/data/samples"),
    ("/optimizer/learning_rate", -0.1, "/optimizer/learning_rate"),
    ("/optimizer/learning_rate", 1e300, "/optimizer/learning_rate"),
    ("/optimizer", {"type": "sgdd"}, "did you mean 'sgd'"),
    ("/strategy", {"type": "__proto__"}, "/strategy/type"),
    ("/model", "lenet6", "lenet5"), ("/model", {}, "/model"), ("/model", 5, "the name of a preset"),
    ("/model", {"input": [28, 28, 1], "layers": [{"type": "relu", "inputs": ["input"] * 2}, DENSE]},
     "takes 1 input, not 2"), ("/model", {"input": [28, 28, 1], "layers": []}, "/model/layers"),
    ("/model", {"input": [28, 28, 1],
                "layers": [{"type": "conv2d", "filters": 4, "kernel": 29}, DENSE]}, "[28, 28, 1]"),
    ("/model", {"input": [28, 28, 1],
                "layers": [{"type": "flatten"}, {"type": "max_pool", "size": 2}, DENSE]}, "[784]"),
    ("/model", {"input": [28, 28, 1],
                "layers": [{"type": "dense", "units": 10**9}, {"type": "dense", "units": 10**9}]},
     "/model/layers"),
    ("/model", {"input": [10**6, 10**6, 10**6], "layers": [DENSE]}, "/model/input"),
    ("/model", {"input": [28, 28, 1], "layers": [dict(DENSE, inputs=["nobody"])]}, "nobody"),
    ("/model", {"input": [28, 28, 1], "layers": [{"type": "relu"}] * 2000 + [DENSE]},
     "/model/layers"),
    ("/data", {"format": "idx", "path": "../../etc"}, "/data/path"),
    ("/data", {"format": "idx", "path": "/etc"}, "/data/path"),
    ("/data", {"format": "idx", "path": "below/link"}, "outside the data folders"),
    ("/data", {"format": "npy", "path": "loop"}, "/data/path"),
    ("/data", {"format": "idx", "path": ""}, "/data/path"),
    ("/data", {"format": "idx", "path": "a" * 5000}, "/data/path"),
    ("/data", {"format": "exe", "path": "x"}, "/data/format"), ("/data", [], "/data"),
    ("/init", "../../../etc/passwd", "/init"), ("/init", "/etc/passwd", "/init"),
    ("/init", "below/link.safetensors", "/init"),
    ("/init", {"path": "jobs/../../../etc", "continue": True}, "/init"), ("/nodes", "a", "/nodes"),
    ("/cluster", {"nodes": [{"name": "x", "count": 10**9, "seconds_per_sample": 1}]},
     "/cluster/nodes/0/count"),
    ("/checkpoint", {"every_steps": 0}, "/checkpoint"), ("/command", "rm -rf /", "/command"),
])
def test_a_spec_that_cannot_be_is_refused_with_its_place(service, path, value, words):
    for query in ("?dryRun=true", ""):
        answer = service.post("jobs" + query, changed(path, value))
        assert answer.status_code == 422, answer.text
        assert answer.headers["Content-Type"].startswith("application/problem+json")
        assert words in answer.text, answer.text


@pytest.mark.parametrize("body, words", [
    (b"", "empty"), (b"{", "line 1"), (b'{"a": 1,}', "line 1"),
    (b'{"name": "a", "name": "b"}', "duplicate"), (b"null", "line 1"),
    (b'{"epochs": 1' + b"0" * 30 + b"}", "too big"), (b"[1]", "object"),
    (b'{"name": NaN}', "line 1"), (b'{"name": 1e999}', "line 1"), (b'{"name": "\xff"}', "line 1"),
    (b'{"name": "\\ud800"}', "line 1"),
    (b'{"name": "a\\u0000b"}', "line 1"), (b"\0", "line 1"), (b"[" * 100000, "line 1"),
    (b'{"a":' * 5000 + b"1" + b"}" * 5000, "line 1"),
    (json.dumps(spec()).encode() + b"x", "line 1"), (b"\xef\xbb\xbf{}", "line 1"),
    (b"name=a&workers=2", "line 1"),
])
def test_a_body_that_is_no_json_object_is_refused_with_line_and_column(service, body, words):
    answer = service.ask("POST", "jobs", data=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert words in answer.text, answer.text


NEVER_ENOUGH = [({"workers": 3}, "/workers", "it asks for 3 workers, and there are 2 nodes"),
                ({"nodes": ["a", "nobody"]}, "/nodes",
                 "it asks for 2 workers, and there is 1 node that the spec names")]


@pytest.mark.parametrize("change, pointer, words", NEVER_ENOUGH)
def test_more_workers_than_a_service_of_its_own_store_can_have_are_refused(
        service, change, pointer, words):
    for query in ("?dryRun=true", ""):
        answer = service.post("jobs" + query, spec(**change))
        assert answer.status_code == 422 and [e["pointer"] for e in answer.json()["errors"]] == [
            pointer], answer.text
        assert words in answer.json()["errors"][0]["message"]


def test_a_job_waits_for_nodes_that_are_there_but_not_in_use(service):
    assert service.post("nodes/b/drain").ok
    try:
        plan = service.post("jobs?dryRun=true", spec())
        assert plan.status_code == 200
        warning, = plan.json()["warnings"]
        assert (warning["code"], warning["pointer"]) == ("nodes_short", "/workers")
        assert "1 of the 2 nodes is lost, draining or disabled" in warning["message"]
    finally:
        service.post("nodes/b/enable")


def test_where_hosts_may_join_a_job_waits_for_them_and_says_so(tmp_path):
    """Other hosts share the store, so nodes may join."""
    store = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", str(tmp_path / "shared.sock"), "--dir",
         str(tmp_path), "--save", ""], stdout=subprocess.DEVNULL)
    try:
        until("the store listens", (tmp_path / "shared.sock").exists)
        with Service(nodes=("a=cpu:1",), options=("--store", f"unix:{tmp_path}/shared.sock")) as s:
            for change, pointer, _ in NEVER_ENOUGH:
                warning, = s.post("jobs?dryRun=true", spec(**change)).json()["warnings"]
                assert warning["pointer"] == pointer and "it asks for" in warning["message"]
            id = s.submit(spec(workers=3))
            until("it is known why",
                  lambda: s.job(id)["waiting"] == "it asks for 3 workers, and there is 1 node")
    finally:
        store.terminate()
        store.wait()


@pytest.mark.parametrize("query, pointer, words",
                         [("limit=1&limit=2", "limit", "given twice"),
                          ("limit=1%00", "limit", "zero byte"),
                          ("limit=1&%00=2", "", "zero byte"), ("name=%c0%af", "name", "UTF-8")])
def test_a_query_that_says_two_things_is_refused(service, query, pointer, words):
    answer = service.get("jobs?" + query)
    assert (answer.status_code == 422 and answer.json()["errors"][0]["pointer"] == pointer
            and words in answer.json()["errors"][0]["message"])


def test_a_priority_that_no_spec_could_have_is_refused_for_a_job_too(service):
    assert service.post("nodes/a/drain").ok
    id = service.submit(spec())
    try:
        assert service.ask("PATCH", "jobs/" + id,
                           json={"priority": 1000}).json()["priority"] == 1000
        assert "from -1000 to 1000" in service.ask("PATCH", "jobs/" + id,
                                                   json={"priority": 1001}).text
    finally:
        assert service.post(f"jobs/{id}/cancel").ok
        service.post("nodes/a/enable")
        until("it has ended", lambda: service.job(id)["state"] == "cancelled")
        assert service.ask("DELETE", "jobs/" + id).ok


def talk(service, *pieces, whole=True):
    """Sends these bytes, with the service's name and port for HOST; returns the answer until the
    server closes the connection. The sending side is closed, because an incomplete request would
    otherwise wait for its rest. A server that closes the connection early has answered before."""
    host = service.url.split("//")[1].encode()
    with socket.create_connection(("127.0.0.1", int(host.split(b":")[1])), timeout=60) as s:
        answer = b""
        with contextlib.suppress(OSError):
            for piece in pieces:
                s.sendall(piece.replace(b"HOST", host))
            if not whole:
                s.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            while chunk := s.recv(65536):
                answer += chunk
        return answer


def test_a_body_of_100_megabytes_is_refused_and_costs_no_memory(service):
    def resident():
        return (int((pathlib.Path(f"/proc/{service.process.pid}/statm").read_text().split()[1]))
                * os.sysconf("SC_PAGE_SIZE"))
    before = resident()
    head = (
        "POST /api/v1/jobs HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer "
        f"{service.token}\r\nContent-Length: {100 << 20}\r\nConnection: close\r\n\r\n")
    answer = talk(service, head.encode(), *[b" " * (1 << 20)] * 100)
    assert b" 413 " in answer.split(b"\r\n")[0]
    assert resident() - before < 32 << 20


@pytest.mark.parametrize("length", [10**18, 10**17, 1 << 40])
def test_a_body_that_would_never_end_is_refused_before_it_comes(service, length):
    """Its client's connection was closed after 256 MB, without a message."""
    head = (f"POST /api/v1/jobs HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer {service.token}\r\n"
            f"Content-Length: {length}\r\n\r\n")
    answer = talk(service, head.encode())
    assert answer.startswith(b"HTTP/1.1 413 ") and b"Connection: close" in answer, answer[:300]
    assert b"application/problem+json" in answer


POST = b"POST /api/v1/jobs HTTP/1.1\r\nHost: HOST\r\n"


NO_REQUESTS = {
    "endless-headers": (431, [b"GET / HTTP/1.1\r\nHost: HOST\r\n"]
                        + [b"X-More: " + b"y" * 1000 + b"\r\n"] * 2000),
    "endless-line": (414, [b"GET /" + b"a" * (1 << 20)]),
    "version": (505, [b"GET / HTTP/9.9\r\n\r\n"]),
    "negative-length": (400, [POST + b"Content-Length: -5\r\n\r\n"]),
    "no-chunk": (400, [POST + b"Transfer-Encoding: chunked\r\n\r\nzzzz\r\n"]),
    "two-hosts": (400, [b"GET / HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\n"
                        b"Connection: close\r\n\r\n"]),
    "nul-in-a-value": (400, [b"GET /healthz HTTP/1.1\r\nHost: HOST\r\nX-Any: a\0b\r\n"
                             b"Connection: close\r\n\r\n"]),
    "nul-in-the-last-value": (400, [b"GET /healthz HTTP/1.1\r\nConnection: close\r\n"
                                    b"Host: HOST\0.example\r\n\r\n"]),
    "blanks-around-values": (200, [b"GET /healthz HTTP/1.1\r\nX-Any: \t a \t \r\nHost: HOST\r\n"
                                   b"X-None:\r\nConnection: close  \r\n\r\n"]),
    "tls": (None, [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)]),
    "blank": (None, [b"\r\n" * 5000]),
    "no-path": (None, [b"GET\r\n\r\n"]),
}


@pytest.fixture(scope="module")
def ends(service):
    """The answer to each of them. They are sent at the same time, because some are only ended after
    a wait.
    """
    with concurrent.futures.ThreadPoolExecutor(len(NO_REQUESTS)) as pool:
        talks = {name: pool.submit(talk, service, *pieces, whole=False)
                 for name, (_, pieces) in NO_REQUESTS.items()}
    return {name: answer.result() for name, answer in talks.items()}


@pytest.mark.parametrize("name", NO_REQUESTS)
def test_bytes_that_are_no_request_are_ended(ends, name):
    """The status says why; bytes that are not HTTP at all are ended without an answer."""
    status, answer = NO_REQUESTS[name][0], ends[name]
    assert answer.split(b" ")[1:2] == ([str(status).encode()] if status else []), answer[:200]


@pytest.mark.parametrize("path",
                         ["/../token", "/..%2ftoken", "/%2e%2e/token", "/js/..%5c..%5ctoken",
                          "/js/%00", "//etc/passwd", "/css/../../redis.sock"])
def test_no_path_leaves_the_folder_of_the_page(service, path):
    answer = talk(service,
                  f"GET {path} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n".encode())
    assert answer.split(b" ")[1] in (b"400", b"404") and service.token.encode() not in answer


@pytest.mark.parametrize("name", ["../../token", "..%2f..%2ftoken", "%2e%2e%2f%2e%2e%2ftoken",
                                  "model.safetensors%00", ".", ".."])
def test_no_artifact_is_outside_its_folder(service, name):
    request = (f"GET /api/v1/jobs/{'0' * 16}/artifacts/{name} HTTP/1.1\r\nHost: HOST\r\n"
               f"Authorization: Bearer {service.token}\r\nConnection: close\r\n\r\n")
    answer = talk(service, request.encode())
    assert answer.split(b" ")[1] in (b"400", b"404") and service.token.encode() not in answer


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer x", "Bearer " + "0" * 48, "Basic YTpi",
                                    "Bearer " + "a" * 7000])
def test_a_wrong_token_is_told_nothing(service, header):
    for path in ("jobs", "nodes", "events", "catalog"):
        answer = service.ask("GET", path, headers={"Authorization": header})
        assert (answer.status_code in (401, 429) and "Traceback" not in answer.text
                and service.token not in answer.text)


def test_many_at_once_are_each_answered(service):
    """Half of them send nothing, half send nonsense; meanwhile the service answers others."""
    port = int(service.url.rsplit(":", 1)[1])
    open_ones = []
    for i in range(60):
        s = socket.create_connection(("127.0.0.1", port), timeout=10)
        s.sendall([b"", b"GET / HT",
                   b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"][i % 3])
        open_ones.append(s)
    try:
        assert until("others are answered", lambda: service.get("jobs").ok, 30)
    finally:
        for s in open_ones:
            s.close()
