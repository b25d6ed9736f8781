"""A worker dies while another one's Open MPI communicates with it: the attempt continues, with the
other worker or with its next process (docs/decisions/0061, 0104)."""
import contextlib
import os
import signal

import pytest

from agents import Agent, ready
from service import Service, ranks_of, until
from standing import standing
from test_lost_worker import assert_whole, job_spec, kill, rank_on
from test_returned_worker import LOCKSTEP_EPOCHS, NODES, RETURNING, Events, ranks_log, submit


@pytest.mark.parametrize("name", ["sync", "local-sgd", "asgd"])
def test_one_may_die_while_others_write_to_it(name):
    """Over TCP, at any moment. A step is mostly the exchange of 6.4 MB, and every second death
    would make Open MPI end or hang another rank too (docs/decisions/0104)."""
    wide = [{"type": "flatten"}, {"type": "dense", "units": 2000}, {"type": "relu"},
            {"type": "dense", "units": 10}]
    here, hosts = "here=cpu:1,slowdown=5", ("far", "away")
    with Service(nodes=[here]) as s, contextlib.ExitStack() as agents:
        for host in hosts:
            agents.enter_context(Agent(s, host, f"{host}=cpu:1,slowdown=5"))
        for host in hosts:
            ready(s, host)
        for host in 3 * hosts:
            id = s.submit(job_spec(RETURNING[name], workers=3, epochs=2, checkpoint={},
                                   model={"input": [28, 28, 1], "layers": wide}))
            s.steps(id, 6)
            os.kill(ranks_of(id)[rank_on(s, id, host)], signal.SIGKILL)
            job = s.wait(id, "succeeded")
            assert job["attempt"] == 1, s.last_words()
            assert_whole(s, id, job)


@pytest.mark.parametrize("name", ["sync", "local-sgd", "asgd"])
def test_one_whose_exchange_hangs_since_another_one_died_comes_back_too(name):
    """As Open MPI's exchange may do (docs/decisions/0061). The worker ends by itself."""
    with Service(nodes=NODES) as s:
        id = submit(s, name, epochs=2 * LOCKSTEP_EPOCHS)
        events, hanging = Events(s, id), rank_on(s, id, "fast-2")
        with standing(ranks_of(id)[hanging], "exchange"):
            kill(id, rank_on(s, id, "fast-1"))
            until("it ends", lambda: "its exchange hangs since a worker" in ranks_log(s, id))
        assert {events.next("returned")["node"] for _ in range(2)} == {"fast-1", "fast-2"}
        job = s.wait(id, "succeeded")
        assert job["attempt"] == 1 and job["restarts"] == 0
        assert_whole(s, id, job)
