"""The program's own state: what is not in the block, for a checkpoint and for a restart.

The rank asks for it between two steps and keeps it beside the parameters; `torch.load` reads it.
state_dict() is the same with the whole model, for a program that writes checkpoints of its own.

A state is taken while the program waits at the beginning of its next slice. So everything comes
back when the run starts but the random numbers, which come back when the first slice begins:
whatever the program draws on its way there was drawn before."""

import collections
import contextlib
import io
import sys

import torch

from ..given import by_kind
from ..randomness import random_numbers, restore_random_numbers
from ..step.blocks import plain
from .others import Others
from .own_file import OwnFile
from .schedule_states import ScheduleStates


def _readable(value):
    """The part that torch.load(…, weights_only=True) accepts."""
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


def _one_or_all(states):
    return states[0] if len(states) == 1 else states


def _each(states, count):
    return [states] if count == 1 else states


def model_state(models):
    """Copies that share nothing with the block, without the prefix that torch.compile adds to
    names."""
    states = []
    for model in models:
        state = model.state_dict()
        states.append(
            {plain(k): v.clone() if isinstance(v, torch.Tensor) else v for k, v in state.items()}
        )
    return _one_or_all(states)


def _inner(optimizers):
    """The optimizers inside others (SAM's, Lookahead's), which have a state of their own."""
    held = [v for o in optimizers for v in vars(o).values() if isinstance(v, torch.optim.Optimizer)]
    return [o for o in held if not any(o is given for given in optimizers)]


def _have_one_list(one, other):
    groups = one.param_groups, other.param_groups
    return len(groups[0]) == len(groups[1]) and all(a is b for a, b in zip(*groups))


def alone(objects):
    """The same for a program that runs alone."""
    given = by_kind(objects)
    others = Others(given.others).states()
    return {
        **({"others": others} if others else {}),
        "model": model_state(given.models),
        "optimizer": _one_or_all([o.state_dict() for o in given.optimizers]),
        "scheduler": _one_or_all([s.state_dict() for s in given.schedulers]),
        "random": random_numbers(),
    }


class State:
    def __init__(self, run, stream, models, optimizers, schedulers, others):
        self.run, self.stream, self.models = run, stream, models
        self.place = stream.steps.place
        self.schedules = ScheduleStates(self)
        self.place.on_passing_on = self.schedules.pass_on
        self.phase = -1  # of the program: number of earlier calls of prepare()
        self.adopted = 0  # optimizers that the program has made in this phase after prepare()
        stream.steps.optimizers.on_adopted = self._adopt
        own = self._kept()
        if own is not None:
            self.place.load(own)
            self.place.zipped.load(own.get("loop"))
        by_first = own.get("own_file", False) if own else None
        self.own_file = OwnFile(run, optimizers, schedulers, by_first)
        self.begin_phase(optimizers, schedulers, others, own)
        self.tell_what_is_not_restored()

    def _kept(self):
        """What the rank kept, or None."""
        if not self.run.state:
            return None
        return torch.load(io.BytesIO(self.run.state), map_location="cpu", weights_only=False)

    def tell_what_is_not_restored(self):
        if self.phase == 0 and (self.run.loops.lacks or (self.run.resumed and self.run.rank == 0)):
            self.run.say(
                "this program was started again. What it keeps beside the objects that prepare() "
                "was given (a target network, an average of the weights, the best figure so far) "
                "began anew in this process: prepare() takes modules, and objects with a "
                "state_dict(), too"
            )

    def begin_phase(self, optimizers, schedulers, others, own=None):
        """`others` are restored at once, because a loop may begin with their values; and again with
        the first batch, because loops may pass over epochs before it."""
        self.optimizers, self.others = optimizers, Others(others)
        self.schedules.begin_phase(schedulers)
        self.place.others_kept = self.others.kept
        self.phase += 1
        self.adopted = 0
        if self.others.has_dict():
            self.place.again.leave_out()  # it counts from these objects' values
        if others:
            self._load_others(own or self._kept())

    def _is_of_this_phase(self, own):
        return own is not None and own["place"].get("phase", 0) == self.phase

    def kept_of_this_phase(self):
        """What the rank kept, or None: nothing, or of another phase."""
        own = self._kept()
        return own if self._is_of_this_phase(own) else None

    def _mine(self):
        own = {
            "optimizer": _one_or_all([o.state_dict() for o in self.optimizers]),
            "scheduler": _one_or_all([s.state_dict() for s in self.schedules.given]),
            "random": random_numbers(),
            "place": {"epoch": self.stream.epoch, "rank": self.run.rank, "phase": self.phase,
                      "adopted": self.adopted},
        }
        if self.others.objects:
            own["others"] = self.others.states()
        return own

    def save(self):
        """Bytes for the rank, without parameters and running statistics, which the rank has in 32
        bits."""
        steps = self.stream.steps
        own = dict(self._mine(), buffers=steps.buffers.values(steps.in_a_step()))
        inner = [o.state_dict() for o in _inner(self.optimizers)]
        own.update({"inner": inner} if inner else {})
        own.update({"own_file": True} if self.own_file.is_told_by() else {})
        own.update(self.schedules.save())
        finer = steps.blocks.finer()
        own.update({"finer": finer} if finer else {})
        former = self.stream.steps.former_gradients()
        if former is not None:
            own["former_gradients"] = former
        self.place.save(own)
        loop = self.place.zipped.save(self.stream.epoch)
        if loop:
            own["loop"] = loop
        file = io.BytesIO()
        torch.save(_readable(own), file)
        return file.getvalue()

    def whole(self):
        return dict(self._mine(), model=model_state(self.models))

    @torch.no_grad()
    def load(self, again=False):
        """Continues from what the rank kept, if anything. again: called once more after the program
        has passed over its first epochs, in which it may give the optimizer more groups."""
        own = self._kept()
        if own is None:
            return
        if self._is_of_this_phase(own):
            with contextlib.suppress(ValueError) if again else contextlib.nullcontext():
                self._load_optimizers(own)
        self._load_others(own)
        self._load_buffers(own)
        self.stream.steps.blocks.refine(own.get("finer", {}))
        self.stream.steps.aside.follow(own.get("former_gradients"))
        random_then = own["random"]

        def on_begin():
            self._tell_missing(self._load_buffers(own))  # some come with the program's loop
            self.place.restore()
            restore_random_numbers(random_then)

        self.stream.on_begin = on_begin

    @torch.no_grad()
    def _load_buffers(self, own):
        """The names of buffers that the model does not have."""
        missing = []
        for model, buffers in zip(self.models, own["buffers"]):
            mine = dict(model.named_buffers())
            missing += [name for name in buffers if name not in mine]
            for name in buffers.keys() & mine.keys():
                if mine[name].shape != buffers[name].shape:  # made by the first batch, as an
                    mine[name].resize_(buffers[name].shape)  # observer's, for a number of channels
                mine[name].copy_(buffers[name])
        return missing

    def _tell_missing(self, names):
        if names:
            self.run.say(
                "the run's model has a buffer '%s', and this process's has none: the program has "
                "made it in an epoch that this process does not go through (pruning, for one), so "
                "this node trains another network. Let a process that begins in a later epoch make "
                "it, too: `if epoch >= n and not done`" % names[0]
            )

    def _adopt(self, optimizers):
        """The program has made one of these after prepare(). A restarted process makes it again,
        and a state may contain it."""
        self.optimizers, self.adopted = optimizers, self.adopted + 1
        own = self.kept_of_this_phase()
        if own is not None and own["place"].get("adopted", 0) == self.adopted:
            self._load_steps(own)

    def _load_steps(self, own):
        tied = [(o, i) for o in self.optimizers for i in _inner([o]) if _have_one_list(o, i)]
        for o, state in zip(self.optimizers, _each(own["optimizer"], len(self.optimizers))):
            o.load_state_dict(state)
        for o, state in zip(_inner(self.optimizers), own.get("inner", ())):
            o.load_state_dict(state)
        for o, inner in tied:  # a rate that a schedule sets applies to both
            inner.param_groups = o.param_groups

    def _load_optimizers(self, own):
        if own["place"].get("adopted", 0) == self.adopted:
            self._load_steps(own)
        self.schedules.load(own, _each(own["scheduler"], len(self.schedules.given)))

    def _load_others(self, own):
        if self._is_of_this_phase(own):
            self.others.load(own.get("others", ()))
