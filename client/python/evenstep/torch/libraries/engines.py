"""Ignite's Engine counts epochs and batches itself, so that one in a process that was started again
is told where the run is, as its own load_state_dict() does. Nothing is to be prepared but what an
engine is given: engine.run(loader, max_epochs=…) with the prepared loader.
"""

import sys

from ..samples.loader import Loader
from .trainers import close_epoch

_WATCHED = "_evenstep_run"


def watch(run):
    """Watches engines, if the program has imported Ignite before prepare()."""
    ignite = sys.modules.get("ignite.engine")
    if ignite is None or hasattr(ignite.Engine, _WATCHED):
        return
    plain = ignite.Engine.run

    def run_watched(engine, data=None, max_epochs=None, *args, **options):
        whole = type(data) is Loader and data.samples and max_epochs
        if whole and not (args or options or engine.state.iteration):  # without a length of its own
            length = data.of_an_epoch()
            data.stream.steps.place.again.leave_out()
            made = run.loops.epochs(max_epochs)
            passed = made * length + (data.passed() if made < max_epochs else 0)
            if passed:
                engine.load_state_dict(
                    {"iteration": passed, "epoch_length": length, "max_epochs": max_epochs}
                )
            engine.add_event_handler(ignite.Events.ITERATION_COMPLETED(every=length), close_epoch)
            if made == max_epochs:
                engine.fire_event(ignite.Events.COMPLETED)
                return engine.state
        return plain(engine, data, max_epochs, *args, **options)

    setattr(ignite.Engine, _WATCHED, plain)
    ignite.Engine.run = run_watched
