"""Gradients in param.grad that no step has used yet: of slices whose passes were within no_sync(),
and of former passes over the slice, while a further one is made.

    slice              4        5        6
    within no_sync()   yes      yes      no
    param.grad         4        4, 5     4, 5, 6: summed over all ranks, for the optimizer

What they weigh is kept beside them, since the next slice has other samples: they are scaled so that
they count what they would have counted in a step of their own. A slice without samples has no
weight that they could go out with: they go with next to none, and are scaled up by as much.
"""

import torch

TINY = 1e-6  # weight of a slice without samples that carries gradients kept before, of the step's


class Accumulation:
    def __init__(self, run, gradients, weight):
        self.run, self.gradients, self.weight = run, gradients, weight
        self.keeping = False  # within no_sync
        self.kept = 0.0  # what those of former slices weigh that are in param.grad; 0: none are

    # ---- in a pass

    def would_mix(self):
        """Gradients of former slices, which are whole already, must not stand beside those of this
        one where these are scaled or counted once for each rank."""
        return self.run.workers > 1 and (
            self.weight.sums or (self.keeping and self.run.sums_gradients)
        )

    def rescale(self):
        """They count beside those of the slice that has begun."""
        if self.kept:
            self.gradients.rescale(self.kept / self.weight.share())

    def keep(self):
        """Those of this slice stay, too."""
        self.kept = self.weight.share() if self.weight.mine else self.kept

    def drop(self):
        """They were summed, or a pass failed."""
        self.kept = 0.0

    @torch.no_grad()
    def carry(self, step_count):
        """They go out with a slice that has no samples. step_count: those of its step."""
        total = float(step_count or 1)
        self.run.weight(TINY * (1.0 if self.weight.sums else total))
        self.gradients.rescale(self.kept / TINY)
        self.gradients.send()

    # ---- in a state

    def save(self):
        return self.kept, self.gradients.of_all()

    def load(self, saved, are_mine):
        """Those of another rank stand for this one's, and weigh what this one's samples do."""
        self.kept, gradients = saved
        if self.kept and not are_mine and self.weight.mine:
            self.kept = self.weight.share()
        self.gradients.become(gradients)
