"""Runs a program on real ranks, without a service: evenstep-worker --local."""

import json
import os
import subprocess

from tree import BUILD

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
COLUMNS = "row rank step version staleness time epoch loss accuracy batch".split()


def run_local(command, sizes, strategy, folder, options=(), env=None, variables=None, **more):
    """Runs one rank for each of `sizes`, their minibatches. env: of the ranks; variables: of the
    programs; more: of the job. Returns the finished process."""
    folder.mkdir(exist_ok=True)
    spec = {
        **more,
        # importing a framework takes over two minutes when many tests run
        "program": {"command": command[:2], "args": command[2:], "env": variables or {},
                    "patience_seconds": 200},
        "workers": len(sizes),
        "strategy": strategy,
        "batching": {"policy": "static", "sizes": sizes},
        "seed": 7,
    }
    (folder / "job.json").write_text(json.dumps(spec))
    return subprocess.run(
        [os.path.join(BUILD, "evenstep-worker"), "--local", str(folder / "job.json"), *options],
        env={**os.environ, **AS_ROOT, **(env or {})},
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )


def rows_of(done):
    return [line for line in done.stdout.splitlines() if line.startswith("row,")]
