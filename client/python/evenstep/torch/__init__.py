"""PyTorch programs: what prepare() does with modules, an optimizer, a loader and schedulers.

given.py      the objects by what they are, out of lists and dicts
step/         parameters, the backward pass and the optimizer of a slice
loss/         what a batch's loss is a mean over, which is what it weighs
samples/      the loader over the stream of slices
restart/      a process that is started again: its state, schedules and place
libraries/    Trainers and engines that make the loop themselves
randomness.py random numbers of a process
wrapped.py    what PyTorch has for distributed programs, which a prepared one does without
saving.py     files that every node saves
rounded.py    what half precision makes of a program that is checked

Arrows run down: libraries ─► samples ─► randomness; restart ─► step, samples; step ─► loss.
"""

import contextlib

import torch

from ..run import Error, Run
from ..stream import Stream
from . import given, rounded, saving, wrapped
from .libraries import engines, trainers
from .restart import schedules, state
from .restart.habits import Habits
from .restart.place import Place
from .restart.plateau import Plateau
from .samples.about import about_loader
from .samples.loader import Loader
from .samples.whole import over_rows
from .step import backward, optimizer, rule
from .step.blocks import Blocks, describe, named_parameters
from .step.passes import Passes


class Program:
    """The prepared program. `objects`: as given, with the loader rebuilt. by_samples: batches weigh
    samples whatever their loss was divided by, as DistributedDataParallel's do."""

    def __init__(self, objects, reduction="mean", shard=None, samples=None, by_samples=False):
        if reduction not in ("mean", "sum"):
            raise Error("reduction is 'mean' or 'sum', not '%s'" % reduction)
        models, optimizers, loader, schedulers, others = given.sort(objects)
        self.reduction, self.shard = reduction, shard
        tensors = describe(models, optimizers)
        loads = over_rows(loader)
        about = about_loader(loads, shard, samples)
        about["sums"] = reduction == "sum"
        about["framework"] = "torch " + torch.__version__
        known = about["samples"]
        self.about = dict(about)
        told = rule.describe(optimizers, schedulers)
        self.run = Run(about, told, tensors.parameters, tensors.statistics)
        self.blocks = Blocks(self.run, models, tensors)
        self.passes = Passes(self.run, self.blocks, optimizers, reduction)
        self.passes.weight.by_samples |= by_samples
        self.stream = self.passes.ahead.stream = Stream(self.run, self.passes)
        self.place = self.passes.place = Place(self.run, self.stream)
        self.state = state.State(self.run, self.stream, models, optimizers, schedulers, others)
        self.run.save = self.state.save
        self.run.before_give = self.blocks.check
        self.run.ending.before_leave = self._close
        self.run.before_log = self.passes.ahead.evaluates
        optimizer.watch(self.passes, self.blocks)
        backward.watch(self.passes)
        wrapped.watch(self.run, models)
        saving.watch(self.run)
        rounded.watch(self.blocks.slots)
        engines.watch(self.run)
        made = Loader(loads, self.stream, shard, known)
        self.place.length = made.of_an_epoch() if known else 0
        habits = Habits(self.passes, self.stream, self.place.length)
        figures = Plateau(self.run, self.stream, self.state)
        watch = schedules.watch(self.passes, habits, figures, self.place.length)
        watch.on_step, self.state.schedules.watch = self.state.schedules.find, watch
        self.objects = given.replaced(objects, loader, made)
        self.run.on_start, self.run.loops.reload = self._start, self.state.load

    def go_on_with(self, objects, reduction=None, shard=None, samples=None):
        """prepare() again: a second phase of the same run, with the same parameters."""
        models, optimizers, loader, schedulers, others = given.sort(objects)
        for name, p in named_parameters(models):
            if id(p) not in self.blocks.by_id:
                raise Error(
                    "prepare() was called once more with the parameter '%s', which the first call "
                    "did not have: one run trains one set of parameters, so give the first call "
                    "all modules, whether they train by then or not; networks that have nothing "
                    "to do with each other (folds, an ensemble) are jobs of their own" % name
                )
        # the first phase's, once more
        plain = loader.given if type(loader) is Loader else over_rows(loader)
        self._check_like_the_first(about_loader(plain, shard or self.shard, samples), reduction)
        self.passes.take_optimizers(optimizers)
        self.passes.ahead.manner.begin_phase()
        self.state.begin_phase(optimizers, schedulers, others)
        made = Loader(plain, self.stream, shard or self.shard, self.about["samples"])
        self.objects = given.replaced(objects, loader, made)

    def _check_like_the_first(self, about, reduction):
        names = "samples", "global_batch", "drop_last", "in_order"
        if any(about[k] != self.about[k] for k in names):
            of = "%d samples in batches of %d (drop_last %d, in an order of its own %d)"
            raise Error(
                ("prepare() was called once more with a loader of " + of + ", and the first had "
                 + of + ": in one run all loaders have as many samples, the same batch_size and "
                 "kind of order. Train on other data in a job of its own, which loads what this "
                 "one saves") % (*(about[k] for k in names), *(self.about[k] for k in names))
            )
        if reduction not in (None, self.reduction):
            raise Error(
                "prepare() was called once more with reduction='%s' in place of '%s'"
                % (reduction, self.reduction)
            )

    def _start(self):
        self.blocks.fill()
        self.run.start()
        self.blocks.attach()
        self.state.load(again=self.run.loops.passing)

    def _close(self):
        self.passes.ahead.ends()
        self.stream.close()

    @contextlib.contextmanager
    def no_sync(self):
        kept = self.passes.accumulation
        was, kept.keeping = kept.keeping, True
        try:
            yield
        finally:
            kept.keeping = was

    def weight(self, n):
        self.passes.weigh(float(n))

    def steps(self, n, batches):
        return self.place.steps(n, batches)

    def state_dict(self):
        return self.state.whole()
