"""--keep-jobs and --max-disk with the real service: the oldest finished job's history and
checkpoints go, its record and artifacts stay."""
import subprocess

import pytest

from service import BUILD, Service, spec, until


def test_the_oldest_finished_job_loses_its_history_but_neither_record_nor_artifact():
    with Service(options=("--keep-jobs", "1")) as s:
        ids = []
        for _ in range(2):
            ids.append(s.submit(spec(checkpoint={"every_steps": 20})))
            s.wait(ids[-1], "succeeded")
        first = until("the first job is pruned", lambda: (j := s.job(ids[0]))["pruned"] and j)
        folder = s.dir / "jobs" / ids[0]
        until("its files are gone", lambda: not (folder / "history").exists()
              and not (folder / "checkpoints").exists())
        assert first["state"] == "succeeded" and first["metrics"]["test_accuracy"] > 0
        assert len(s.artifact(ids[0])) > 100 * 1024 and s.get(f"jobs/{ids[0]}/logs?rank=0").ok
        gone = s.get(f"jobs/{ids[0]}/series?names=train_loss").json()["series"]
        assert sum(x["total_points"] for x in gone) == 0
        second = until("the size of both is told",
                       lambda: s.job(ids[0])["disk_bytes"] < (j := s.job(ids[1]))["disk_bytes"]
                       and j)
        assert second["pruned"] is None
        assert s.get(
            f"jobs/{ids[1]}/series?names=train_loss").json()["series"][0]["total_points"] == 80


@pytest.mark.parametrize("size", ["20X", "G", "-1", "1GG", "0", "1e30"])
def test_a_size_that_is_none_is_refused(size, tmp_path):
    command = [str(BUILD / "evenstep"), "serve", "--data-dir", str(tmp_path), "--listen",
               "127.0.0.1:0", f"--max-disk={size}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode == 1
            and f"--max-disk '{size}': expected a number of bytes" in ended.stderr + ended.stdout)
