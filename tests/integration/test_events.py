"""The event stream under many clients: whoever watches gets every event, each once and in order,
also across a connection that ends and is resumed with Last-Event-ID."""
import asyncio
import itertools
import resource
from urllib.parse import urlparse

import pytest

from service import DEADLINE, PATIENCE, Service, spec

CLIENTS, MOST = 500, 3500  # http/events/stream.h


@pytest.fixture(scope="module")
def service():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < MOST + CLIENTS:  # the service raises its own
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, MOST + CLIENTS), hard))
    with Service(nodes=["a=cpu:1"]) as s:
        assert s.post("nodes/a/drain").ok  # its job stays in the queue: only we make events
        yield s


class Watcher:
    """A client of the stream. `ids` are those of the job's events, in the order in which they came;
    `gaps` counts what the service said to have lost."""

    def __init__(self, service, job, events, ends_after):
        self.service, self.job, self.events = service, job, events
        self.ends_after = ends_after
        self.ids, self.priorities, self.gaps, self.last = [], [], 0, None
        self.ready = asyncio.Event()

    async def connect(self):
        where = urlparse(self.service.url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=1 << 20)
        last = f"Last-Event-ID: {self.last}\r\n" if self.last else ""
        writer.write(f"GET /api/v1/events?job={self.job} HTTP/1.1\r\nHost: {where.netloc}\r\n{last}"
                     f"Authorization: Bearer {self.service.token}\r\n\r\n".encode())
        return reader, writer

    async def watch(self):
        """Until the event that says the last priority."""
        while self.events not in self.priorities:
            reader, writer = await self.connect()
            try:
                await self.read(reader, len(self.ids) + self.ends_after)
            finally:
                writer.close()

    async def read(self, reader, most):
        id = None
        status = (await reader.readline()).decode()
        if not status:  # on a busy machine it said nothing for too long (http/threads/guard.h)
            return
        if " 503 " in status:  # or was too busy, and says to come again
            return
        assert " 200 " in status, status
        while len(self.ids) < most and self.events not in self.priorities:
            line = (await reader.readline()).decode()
            assert line, "the service ended the stream"
            if line.startswith("id: "):
                id = line[4:].strip()
            elif line.startswith("event: "):
                self.gaps += line == "event: gap\n"
                if line == "event: hello\n":
                    self.last = id
                    self.ready.set()
            elif line.startswith('data: {"job"') and '"type":"job"' in line[:80]:
                self.ids.append(id)
                self.priorities.append(int(line.split('"priority":')[1].split(",")[0]))
                self.last = id


async def watch_all(service, job, events, ends_after):
    watchers = [Watcher(service, job, events, ends_after(i)) for i in range(CLIENTS)]
    tasks = [asyncio.create_task(w.watch()) for w in watchers]
    loop = asyncio.get_running_loop()

    def change_all():
        for n in range(1, events + 1):
            assert service.http.patch(f"{service.url}/api/v1/jobs/{job}", json={"priority": n}).ok

    async with asyncio.timeout(DEADLINE * PATIENCE):
        await asyncio.gather(*(w.ready.wait() for w in watchers))
        await loop.run_in_executor(None, change_all)
        await asyncio.gather(*tasks)
    return watchers


def check(watchers):
    wanted = list(range(1, watchers[0].events + 1))
    wrong = [i for i, w in enumerate(watchers) if w.priorities != wanted or w.gaps]
    assert not wrong, [(i, watchers[i].gaps, watchers[i].priorities) for i in wrong[:3]]
    assert all(w.ids == watchers[0].ids for w in watchers)


def test_each_of_500_clients_gets_each_of_212_events_once_and_in_order(service):
    id = service.submit(spec(workers=1))
    check(asyncio.run(watch_all(service, id, 212, lambda i: 212)))


def test_clients_that_come_back_with_the_last_id_miss_nothing(service):
    """Each ends its connection after 1 to 40 events, again and again, while events go on."""
    id = service.submit(spec(workers=1))
    check(asyncio.run(watch_all(service, id, 60, lambda i: 1 + i % 40)))


async def fill(service, job):
    """Opens streams until one is refused. Some leave, which the service learns when it writes to
    them next; another one is taken then."""
    async def open_one():
        reader, writer = await Watcher(service, job, 0, 0).connect()
        return reader, writer, " 200 " in (await reader.readline()).decode()

    async def refused():
        while len(opened) <= MOST:
            opened.extend(await asyncio.gather(*(open_one() for _ in range(50))))
            for reader, _, taken in opened[-50:]:
                if not taken:
                    return (await reader.readuntil(b"}")).decode()

    opened = []
    async with asyncio.timeout(DEADLINE * PATIENCE):
        said = await refused()
        assert f"cannot open another event stream: there are {MOST}" in said
        for _, writer, _ in opened[:20]:
            writer.close()
        for n in itertools.count():
            assert service.http.patch(f"{service.url}/api/v1/jobs/{job}", json={"priority": n}).ok
            opened.append(await open_one())
            if opened[-1][-1]:
                break
    for _, writer, _ in opened:
        writer.close()


def test_a_client_for_whom_there_is_no_room_is_refused_until_others_have_left(service):
    asyncio.run(fill(service, service.submit(spec(workers=1))))
