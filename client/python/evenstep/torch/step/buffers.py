"""Buffers of modules that change in training. Statistics of batch norms are averaged over nodes and
do not belong here; of any other buffer each node has its own.

Spectral normalization, for example, changes a buffer in each forward pass. A process that is
started again repeats the step that is due, so it needs the buffers as they were when that step's
slice began. They are copied then, but only those that have changed before.

A buffer that is computed from parameters is the same on all nodes. One that is computed from the
batch (a codebook, a running mean of the inputs) differs between nodes, and the log says so for the
first one. PyTorch's own modules have buffers of the first kind, except those for quantization.
"""

from collections import namedtuple

import torch

# mine: it may be computed from the batch; unseen: its version does not show that it has changed
_Watched = namedtuple("_Watched", "model name buffers key mine unseen")


class Buffers:
    """known: statistics in the block. Each step compares the version counters of the buffers that
    exist when the run begins, which costs little."""

    def __init__(self, run, models, known):
        self.run, self.models = run, models
        self._known = {id(tensor) for tensor in known}
        self._watched = None
        self._versions, self._slices = [], 0
        self._aside = {}  # (model, name): value when this slice began
        self._told = run.workers == 1

    def _find(self):
        for i, model in enumerate(self.models):
            for path, module in model.named_modules():
                package = type(module).__module__
                quantizes = package.startswith("torch.ao.")
                mine = quantizes or not package.startswith("torch.")
                for name, buffer in module._buffers.items():
                    if buffer is None or id(buffer) in self._known:
                        continue
                    if buffer.is_floating_point():
                        full = (path + "." if path else "") + name
                        yield _Watched(i, full, module._buffers, name, mine, quantizes)

    def _versions_now(self):
        """Kernels for quantization change a buffer without a new version, so those count as changed
        in each slice."""
        self._slices += 1
        there = [w for w in self._watched if w.key in w.buffers]
        return [(id(w.buffers[w.key]), self._slices if w.unseen else w.buffers[w.key]._version)
                for w in there]

    def slice_begins(self):
        if self.run.workers == 1:
            return
        if self._watched is None:
            self._watched = list(self._find())
            self._versions = self._versions_now()
            return
        now = self._versions_now()
        if now == self._versions and not self._aside:
            return
        if len(now) != len(self._versions):  # the program has taken one away
            self._watched, self._aside = None, {}
            return
        self._set_aside(now)

    @torch.no_grad()
    def _set_aside(self, now):
        before, self._aside, moved = self._aside, {}, []
        for w, version, was in zip(self._watched, now, self._versions):
            at, buffer = (w.model, w.name), w.buffers[w.key]
            if version != was or at in before:
                self._aside[at] = buffer.clone()
                then = before.get(at)
                if w.mine and then is not None and not then.equal(buffer):
                    moved.append(w.name)
        self._versions = now
        if moved and not self._told:
            self._tell(moved)

    def _tell(self, moved):
        self._told = True
        self.run.say(
            "the buffer '%s' of the model is moved by training%s. Batch norms' statistics are "
            "averaged, any other buffer is each node's own: if it follows the samples of the "
            "batch (a codebook, a running mean), nodes have different ones, and the saved "
            "model has the main rank's. A module with running_mean and running_var has them "
            "averaged" % (moved[0], ", as are %d others" % len(moved[1:]) if moved[1:] else "")
        )

    def values(self, in_a_step):
        """[{name: tensor}] of each model; in_a_step: as they were when the current slice began."""
        aside = self._aside if in_a_step else {}
        return [
            {
                name: aside.get((i, name), buffer)
                for name, buffer in model.named_buffers()
                if id(buffer) not in self._known
            }
            for i, model in enumerate(self.models)
        ]
