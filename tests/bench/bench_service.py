"""bench-service: how the service answers while it trains, and what watching costs. Real processes;
the load comes from wrk and from one Python process that holds a thousand event streams. Everything
shares the machine's cores, the clients too.

    make bench-service                 all of it
    ONLY=lists make bench-service      prints the pages of 50 and of 500 jobs, and writes nothing"""
import asyncio
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from urllib.parse import urlparse

from bench import BUILD, ROOT, TURNS, Report, median, spread
import quota

sys.path.insert(0, str(ROOT / "tests" / "integration"))
from service import Service, ranks_of, until  # noqa: E402

VIEWERS, SECONDS = int(os.environ.get("VIEWERS", 1000)), 5


def job(workers, **changes):
    return {"name": "bench", "model": "mlp",
            "data": {"format": "glyphs", "samples": 6400, "test_samples": 100}, "epochs": 100000,
            "workers": workers, "optimizer": {"type": "sgd", "learning_rate": 0.001},
            "strategy": {"type": "sync"}, "evaluate": {"every_epochs": 100000},
            "batching": {"global_batch": 16 * workers, "policy": "equal"}, **changes}


def nodes(n, slowdown):
    return [f"n{i}=cpu:1,slowdown={slowdown}" for i in range(n)]


def cpu_seconds(*pids, thread=None):
    """Of all threads, or of those of that name."""
    total = 0
    for p in pids:
        for task in pathlib.Path(f"/proc/{p}/task").iterdir():
            if thread in (None, (task / "comm").read_text().strip()):
                total += int((task / "schedstat").read_text().split()[0]) / 1e9
    return total


def resident(pid):
    return int(re.search(r"VmRSS:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())
               .group(1)) * 1024


# ---- requests ------------------------------------------------------------------------------------


def requests(service, path, *headers):
    """(requests/s, p50, p99 in ms) of 64 clients that ask for `path` again and again."""
    given = [f"Authorization: Bearer {service.token}", *headers]
    done = subprocess.run(
        ["wrk", "-t1", "-c64", f"-d{SECONDS}s", "--latency",
         *(word for header in given for word in ("-H", header)), f"{service.url}/api/v1/{path}"],
        capture_output=True, text=True, check=True).stdout

    def ms(percentile):
        value, unit = re.search(rf"{percentile}%\s+([\d.]+)(us|ms|s)", done).groups()
        return float(value) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit]
    assert "Non-2xx" not in done, done
    return float(re.search(r"Requests/sec:\s*([\d.]+)", done).group(1)), ms(50), ms(99)


def bench_requests(service, id):
    rates, half, tail = zip(*(requests(service, f"jobs/{id}") for _ in range(TURNS)))
    return [["GET /api/v1/jobs/{id}, 64 clients", spread(rates, "{:.0f}") + " requests/s",
             "20,000"], ["p50", spread(half, "{:.1f}") + " ms", ""],
            ["p99", spread(tail, "{:.1f}") + " ms", ""]]


def bench_lists(service):
    """Pages of the list of jobs; the jobs wait while another one has the nodes."""
    for _ in range(500):
        service.submit(job(8))
    rows = []
    for limit, bound in ((50, "2,000"), (500, "p99 50 ms")):
        for headers in ((), ("Accept-Encoding: gzip",)):
            rates, _, tail = zip(*(requests(service, f"jobs?limit={limit}", *headers)
                                   for _ in range(TURNS)))
            rows.append([f"a page of {limit} jobs, 64 clients{', gzip' if headers else ''}",
                         spread(rates, "{:.0f}") + " requests/s, p99 " +
                         spread(tail, "{:.1f}") + " ms", bound])
    return rows


# ---- a long job on many nodes --------------------------------------------------------------------


def answered(service, path):
    """(ms, kB on the wire) of one request by a browser, which takes gzip."""
    begin = time.monotonic()
    answer = service.http.get(f"{service.url}/api/v1/{path}", stream=True,
                              headers={"Accept-Encoding": "gzip"})
    size = len(answer.raw.read(decode_content=False))
    assert answer.ok, answer.status_code
    return 1e3 * (time.monotonic() - begin), size / 1e3


def bench_scale(service):
    """A history of 128 nodes and 1.6 million rows, by the code that the monitor writes with."""
    id = service.submit(job(2, epochs=1))
    service.wait(id, "succeeded")
    folder = service.dir / "jobs" / id
    shutil.rmtree(folder / "history")
    subprocess.run([BUILD / "tests/bench/bench_history", folder, "128", "1600000"], check=True)
    for rank in range(128):
        (folder / f"logs/rank-{rank}.log").write_text("a line of a rank's log\n" * 500)
    rows = []
    for what, path, bound in (
            ("the whole run", "series?names=all&points=380&node_points=3600", "200 kB"),
            ("a zoom", "series?names=all&points=380&node_points=3600&from=3000&to=4000", "200 ms"),
            ("the job's own curve", "series?names=train_loss&points=380", "200 ms"),
            ("all logs", "logs?all=true&tail=200", "one request")):
        ms, size = zip(*(answered(service, f"jobs/{id}/{path}") for _ in range(TURNS)))
        rows.append([f"128 nodes, 1.6 M rows: {what}",
                     f"{spread(ms, '{:.0f}')} ms, {median(size):.0f} kB", bound])
    return rows


# ---- viewers -------------------------------------------------------------------------------------


async def watch(url, token, id, ages, seconds):
    """One viewer. `ages` gets, for each rank, the seconds from a row's time, which counts from its
    beginning, to here; or is None."""
    where = urlparse(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=1 << 22)
    writer.write(
        f"GET /api/v1/events?job={id} HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer "
        f"{token}\r\n\r\n".encode())
    bytes_, events = 0, 0
    try:
        async with asyncio.timeout(seconds):
            while line := await reader.readline():
                bytes_ += len(line)
                events += line.startswith(b"event:")
                if ages is not None and line.startswith(
                        b'data: {"job"') and b'"type":"rows"' in line[:120]:
                    now = time.time()
                    for row in json.loads(line[6:])["data"]["rows"]:
                        ages.setdefault(row["rank"], []).append(now - row["time"])
    except TimeoutError:
        pass
    writer.close()
    return bytes_, events


async def viewers(service, id, seconds):
    ages = {}
    got = await asyncio.gather(
        *(watch(service.url, service.token, id, ages if i == 0 else None, seconds)
          for i in range(VIEWERS)))
    return ages, got


def bench_viewers(service, id):
    pid = service.process.pid
    before, cpu, at = resident(pid), cpu_seconds(pid), time.monotonic()
    ages, got = asyncio.run(viewers(service, id, 15))
    share = (cpu_seconds(pid) - cpu) / (time.monotonic() - at)
    # a rank's quickest row, which took some milliseconds, is the zero of both clocks
    ages = sorted(a - min(of) for of in ages.values() for a in of)
    return [[f"{VIEWERS} viewers of a job with 8 workers: events that each got",
             f"{median([e for _, e in got]):.0f} (least {min(e for _, e in got)})", ""],
            ["memory of the service before, and with them",
             f"{before / 1e6:.0f} MB, {resident(pid) / 1e6:.0f} MB", ""],
            ["its share of a core", f"{share:.2f}", ""],
            ["from a worker's row to a viewer beyond that rank's quickest row, p50",
             f"{1e3 * ages[len(ages) // 2]:.0f} ms", ""],
            ["p99", f"{1e3 * ages[len(ages) * 99 // 100]:.0f} ms", "250 ms"]]


# ---- start, waiting, watching --------------------------------------------------------------------


def bench_start(service):
    """Seconds from POST to the first row of a training step."""
    seconds = []
    for _ in range(TURNS):
        begin = time.monotonic()
        id = service.submit(job(2))
        until("a step is done", lambda: service.job(id)["progress"]["step"] > 0, every=0.01)
        seconds.append(time.monotonic() - begin)
        service.post(f"jobs/{id}/cancel")
        service.wait(id, "cancelled")
    return [["from POST to the first step that the API shows, profile known",
             spread(seconds) + " s", "2 s"]]


def waiting_share(ranks, seconds=1):
    """A core's share that rank 0 takes while another rank stands still, not so long that it counts
    as lost."""
    os.kill(ranks[1], signal.SIGSTOP)
    try:
        time.sleep(0.2)
        before = cpu_seconds(ranks[0])
        time.sleep(seconds)
        return (cpu_seconds(ranks[0]) - before) / seconds
    finally:
        os.kill(ranks[1], signal.SIGCONT)
        time.sleep(0.5)


def bench_waiting(service):
    id = service.submit(job(2))
    service.steps(id, 50)
    ranks = ranks_of(id)
    rows = [["a core's share of a rank that waits",
             spread([waiting_share(ranks) for _ in range(TURNS)], "{:.3f}"), "0.05"]]
    against = quota.reason_against()
    if against:
        rows.append(["the same under a quota of half a core", against, ""])
    else:
        half = quota.Quota("half", 0.5)
        (half.path / "cgroup.procs").write_text(str(ranks[0]))
        rows.append(
            ["the same under a quota of half a core",
             spread([waiting_share(ranks) for _ in range(TURNS)], "{:.3f}"), "0.05"])
    service.post(f"jobs/{id}/cancel")
    service.wait(id, "cancelled")
    if not against:
        half.remove()
    return rows


def bench_watching():
    """CPU seconds of the pulse, the coordinator and Redis over those of four workers that compute
    without a pause, one viewer."""
    share = []
    for _ in range(TURNS):
        with Service(nodes=nodes(4, 1)) as s:
            id = s.submit(
                job(4, model="lenet5", batching={"global_batch": 256, "policy": "dynamic"}))
            s.steps(id, 20)
            ranks = [p for r, p in ranks_of(id).items()]
            watchers = [s.process.pid, int((s.dir / "redis.pid").read_text())]

            def now():
                pulse = cpu_seconds(*ranks, thread="pulse")
                return cpu_seconds(*watchers) + pulse, cpu_seconds(*ranks) - pulse
            before = now()
            asyncio.run(watch(s.url, s.token, id, None, 20))
            after = now()
            share.append((after[0] - before[0]) / (after[1] - before[1]))
            s.post(f"jobs/{id}/cancel")
            s.wait(id, "cancelled")
    return [["CPU of pulse, coordinator and Redis over the workers', 4 workers, a viewer",
             spread(share, "{:.4f}"), "0.01"]]


def bench_watched(lists_only):
    """With a job on eight nodes, which trains slowly."""
    rows = []
    with Service(nodes=nodes(8, 400)) as s:
        id = s.submit(job(8))
        s.steps(id, 5)
        if not lists_only:
            rows += bench_requests(s, id) if shutil.which("wrk") else [
                ["GET /api/v1/jobs/{id}", "wrk is not installed (deploy/setup bench)", ""]]
            rows += bench_viewers(s, id)
        if shutil.which("wrk"):
            rows += bench_lists(s)
        s.post(f"jobs/{id}/cancel")
        s.wait(id, "cancelled")
    return rows


def main():
    if os.environ.get("ONLY") == "lists":
        for what, measured, bound in bench_watched(lists_only=True):
            print(f"{what}: {measured} (asked: {bound})")
        return
    # a viewer is a connection on both sides
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    report = Report("bench-service", "The service under load",
                    "Clients, service, Redis and workers share the machine's cores.")
    rows = bench_watched(lists_only=False)
    with Service(nodes=nodes(2, 10)) as s:
        bench_start(s)
        rows += bench_start(s) + bench_waiting(s) + bench_scale(s)
    rows += bench_watching()
    report.table("Figures", ["what", "measured", "at least"], rows)
    report.close()


main()
