"""The program's own state: what is not in the block, for a checkpoint and for a restart.

The rank asks for it between two steps and keeps it beside the parameters; `torch.load` reads it.
state_dict() is the same with the whole model, for a program that writes checkpoints of its own.

A state is taken while the program waits at the beginning of its next slice. So everything comes
back when the run starts but the random numbers, which come back when the first slice begins:
whatever the program draws on its way there was drawn before."""

import collections
import io
import random
import sys

import torch

from .blocks import plain


def _readable(value):
    """The same of what torch.load(…, weights_only=True) takes."""
    if isinstance(value, collections.defaultdict) or type(value) is dict:
        return {k: _readable(v) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_readable(v) for v in value)
    numpy = sys.modules.get("numpy")
    if numpy and isinstance(value, numpy.generic):
        return value.item()
    if numpy and isinstance(value, numpy.ndarray):
        return value.tolist()
    return value


def random_numbers():
    state = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if "numpy" in sys.modules:
        state["numpy"] = sys.modules["numpy"].random.get_state()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def restore_random_numbers(state):
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    if "numpy" in state and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(state["numpy"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


def _one_or_all(states):
    return states[0] if len(states) == 1 else states


def _each(states, count):
    return [states] if count == 1 else states


def model_state(models):
    """Copies that have nothing to do with the block, without what torch.compile adds to names."""
    states = []
    for model in models:
        state = model.state_dict()
        states.append(
            {plain(k): v.clone() if isinstance(v, torch.Tensor) else v for k, v in state.items()}
        )
    return _one_or_all(states)


def alone(objects):
    """The same for a program that runs alone."""
    optimizers = [o for o in objects if isinstance(o, torch.optim.Optimizer)]
    schedulers = [o for o in objects if isinstance(o, torch.optim.lr_scheduler.LRScheduler)]
    return {
        "model": model_state([o for o in objects if isinstance(o, torch.nn.Module)]),
        "optimizer": _one_or_all([o.state_dict() for o in optimizers]),
        "scheduler": _one_or_all([s.state_dict() for s in schedulers]),
        "random": random_numbers(),
    }


class State:
    def __init__(self, run, stream, models, optimizers, schedulers):
        self.run, self.stream, self.models = run, stream, models
        self.optimizers, self.schedulers = optimizers, schedulers
        self.phase = 0  # of the program: calls of prepare() before this one

    def begin_phase(self, optimizers, schedulers):
        self.optimizers, self.schedulers = optimizers, schedulers
        self.phase += 1

    def _own(self):
        return {
            "optimizer": _one_or_all([o.state_dict() for o in self.optimizers]),
            "scheduler": _one_or_all([s.state_dict() for s in self.schedulers]),
            "random": random_numbers(),
            "place": {"epoch": self.stream.epoch, "rank": self.run.rank, "phase": self.phase},
        }

    def _buffers(self):
        inside = {id(s.tensor) for s in self.stream.steps.blocks.statistics}
        return [
            {n: b for n, b in model.named_buffers() if id(b) not in inside}
            for model in self.models
        ]

    def save(self):
        """Bytes for the rank. Parameters and running statistics are not in it: the rank has
        them."""
        own = dict(self._own(), buffers=self._buffers())
        if self.stream.steps.kept:
            own["kept"] = self.stream.steps.kept_gradients()
        file = io.BytesIO()
        torch.save(_readable(own), file)
        return file.getvalue()

    def whole(self):
        return dict(self._own(), model=model_state(self.models))

    @torch.no_grad()
    def load(self):
        """Goes on from what the rank kept, if it kept any."""
        if not self.run.state:
            return
        own = torch.load(io.BytesIO(self.run.state), map_location="cpu", weights_only=False)
        if own["place"].get("phase", 0) == self.phase:
            self._load_optimizers(own)
        for model, buffers in zip(self.models, own["buffers"]):
            mine = dict(model.named_buffers())
            for name, value in buffers.items():
                if name in mine:
                    mine[name].copy_(value)
        self.stream.on_begin = lambda: restore_random_numbers(own["random"])

    def _load_optimizers(self, own):
        for o, state in zip(self.optimizers, _each(own["optimizer"], len(self.optimizers))):
            o.load_state_dict(state)
        for s, state in zip(self.schedulers, _each(own["scheduler"], len(self.schedulers))):
            s.load_state_dict(state)
        if "kept" in own:
            self.stream.steps.keep_gradients(own["kept"])
