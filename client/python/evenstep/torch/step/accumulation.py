"""Gradient accumulation: param.grad holds gradients of slices whose passes were within no_sync().

    slice              4        5        6
    within no_sync()   yes      yes      no
    param.grad         4        4, 5     4, 5, 6: summed over all ranks, for the optimizer

The gradients are sent with slice 6, which has another number of samples. So `kept` remembers their
weight, and rescale() scales them so that they count as in a step of their own. If slice 6 has no
samples on this rank, its weight is 0; then carry() sends them with a tiny weight, scaled up by as
much.
"""

import torch

TINY = 1e-6  # weight of such a slice without samples, as a part of the step's


class Accumulation:
    def __init__(self, run, gradients, weight):
        self.run, self.gradients, self.weight = run, gradients, weight
        self.keeping = False  # within no_sync()
        self.kept = 0.0  # weight of the gradients that param.grad holds of earlier slices; 0: none

    # ---- in a pass

    def would_mix(self):
        """Must the gradients of earlier slices be kept out of param.grad in this pass? They are
        summed over the ranks already, and this pass's sum would count them once for each rank, or
        scale them."""
        return self.run.workers > 1 and (
            self.weight.sums or (self.keeping and self.run.sums_gradients)
        )

    def rescale(self):
        """Scales the kept gradients for the slice that has begun."""
        if self.kept:
            self.gradients.rescale(self.kept / self.weight.share())

    def keep(self):
        """The gradients of this slice are kept, too."""
        self.kept = self.weight.share() if self.weight.mine else self.kept

    def drop(self):
        """Nothing is kept any more: they were summed, or a pass failed."""
        self.kept = 0.0

    @torch.no_grad()
    def carry(self, step_count):
        """Sends the kept gradients with a slice that has no samples. step_count: samples of its
        step."""
        total = float(step_count or 1)
        self.run.weight(TINY * (1.0 if self.weight.sums else total))
        self.gradients.rescale(self.kept / TINY)
        self.gradients.send()

    # ---- in a state

    def save(self):
        return self.kept, self.gradients.of_all()

    def load(self, saved, are_mine):
        """are_mine: the state is this rank's. Those of another rank take the place of this one's,
        with the weight of this one's samples."""
        self.kept, gradients = saved
        if self.kept and not are_mine and self.weight.mine:
            self.kept = self.weight.share()
        self.gradients.become(gradients)
