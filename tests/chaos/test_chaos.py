"""Faults that are drawn, one after the other, on real processes, while jobs of all strategies run;
then whether everything is as it should be (docs/decisions/0027).

    make check-chaos SEED=7 FAULTS=500                     # a night's run
    make check-chaos SEED=7 FAULTS=200 WORLDS=Hall         # jobs of programs alone"""
import os
import pathlib
import shutil
import tempfile

import pytest

from episode import Episode
from faults import schedule
from pair import Pair
from hall import Hall, PairOfPrograms
from world import CAN_MOUNT, House, Pinger

SEED, FAULTS = int(os.environ.get("SEED") or 1), int(os.environ.get("FAULTS") or 25)
EPISODE, SHORT = 25, 4  # faults between two checks of everything
HOUSE = {"kill_worker": 3, "kill_keeper": 2, "kill_mpirun": 2, "kill_redis": 2,
         "kill_coordinator": 3, "stop_worker": 2, "stop_redis": 1, "stop_coordinator": 1,
         "stop_mpirun": 1, "freeze_worker": 1, "freeze_keeper": 1, "fill_disk": 1, "pause_job": 1,
         "cancel_job": 1, "turn_clock": 1, "lose_power": 1}
if not CAN_MOUNT:
    del HOUSE["fill_disk"]  # it would fill the machine's disk
    del HOUSE["lose_power"]  # its processes are found by its mounts
PAIR = {"kill_agent": 2, "stop_agent": 1, "kill_daemon": 2, "cut_link": 3, "slow_link": 1,
        "kill_coordinator": 3, "freeze_coordinator": 2, "kill_redis": 2, "stop_redis": 1,
        "kill_worker": 2, "kill_keeper": 1, "kill_mpirun": 1, "freeze_worker": 1, "pause_job": 1,
        "cancel_job": 1, "turn_clock": 2, "lose_power": 2}
# a worker, its program and the keeper: each alone, and each within 1.8 s of another one
PARTS = ["kill_worker", "kill_program", "still_worker", "still_keeper", "still_program"]
HALL = {**{part: 1 for part in PARTS}, **{f"{a}+{b}": 1 for a in PARTS for b in PARTS},
        "kill_worker+kill_worker": 4, "kill_worker+kill_worker+kill_worker": 2, "kill_guard": 1,
        "kill_guard+kill_worker": 1, "kill_redis+kill_worker": 1, "stop_redis+kill_program": 1,
        "stop_redis+kill_worker": 1, "kill_coordinator+kill_worker": 1, "kill_keeper": 1,
        "kill_mpirun": 1}
WORLDS = {House: HOUSE, Pair: PAIR, Hall: HALL, PairOfPrograms: PAIR}
NAMED = os.environ.get("WORLDS", "House Pair Hall").split()


def episodes():
    """Episodes in each world by turns, as many as the faults need: up to 50 for a house and a pair,
    which is what CI has time for, and then a short hall."""
    worlds = [w for w in WORLDS if w.__name__ in NAMED]
    each = min(EPISODE, -(-FAULTS // min(len(worlds), 2)))
    drawn = [(SEED + n, min(each, FAULTS - n * each), worlds[n % len(worlds)])
             for n in range(-(-FAULTS // each))]
    short = [(SEED + len(drawn), SHORT, w) for w in worlds[len(drawn):] if w is Hall]
    return drawn + short


def name_of(value):
    return value.__name__ if isinstance(value, type) else None


@pytest.mark.skipif(not CAN_MOUNT, reason="no disk can be mounted here: none is filled")
def test_a_full_disk_is_among_the_faults_of_a_house():
    """If a disk can be mounted; otherwise it must be left out."""
    assert "fill_disk" in {moment.kind for moment in schedule(SEED, len(HOUSE), HOUSE)}


@pytest.mark.parametrize("seed,faults,kind", episodes(), ids=name_of)
def test_drawn_faults_lose_no_job_and_no_sample_and_leave_nothing(seed, faults, kind):
    if issubclass(kind, Pair) and Pair.reason_against():
        pytest.skip(f"hosts and links are not tested: {Pair.reason_against()}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="evenstep-chaos-"))
    moments = schedule(seed, faults, WORLDS[kind])
    world = kind(folder)
    episode, wrong, pinger = Episode(world, seed, moments), ["it did not get so far"], None
    try:
        world.start()
        pinger = Pinger(world)
        pinger.start()
        episode.play()
        wrong = episode.judge()
    finally:
        if pinger:
            pinger.over.set()
            pinger.join()
        print(f"seed {seed}: {dict(episode.count)}, {len(episode.jobs)} jobs")
        print("\n".join(episode.log))
        left = world.close(failed=bool(wrong))
    print(f"seed {seed}: longest without an answer of /healthz {pinger.longest:.2f} s, while the "
          f"coordinator itself was hit {pinger.longest_in_fault:.2f} s")
    assert not wrong, "\n".join(wrong)
    assert not left, f"processes that outlive the service: {left}"
    shutil.rmtree(folder)
