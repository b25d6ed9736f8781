"""What param.grad held before a pass is sometimes set aside, and put back afterwards:

    stash()       before a batch of weight 0, which must leave no gradients
    keep()        before spare batches (spare.py), of which no step is made
    set_aside()   before a further pass over the slice: the sums of the passes so far
    follow()      the same, received from another rank, until a pass follows that counts
"""

import torch


class Aside:
    def __init__(self, gradients):
        self.gradients = gradients
        self.sums = None  # of the passes over the slice so far
        self._stashed = self._former = self._kept = None

    def drop(self):
        """The pass failed."""
        self.sums = None
        self.unstash()

    # ---- batches that make no step

    def stash(self):
        """A batch of weight 0 follows."""
        self._stashed = self.gradients.of_all()
        self.gradients.clear()

    def unstash(self):
        """Puts back what stash() has set aside; the pass's parameters count as reached. False:
        nothing was stashed."""
        if self._stashed is None:
            return False
        self.gradients.become(self._stashed)
        self._stashed = None
        return True

    def keep(self):
        """Keeps param.grad before a pass over a spare batch. False: it is kept already."""
        if self._kept is not None:
            return False
        self._kept = [g if g is None else g.clone() for g in self.gradients.of_all()]
        return True

    def put_back(self, cleared):
        """Puts back what keep() has kept. cleared: not where param.grad is None now, because the
        program has cleared it itself."""
        kept, self._kept = self._kept, None
        now = self.gradients.of_all()
        self.gradients.become([n if n is None and cleared else k for n, k in zip(now, kept)])

    # ---- further passes over a slice

    def set_aside(self):
        """Sets param.grad aside before a further pass over the slice."""
        self.sums = self.gradients.of_all()
        for i, (grad, in_block) in enumerate(zip(self.sums, self.gradients.blocks.gradients)):
            if grad is not None and grad.data_ptr() == in_block.data_ptr():
                self.sums[i] = grad.clone()  # the block takes the next sum
        self.gradients.clear()

    def follow(self, gradients):
        """Takes what another rank has set aside; the next pass that counts is a further one."""
        self._former = gradients

    def counted(self):
        """The pass counts."""
        if self._former is not None:
            self.sums, self._former = self._former, None

    @torch.no_grad()
    def add(self):
        """Adds what set_aside() has set aside to the new sums."""
        if self.sums is None:
            return
        before, self.sums = self.sums, None
        for slot, grad in zip(self.gradients.blocks.slots, before):
            if grad is not None:
                sum_ = slot.tensor.grad
                slot.tensor.grad = grad if sum_ is None else grad.add_(sum_)
