"""`evenstep run`: a program from its folder to its results, with a running service, and with one
that the command starts."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from command import EVENSTEP, ended, finish, id_of, program, run, start, started  # noqa: F401
from service import (BUILD, Service, free_port, proc_file, processes_of, program_of,
                     until)

# each epoch takes long too: it is evaluated and kept
LONG = ["--epochs", "1000000", "--samples", "64000"]


# ---- with a service ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def service():
    with Service(options=["--allow-programs"]) as s:
        yield s


def test_a_program_runs_is_seen_and_its_results_come_back(service, program, tmp_path):
    out, err, status = run("--workers", "2", "--strategy", "sync", "--set", "/epochs=2", "--set",
                           "/seed=5", "--output", tmp_path / "results", program / "counting.py",
                           "--rate", "0.25", service=service)
    assert status == 0, err
    job = service.job(id_of(out))
    assert job["name"] == "counting" and job["spec"]["seed"] == 5 and len(job["workers"]) == 2
    assert job["spec"]["program"]["args"] == ["--rate",
                                              "0.25"] and job["progress"]["samples"] == 2 * 256
    assert ("rank 0 of 2\n" in err and "succeeded" in err
            and f"{service.url}/#/jobs/{job['id']}" in err)
    seen = json.loads((tmp_path / "results/rank-0.json").read_text())["seen"]
    assert sorted(seen) == ["0", "1"] and (
        tmp_path / "results/model.safetensors").stat().st_size > 0


@pytest.mark.parametrize("when, state", [([], "succeeded"), (["--detach"], None)])
def test_with_json_the_jobs_document_is_alone_on_stdout(service, program, when, state):
    out, err, status = run("--json", *when, program / "counting.py", service=service)
    assert status == 0, err
    job = json.loads(out)
    assert job["id"] in err and job["name"] == "counting" and state in (None, job["state"])


def test_what_the_program_writes_into_its_folder_is_named_since_it_goes_with_it(service, program):
    (program / "saves.py").write_text(
        "import os, runpy\nrunpy.run_path('counting.py', run_name='__main__')\n"
        "os.mkdir('logs')\nopen('logs/loss.txt', 'w').close()\nopen('model.pt', 'w').close()\n")
    _, err, status = run("--workers", "2", program / "saves.py", service=service)
    assert status == 0, err
    line, = (line for line in err.splitlines() if "folder is removed" in line)
    assert "logs/loss.txt" in line and "model.pt" in line and "$EVENSTEP_OUTPUT" in line
    assert "counting.py" not in line
    _, err, status = run("--workers", "2", program / "counting.py", service=service)
    assert status == 0 and "folder is removed" not in err, err


def test_the_same_folder_is_the_same_program(service, program):
    first, _, _ = run("--detach", program / "counting.py", service=service)
    second, _, _ = run("--detach", "--name", "again", program / "counting.py", service=service)
    jobs = [service.job(id_of(out)) for out in (first, second)]
    assert jobs[0]["spec"]["program"]["digest"] == jobs[1]["spec"]["program"]["digest"]
    assert jobs[1]["name"] == "again"
    for job in jobs:
        service.wait(job["id"], "succeeded")


def test_a_file_that_is_executable_runs_itself(service, program):
    (program / "bin").mkdir()
    script = program / "bin/train"
    script.write_text("#!/bin/sh\nexec /usr/bin/python3 counting.py \"$@\"\n")
    script.chmod(0o755)
    _, err, status = run("--folder", program, script, "--accuracy", "0.5", service=service)
    assert status == 0, err


def test_a_program_that_fails_is_told_with_its_last_lines(service, program):
    out, err, status = run("--set", "/max_restarts=0", program / "counting.py", "--fault", "never",
                           service=service)
    assert status == 1 and service.job(id_of(out))["state"] == "failed"
    assert ("evenstep: the job failed: " in err.splitlines()[-1]
            and "rank 0 of 1" in err.splitlines()[-1])


@pytest.mark.parametrize("program_text, sentence", [
    ("import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\n"
     "p.parse_args()\n", "the following arguments are required: --data"),
    ("print('trains nothing')\n", "it never joined"),
    ("import runpy, wire\n\ndef fails(*_, **__):\n    raise ValueError('shapes differ')\n\n"
     "wire.Wire.gradients = fails\nrunpy.run_path('counting.py', run_name='__main__')\n",
     "ended with exit code 1"),
    ("import runpy, sys\nrunpy.run_path('counting.py', run_name='__main__')\nsys.exit(3)\n",
     "after its last step: the program of rank"),
])
def test_a_program_that_ends_before_its_first_step_or_after_its_last_is_not_tried_again(
        service, program, program_text, sentence):
    (program / "wrong.py").write_text(program_text)
    out, err, status = run("--workers", "2", program / "wrong.py", service=service)
    job = service.job(id_of(out))
    assert status == 1 and sentence in err.splitlines()[-1], err
    assert job["state"] == "failed" and job["attempt"] == 1 and job["error"]["code"] == "invalid"
    if "shapes differ" in program_text:
        told = job["error"]["program"]
        assert (told["exception"], told["file"], told["line"], told["exit_code"]) == (
            "ValueError: shapes differ", "wrong.py", 4, 1), told


def test_a_mistake_in_the_loop_is_told_with_its_line_and_its_whole_traceback(service, program):
    (program / "mistake.py").write_text(
        "import evenstep.arrays, numpy\n"
        "run = evenstep.arrays.join(numpy.zeros(3), samples=60, batch_size=6)\n"
        "for number, rows in enumerate(run):\n"
        "    run.sum(run.params, numpy.mean(rows))\n"
        "    if number == 2:\n"
        "        los\n")
    out, err, status = run(program / "mistake.py", service=service)
    job = service.job(id_of(out))
    assert status == 1 and job["state"] == "failed" and job["attempt"] == 1, job["error"]
    assert job["error"]["message"].endswith(
        "NameError: name 'los' is not defined (mistake.py, line 6)")
    told = job["error"]["program"]
    assert told["exception"] == "NameError: name 'los' is not defined", told
    assert (told["file"], told["line"], told["exit_code"]) == ("mistake.py", 6, None), told
    assert err.count("\nNameError: name 'los' is not defined\n") == 3, err


def test_a_program_that_is_killed_before_its_first_step_is_tried_again(service, program):
    (program / "killed.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    out, _, status = run("--set", "/max_restarts=1", program / "killed.py", service=service)
    job = service.job(id_of(out))
    assert status == 1 and job["attempt"] == 2 and job["error"]["code"] == "peer"


@pytest.mark.parametrize("interpreter", ["python3", "/usr/bin/python3"])
def test_an_interpreter_before_the_file_is_taken_for_its_own(service, program, interpreter):
    (program / "none.py").write_text("print('needs no package')\n")
    out, err, status = run("--detach", interpreter, program / "none.py", "--fast", service=service)
    assert status == 0, err
    told = service.wait(id_of(out), "failed")["spec"]["program"]
    assert told["command"] == [interpreter, "none.py"] and told["args"] == ["--fast"]
    _, err, status = run(interpreter, "-u", "none.py", service=service)
    assert status == 2 and "'-u': FILE, or -m MODULE, follows the interpreter" in err
    _, err, status = run(interpreter, service=service)
    assert status == 2 and f"'{interpreter}': FILE, or -m MODULE, follows the interpreter" in err


@pytest.mark.parametrize("dashes", [[], ["--"], ["--detach", "--"]])
def test_the_interpreter_is_taken_behind_dashes_too_and_for_any_file(service, program, dashes):
    (program / "train").write_text("print('needs no package')\n")
    out, err, status = run("--set", "/max_restarts=0", *dashes, "/usr/bin/python3.11",
                           program / "train", "--fast", service=service)
    assert status == (0 if "--detach" in dashes else 1), err
    told = service.wait(id_of(out), "failed")["spec"]
    assert told["program"]["command"] == ["/usr/bin/python3.11", "train"]
    assert told["program"]["args"] == ["--fast"] and told["name"] == "train"


@pytest.mark.parametrize("shell", ["sh", "/bin/bash"])
def test_a_shell_before_the_script_is_told_what_to_write(service, program, shell):
    (program / "my train.sh").write_text("exec python3 counting.py\n")
    _, err, status = run(shell, program / "my train.sh", service=service)
    assert status == 2 and "a script names its shell itself" in err and "chmod +x" in err


def test_a_program_that_is_started_again_is_told_whatever_its_rank(service, program):
    _, err, status = run("--workers", "2", "--strategy", "sync", program / "counting.py",
                         "--fault", "crash", "--after", 3, "--on", 1, "--times", 1, "--state",
                         service=service)
    told = [line for line in err.splitlines() if line.endswith("; it is started again")]
    assert status == 0 and len(told) == 1, err
    assert "rank 1 on" in told[0] and "signal 11" in told[0]


def test_a_module_of_the_current_folder_runs_with_the_whole_of_it(service, program):
    package = program / "lab" / "digits"
    package.mkdir(parents=True)
    (program / "shared.py").write_text("WORD = 'shared'\n")
    (package / "__main__.py").write_text("import sys, shared\nfrom . import other\n"
                                         "print(other.NAME, shared.WORD, sys.argv[1:])\n")
    (package / "other.py").write_text("NAME = __name__\n")
    out, err, status = run("python3", "-m", "lab.digits", "--lr", "1", service=service, cwd=program)
    assert "lab.digits.other shared ['--lr', '1']" in err and status == 1, err
    assert "lab/digits/__main__.py does not call evenstep itself" in err
    job = service.job(id_of(out))
    assert job["name"] == "digits"
    assert job["spec"]["program"]["command"] == ["python3", "-m", "lab.digits"]
    _, err, status = run("python3", "-m", "lab.none", service=service, cwd=program)
    assert status == 2 and "neither lab/none.py nor lab/none/__main__.py is there" in err
    _, err, status = run("--ddp", "python3", "-m", "lab.digits", service=service, cwd=program)
    assert status == 2 and "--ddp runs PyTorch programs, as a file" in err
    _, err, status = run("--folder", program, "python3", "-m", "lab.digits", service=service)
    assert "lab.digits.other shared []" in err, err


def test_variables_of_the_program_come_from_its_caller(service, program):
    (program / "tells.py").write_text(
        "import os, runpy\nprint('got', os.environ['A'], os.environ['B'], flush=True)\n"
        "runpy.run_path('counting.py', run_name='__main__')\n")
    _, err, status = run("--env", "A=1=2", "--env", "B", program / "tells.py", service=service,
                         B="here")
    assert status == 0 and "got 1=2 here\n" in err, err
    _, err, status = run("--env", "NOT_THERE", program / "tells.py", service=service)
    assert status == 2 and "--env 'NOT_THERE': there is no such variable here" in err
    _, err, status = run("--env", "EVENSTEP_RANK=1", program / "tells.py", service=service)
    assert status == 7 and "EVENSTEP_RANK" in err, err


def test_ctrl_c_cancels_the_job(service, program):
    process = start("--workers", "2", program / "counting.py", *LONG, service=service)
    id = process.stdout.readline().strip()
    service.steps(id, 5)
    process.send_signal(signal.SIGINT)
    _, err, status = finish(process)
    assert status == 130 and "cancelling the job" in err
    assert service.job(id)["state"] == "cancelled"
    until("no process is left", lambda: not processes_of(id))


@pytest.fixture
def leaving():
    """A service that may stop and come back at the same address."""
    with Service(options=["--allow-programs", "--listen", f"127.0.0.1:{free_port()}"]) as s:
        yield s


def away(service, process, ends):
    """The service stops, and the command has noticed."""
    id = process.stdout.readline().strip()
    service.steps(id, 5)
    ends()
    for line in process.stderr:
        if "the service does not answer" in line:
            return id
    raise AssertionError("the command has ended")


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_service_that_comes_back_is_followed_again(leaving, program, tmp_path, how):
    process = start("--workers", "2", "--output", tmp_path / "results", program / "counting.py",
                    "--epochs", "3", "--samples", "2000", "--pause", "0.02", service=leaving)
    away(leaving, process, getattr(leaving, how))
    leaving.start()
    _, err, status = finish(process)
    assert status == 0 and "the service is there again" in err, err
    assert (tmp_path / "results/model.safetensors").stat().st_size > 0


def test_ctrl_c_reaches_a_service_that_comes_back(leaving, program):
    process = start("--workers", "2", program / "counting.py", *LONG, service=leaving)
    id = away(leaving, process, leaving.stop)
    process.send_signal(signal.SIGINT)
    until("it is told", lambda: "once more" in process.stderr.readline())
    leaving.start()
    _, err, status = finish(process)
    assert status == 130 and leaving.job(id)["state"] == "cancelled", err


def test_ctrl_c_twice_says_that_a_service_that_is_away_was_not_told(leaving, program):
    process = start("--workers", "2", program / "counting.py", *LONG, service=leaving)
    id = away(leaving, process, leaving.stop)
    process.send_signal(signal.SIGINT)
    until("it is told", lambda: "once more" in process.stderr.readline())
    process.send_signal(signal.SIGINT)
    _, err, status = finish(process)
    assert status == 130 and f"evenstep cancel {id}" in err and "is being cancelled" not in err


def test_a_job_that_another_cancels_ends_with_a_status_of_its_own(service, program):
    process = start(program / "counting.py", *LONG, service=service)
    id = process.stdout.readline().strip()
    service.steps(id, 5)
    assert service.post(f"jobs/{id}/cancel").ok
    assert finish(process)[2] == 4


def test_a_job_that_another_deletes_ends_with_a_status_of_its_own(service, program):
    process = start(program / "counting.py", *LONG, service=service)
    id = process.stdout.readline().strip()
    service.steps(id, 5)
    process.send_signal(signal.SIGSTOP)  # it does not see that the job is cancelled
    assert service.post(f"jobs/{id}/cancel").ok
    service.wait(id, "cancelled")
    assert service.ask("DELETE", f"jobs/{id}").status_code == 204
    process.send_signal(signal.SIGCONT)
    _, err, status = finish(process)
    assert status == 6 and f"there is no job '{id}'" in err


def test_a_token_that_is_revoked_leaves_the_job_and_says_so(service, program):
    made = service.post("tokens", {"name": "rita", "role": "programs"}).json()
    process = start(program / "counting.py", *LONG, service=service, EVENSTEP_TOKEN=made["token"])
    id = process.stdout.readline().strip()
    service.steps(id, 5)
    assert service.ask("DELETE", f"tokens/{made['id']}").status_code == 204
    _, err, status = finish(process)
    assert status == 7 and "token is not known" in err and f"`evenstep watch {id}`" in err, err
    assert service.job(id)["state"] == "running"
    assert service.post(f"jobs/{id}/cancel").ok
    service.wait(id, "cancelled")  # a later test wants both nodes


def test_a_service_without_leave_says_so(program):
    with Service() as s:
        out, err, status = run(program / "counting.py", service=s)
    assert status == 7 and not out and "--allow-programs" in err


# ---- without a service ---------------------------------------------------------------------------


@pytest.fixture
def alone(tmp_path):
    """A folder for the private service, which is empty afterwards; no service answers at the
    default address."""
    with socket.socket() as s:
        if s.connect_ex(("127.0.0.1", 8080)) == 0:
            pytest.skip("a program listens on 127.0.0.1:8080, so that a service may be running")
    folder = tmp_path / "t"
    folder.mkdir()
    yield folder
    until("no process of the service is left", lambda: not processes_of(str(folder)))
    until("no file of the service is left", lambda: not list(folder.iterdir()))


def test_without_a_service_one_is_started_and_nothing_is_left(alone, program, tmp_path):
    out, err, status = run("--output", program / "results", "counting.py", cwd=program,
                           TMPDIR=str(alone))
    assert status == 0, err
    id_of(out)
    assert "no service is running: starting one for this run" in err and "rank 0 of 1\n" in err
    assert (program / "results/model.safetensors").exists() and not list(alone.iterdir())


def test_a_service_of_its_own_has_as_many_nodes_as_workers(alone, program):
    out, err, status = run("--set", "/workers=2", program / "counting.py", TMPDIR=str(alone))
    assert status == 0 and "rank 0 of 2\n" in err, err


def test_bounds_of_workers_make_an_elastic_job(service, program):
    out, err, status = run("--workers", "1..4", program / "counting.py", service=service)
    assert status == 0 and "rank 0 of 2\n" in err, err
    assert service.job(id_of(out))["spec"]["elastic"] == {"min": 1, "max": 4}
    _, err, status = run("--workers", "4..1", program / "counting.py", service=service)
    assert status == 2 and "expected a number from 1 to 1024, or two such as 2..4" in err


@pytest.fixture(scope="module")
def venv(tmp_path_factory):
    """An interpreter of its own, whose path is a link."""
    folder = tmp_path_factory.mktemp("python") / "venv"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", "--system-site-packages",
                    folder], check=True)
    return folder


def telling_where(program):
    (program / "where.py").write_text(
        "import runpy, sys\nprint('runs in', sys.prefix, flush=True)\n"
        "runpy.run_path('counting.py', run_name='__main__')\n")
    return program / "where.py"


@pytest.mark.parametrize("form", ["absolute", "relative"])
def test_python_names_the_interpreter_of_a_service_of_its_own(alone, program, venv, form):
    python = venv / "bin/python" if form == "absolute" else "venv/bin/python"
    _, err, status = run("--python", python, telling_where(program), cwd=venv.parent,
                         TMPDIR=str(alone))
    assert status == 0 and f"runs in {venv}\n" in err, err


def test_python_names_an_interpreter_of_the_nodes(service, program, venv):
    _, err, status = run("--python", "venv/bin/python", telling_where(program), cwd=venv.parent,
                         service=service)
    assert status == 0 and f"runs in {venv}\n" in err, err
    _, err, status = run("--set", "/max_restarts=0", "--python", "/nowhere/python",
                         program / "counting.py", service=service)
    assert status == 1 and "'/nowhere/python'" in err.splitlines()[-1], err


@pytest.mark.parametrize("path, ends", [("nowhere/python", 2), ("/nowhere/python", 3)])
def test_an_interpreter_that_is_not_there_is_named(alone, program, path, ends):
    out, err, status = run("--python", path, program / "counting.py", cwd=program,
                           TMPDIR=str(alone))
    assert status == ends and not out and f"--python '{path}' cannot be run" in err, err


def test_a_failure_is_told_before_the_service_ends(alone, program):
    _, err, status = run("--set", "/max_restarts=0", program / "counting.py", "--fault", "never",
                         TMPDIR=str(alone))
    assert status == 1 and "the job failed" in err and not list(alone.iterdir())


def begun(alone, program):
    process = start("--workers", "2", program / "counting.py", *LONG, TMPDIR=str(alone))
    id = process.stdout.readline().strip()
    mark = f"EVENSTEP_JOB={id}".encode()
    until("both programs run, or it has ended",
          lambda: process.poll() is not None or len(
              [p for p in processes_of("1000000") if mark in proc_file(p, "environ")
               and program_of(p) == "python3"]) == 2)
    assert process.poll() is None, finish(process)
    return process


@pytest.mark.parametrize("twice", [False, True])
def test_ctrl_c_ends_the_service_too(alone, program, twice):
    process = begun(alone, program)
    process.send_signal(signal.SIGINT)
    if twice:
        assert any("cancelling the job" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
    assert finish(process)[2] == 130 and not list(alone.iterdir())


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_whatever_ends_it_the_service_goes(alone, program, sig):
    process = begun(alone, program)
    process.send_signal(sig)
    finish(process)


def test_nobody_is_left_to_leave_a_job_with(alone, program):
    out, err, status = run("--detach", program / "counting.py", TMPDIR=str(alone))
    assert status == 3 and not out and "no service is running" in err and "evenstep serve" in err


def test_what_is_missing_for_a_service_is_named(alone, program, tmp_path):
    bin = tmp_path / "bin"
    bin.mkdir()
    out, err, status = run(program / "counting.py", TMPDIR=str(alone), PATH=str(bin))
    assert status == 3 and not out and "'redis-server' is not installed" in err and "--url" in err
    (bin / "redis-server").symlink_to(shutil.which("redis-server"))
    assert "'mpirun' is not installed" in run(program / "counting.py", TMPDIR=str(alone),
                                              PATH=str(bin))[1]
