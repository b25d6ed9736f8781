"""Uploaded programs: which are accepted or refused, who may upload, what is kept, and that a job
runs one by its digest on this host and on others."""
import fcntl
import hashlib
import io
import json
import os
import shutil
import socket
import tarfile
import time

import pytest

from agents import Agent, ready
from programs import ROOT
from service import Service, until

PROGRAMS = ROOT / "tests/program"
COMMAND = ["/usr/bin/python3", "counting.py"]
TOKENS = {"viewer": "viewer-0123456789abcdef", "operator": "operator-0123456789abcdef",
          "programs": "programs-0123456789abcdef"}
MIB = 1 << 20


def packed(files, form=tarfile.USTAR_FORMAT):
    """{name: bytes, text or TarInfo} as an archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            entry = tarfile.TarInfo(name)
            data = content.encode() if isinstance(content, str) else content
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def digest_of(files):
    lines = [
        f"{hashlib.sha256(v.encode() if isinstance(v, str) else v).hexdigest()} - {len(v)} {k}\n"
        for k, v in sorted(files.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def counting(**more):
    return {**{name: (PROGRAMS / name).read_text() for name in ("wire.py", "counting.py")}, **more}


def upload(service, archive, role=None, kind="application/x-tar"):
    headers = {"Content-Type": kind,
               **({"Authorization": "Bearer " + TOKENS[role]} if role else {})}
    return service.http.post(service.url + "/api/v1/programs", data=archive, headers=headers,
                             timeout=120)


def taken(service, files):
    answer = upload(service, packed(files))
    assert answer.status_code in (200, 201), answer.text
    return answer.json()["digest"]


def job(workers=2, **program):
    return {"program": program, "workers": workers, "epochs": 2,
            "batching": {"global_batch": 64, "policy": "equal"}, "strategy": {"type": "sync"}}


def errors(answer):
    return {e["pointer"]: e["message"] for e in answer.json()["errors"]}


def left_behind(service):
    """Remaining files that are no program."""
    uploads = service.dir / "uploads"
    names = [p.name for p in uploads.glob("*")] + [
        p.name for p in uploads.glob(".*")] if uploads.exists() else []
    return sorted([n for n in names if not n.endswith((".tar", ".json"))]
                  + [p.name for p in service.dir.glob(".upload*")])


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    (folder / "token").write_text("admin-0123456789abcdef\n"
                                  + "".join(f"{token} {role} {role}-name\n"
                                            for role, token in TOKENS.items()))
    (folder / "token").chmod(0o600)
    with Service(folder=folder, options=["--allow-programs"]) as s:
        s.http.headers["Authorization"] = "Bearer admin-0123456789abcdef"
        yield s


# ---- what is taken -------------------------------------------------------------------------------


def test_an_upload_is_kept_by_the_digest_of_what_is_in_it(service):
    files = {"a.py": "print(1)", "data/b.txt": "two"}
    answer = upload(service, packed(files), "programs")
    assert answer.status_code == 201, answer.text
    digest = answer.json()["digest"]
    assert digest == digest_of(files)
    assert (answer.json()["files"], answer.json()["bytes"], answer.json()["by"]) == (
        2, 11, "programs-name")
    assert answer.headers["Location"] == "/api/v1/programs/" + digest
    # the same again, packed by another program
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        again = upload(service, packed(dict(reversed(files.items())), form))
        assert (again.status_code, again.json()["digest"]) == (200, digest)
    shown = service.get("programs/" + digest).json()
    assert shown["kind"] == "uploaded" and shown["files"] == 2
    assert [p["digest"] for p in service.get("programs").json()["programs"]].count(digest) == 1
    assert service.ask("DELETE", "programs/" + digest).status_code == 204
    assert service.get("programs/" + digest).status_code == 404
    assert service.ask("DELETE", "programs/" + digest).status_code == 404
    assert left_behind(service) == []


def test_every_entry_that_is_refused_is_told(service):
    soft, device, su = tarfile.TarInfo("soft"), tarfile.TarInfo("dev/null"), tarfile.TarInfo("su")
    soft.type, soft.linkname = tarfile.SYMTYPE, "/etc/passwd"
    device.type = tarfile.CHRTYPE
    su.mode = 0o4755
    answer = upload(service,
                    packed({"ok.py": "", "../../up.py": "", "/etc/cron.d/x": "", "soft": soft,
                            "dev/null": device, "su": su}))
    assert answer.status_code == 422, answer.text
    found = errors(answer)
    assert (len(found) == 5 and "absolute" in found["/~1etc~1cron.d~1x"]
            and "symbolic link" in found["/soft"]), found
    assert (".." in found["/..~1..~1up.py"] and "device" in found["/dev~1null"]
            and "set-uid" in found["/su"])
    assert left_behind(service) == []


def test_what_is_no_archive_is_refused(service):
    whole = packed({"a.py": "x" * 2000})
    assert "middle" in upload(service, whole[:1500]).json()["detail"]
    assert upload(service, b"").status_code == 400
    assert upload(service, b"PK\x03\x04" + bytes(2000)).status_code == 400
    assert "gzip" in upload(service, b"\x1f\x8b\x08" + bytes(2000)).json()["hint"]
    assert upload(service, whole, kind="application/json").status_code == 415
    assert (upload(service, packed({"evenstep.json": '{"comand": ["python3"]}'}))
            .json()["errors"][0]["pointer"] == "/evenstep.json/comand")
    assert "line 1" in upload(service,
                              packed({"evenstep.json": "{"})).json()["errors"][0]["message"]
    assert left_behind(service) == []


def test_64_mib_are_taken_and_more_is_not(service):
    full = packed({"blob": os.urandom(64 * MIB - 20480)})
    assert len(full) <= 64 * MIB
    answer = upload(service, full)
    assert answer.status_code == 201, answer.text
    assert service.ask("DELETE", "programs/" + answer.json()["digest"]).status_code == 204
    assert upload(service, packed({"blob": bytes(65 * MIB)})).status_code == 413
    chunks = iter([bytes(MIB)] * 65)  # its length is not announced
    assert upload(service, chunks).status_code == 413
    memory = int(
        next(l for l in open(f"/proc/{service.process.pid}/status") if l.startswith("VmHWM"))
        .split()[1])
    assert memory < 200 * 1024, f"{memory} KB: uploads must not lie in memory"


def raw(service, length, token="admin-0123456789abcdef"):
    """A connection on which an upload has started."""
    host, port = service.url.split("//")[1].split(":")
    s = socket.create_connection((host, int(port)), 30)
    s.sendall(
        f"POST /api/v1/programs HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer "
        f"{token}\r\nContent-Type: application/x-tar\r\nContent-Length: {length}\r\n\r\n".encode())
    return s


def test_a_slow_upload_arrives_and_one_that_breaks_off_leaves_nothing(service):
    archive = packed({"slow.py": "x" * 5000})
    s = raw(service, len(archive))
    for at in range(0, len(archive), 512):
        s.sendall(archive[at:at + 512])
        time.sleep(0.02)
    assert s.recv(4096).startswith(b"HTTP/1.1 201")
    s.close()
    before = {p["digest"] for p in service.get("programs").json()["programs"]}
    s = raw(service, len(archive))
    s.sendall(archive[:700])
    s.close()
    assert upload(service, packed({"other.py": "1"})).status_code == 201
    assert len({p["digest"] for p in service.get("programs").json()["programs"]} - before) == 1
    until("the half of one is gone", lambda: left_behind(service) == [])


def test_at_most_eight_uploads_are_under_way(service):
    held = [raw(service, 1000) for _ in range(8)]
    answer = until("the ninth is refused",
                   lambda: [a for a in [upload(service, packed({"n.py": ""}))]
                            if a.status_code == 503])[0]
    assert "under way" in answer.json()["detail"]
    for s in held:
        s.close()
    until("there is room again", lambda: upload(service, packed({"n.py": ""})).status_code in (
        200, 201))


def test_a_service_that_is_killed_half_way_leaves_nothing(tmp_path):
    with Service(folder=tmp_path, options=["--allow-programs"]) as s:
        held = raw(s, 60 * MIB, s.token)
        held.sendall(bytes(10 * MIB))
        (tmp_path / "uploads").mkdir()
        # as if it had been about to keep one
        (tmp_path / "uploads/.part-abcdef").write_bytes(b"half")
        s.kill()
        held.close()
        s.start()
        assert s.get("programs").json()["programs"] == []
        assert left_behind(s) == []


# ---- who may -------------------------------------------------------------------------------------


def test_only_the_role_programs_uploads_and_brings_commands(service):
    archive = packed(
        counting(**{
            "evenstep.json": json.dumps(
                {"command": COMMAND, "arguments": {"--rate": "number"}, "env": {"SOME": "1"}})}))
    for role in ("viewer", "operator"):
        answer = upload(service, archive, role)
        assert (answer.status_code == 403
                and "the role programs" in answer.json()["detail"]), answer.text
    digest = upload(service, archive, "programs").json()["digest"]
    operator = {"Authorization": "Bearer " + TOKENS["operator"]}
    assert service.ask("DELETE", "programs/" + digest, headers=operator).status_code == 403

    def told(program, **changes):
        return errors(service.post("jobs", {**job(**program), **changes}, headers=operator))
    assert "role programs" in told({"command": ["/bin/sh"]})["/program"]
    assert "role programs" in told({"digest": digest, "command": ["/bin/sh"]})["/program/command"]
    assert "role programs" in told({"digest": digest, "env": {"LD_PRELOAD": "x"}})["/program/env"]
    assert "no argument '--fault'" in told(
        {"digest": digest, "args": ["--fault", "exit"]})["/program/args/0"]
    listed = next(
        p for p in service.get("programs", headers={"Authorization": "Bearer " + TOKENS["viewer"]})
        .json()["programs"] if p["digest"] == digest)
    assert listed["command"] == COMMAND and listed["arguments"] == {
        "--rate": "number"} and "env" not in listed
    answer = service.post("jobs", job(digest=digest, args=["--rate", "0.5"]), headers=operator)
    assert answer.status_code == 201, answer.text
    service.wait(answer.json()["id"], "succeeded")


def test_a_job_that_names_what_is_not_there_is_refused(service):
    digest = taken(service, {"train.py": "1"})
    assert "was uploaded" in errors(service.post("jobs", job(digest="0" * 64)))["/program/digest"]
    assert "was uploaded" in errors(
        service.post("jobs", job(digest="../" + digest)))["/program/digest"]
    assert "no manifest" in errors(service.post("jobs", job(digest=digest)))["/program/command"]
    for name in ("EVENSTEP_SOCKET", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"):
        assert "cannot be the name" in errors(
            service.post("jobs",
                         job(digest=digest, command=["x"], env={name: "1"})))["/program/env"]


def test_without_allow_programs_nothing_is_taken_and_nothing_uploaded_runs(tmp_path):
    with Service(folder=tmp_path, options=["--allow-programs"]) as s:
        digest = taken(s, counting())
        s.stop()
        s.options = []
        s.start()
        answer = upload(s, packed({"a.py": ""}))
        assert answer.status_code == 403 and "--allow-programs" in answer.json()["detail"]
        assert "--allow-programs" in errors(
            s.post("jobs", job(digest=digest, command=COMMAND)))["/program/digest"]


# ---- runs ----------------------------------------------------------------------------------------


def test_a_job_runs_it_in_a_folder_of_its_own(service):
    """It may write into that folder; the log says who ran what and where."""
    script = ("#!/bin/sh\necho mine >left-here.txt\nls\n"
              'exec /usr/bin/python3 counting.py "$@"\n')
    digest = taken(service, counting(**{"tool.sh": script}))
    id = service.submit(job(digest=digest, command=["/bin/sh", "tool.sh"], args=["--rate", "0.5"]))
    assert service.wait(id, "succeeded")["progress"]["samples"] == 2 * 256
    log = service.get(f"jobs/{id}/logs", params={"rank": 0}).text
    assert "left-here.txt" in log and "counting.py" in log
    line = next(l for l in service.text().splitlines() if "mod=programs" in l and f"job={id}" in l)
    assert f"program={digest}" in line and sorted(
        line.split("nodes=")[1].split()[0].split(",")) == ["a", "b"] and 'by="admin"' in line, line
    until("the copies are gone", lambda: left_behind(service) == [])
    again = service.submit(job(digest=digest, command=COMMAND))
    service.wait(again, "succeeded")
    assert "left-here.txt" not in service.get(f"jobs/{again}/logs", params={"rank": 0}).text


def test_what_a_killed_rank_left_behind_goes_with_the_next_run_and_what_is_used_stays(service):
    digest = taken(service, counting())
    left, used = service.dir / "uploads/.run-left", service.dir / "uploads/.run-used"
    for folder in (left, used):
        folder.mkdir()
        (folder / "train.py").write_text("1")
        os.utime(folder, (0, 0))
    held = os.open(used, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        service.wait(service.submit(job(digest=digest, command=COMMAND)), "succeeded")
        assert not left.exists() and (used / "train.py").exists()
    finally:
        os.close(held)
        shutil.rmtree(used)


def test_a_program_that_a_job_needs_is_not_deleted(service):
    digest = taken(service, counting(**{"wait.txt": "for a node"}))
    service.post("nodes/a/disable")
    try:
        id = service.submit(job(digest=digest, command=COMMAND))
        answer = service.ask("DELETE", "programs/" + digest)
        assert answer.status_code == 409 and id in answer.json()["detail"], answer.text
        assert service.post(f"jobs/{id}/cancel").status_code == 200
        service.wait(id, "cancelled")
    finally:
        service.post("nodes/a/enable")
    assert service.ask("DELETE", "programs/" + digest).status_code == 204


def test_nodes_tell_what_they_have_and_a_program_says_what_it_needs(service):
    """A refusal names both."""
    has = until("node a tells", lambda: service.get("nodes/a").json().get("packages"), 60)
    assert has["python3"].startswith("3.")

    def asking(needs):
        return taken(service,
                     counting(**{
                         "evenstep.json": json.dumps(
                             {"command": COMMAND, "needs": needs, "device": "cpu"})}))
    told = errors(service.post("jobs", job(digest=asking({"python3": "99.1"}))))["/program"]
    assert (f"needs python3 99.1, and node 'a' has python3 {has['python3']}" in told
            or f"and node 'b' has python3 {has['python3']}" in told), told
    service.wait(service.submit(job(digest=asking({"python3": "3"}))), "succeeded")
    answer = upload(service,
                    packed(
                        {"evenstep.json": json.dumps(
                            {"needs": {"python3": "new", "left-pad": ""}, "device": "abacus"})}))
    assert answer.status_code == 422 and len(answer.json()["errors"]) == 3, answer.text


@pytest.fixture(scope="module")
def cluster():
    with Service(nodes=[], options=["--no-local-node", "--allow-programs"]) as s:
        with Agent(s, "far", "f1=cpu:1", "f2=cpu:1") as agent:
            ready(s, "f1", "f2")
            yield s, agent


def test_another_host_gets_it_from_the_keeper_and_keeps_it(cluster):
    service, agent = cluster
    digest = taken(service, counting())

    def was_sent():
        id = service.submit(job(digest=digest, command=COMMAND))
        assert service.wait(id, "succeeded")["progress"]["samples"] == 2 * 256
        return "sends the program" in "".join(p.read_text()
                                              for p in (service.dir / "jobs" / id / "logs")
                                              .iterdir())
    assert was_sent()
    kept = agent.dir / "received" / digest / "files/program.tar"
    assert kept.read_bytes() == (service.dir / "uploads" / (digest + ".tar")).read_bytes()
    assert not was_sent()
    damaged = bytearray(kept.read_bytes())
    damaged[600] ^= 1
    kept.write_bytes(damaged)
    assert was_sent()
    until("the copies are gone", lambda: not list((agent.dir / "received").glob(".run-*")))


def test_where_the_disk_is_full_programs_that_no_job_needs_go_first(tmp_path):
    with Service(folder=tmp_path, options=["--allow-programs", "--max-disk", "1M"]) as s:
        old, needed = taken(s, {"old": os.urandom(600_000)}), taken(
            s, counting(needed=b"n" * 600_000))
        s.post("nodes/a/disable")
        id = s.submit(job(digest=needed, command=COMMAND))
        for digest in (old, needed):  # as if they had not been used for hours
            os.utime(tmp_path / "uploads" / (digest + ".tar"), (0, 0))
        fresh = taken(s, {"new": os.urandom(600_000)})
        until("the one that no job needs is gone",
              lambda: s.get("programs/" + old).status_code == 404)
        assert {p["digest"] for p in s.get("programs").json()["programs"]} == {needed, fresh}
        s.post("nodes/a/enable")
        s.wait(id, "succeeded")
