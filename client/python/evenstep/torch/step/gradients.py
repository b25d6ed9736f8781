"""Moves gradients between param.grad and the shared block.

    param.grad ─ hook: copied, the rank is told ─► block ─ summed over all ranks ─► param.grad
"""

import torch

from .streams import on_gpu, streams_of


class Gradients:
    def __init__(self, run, blocks, opens):
        """opens() is called at a hook when no pass is open; False: ignore this hook."""
        self.run, self.blocks, self.opens = run, blocks, opens
        self.open = False  # a pass is under way
        self.quiet = False  # its gradients are not copied to the block
        self._fired = [False] * len(blocks.slots)  # this pass has reached the parameter
        self._at = [view.data_ptr() for view in blocks.gradients]
        self._gpu = None  # streams.py, if the parameters are on a GPU
        self._unhooked = list(range(len(blocks.slots)))
        self.hook()

    def hook(self):
        """Adds hooks to parameters that had none because they were frozen."""
        if not self._unhooked:
            return
        slots, frozen = self.blocks.slots, []
        for i in self._unhooked:
            if slots[i].tensor.requires_grad:
                slots[i].tensor.register_post_accumulate_grad_hook(self._ready(i))
            else:
                frozen.append(i)
        self._unhooked = frozen

    def _ready(self, i):
        """The hook of parameter i."""
        view, tell = self.blocks.gradients[i], self.run.ready
        at, strided = self._at[i], torch.strided

        def ready(param):
            grad = param.grad
            if grad.layout is not strided and self.run.takes_gradients:
                grad = param.grad = grad.to_dense()  # an embedding's: other nodes have other rows
            if not self.open and not self.opens():
                return
            if self._fired[i]:  # two nodes of one pass accumulated into it, one after the other
                return
            self._fired[i] = True
            if self.quiet:
                return
            values = grad.detach() if grad.requires_grad else grad
            if self._gpu is not None and on_gpu(grad):
                self._gpu.take(i, values, view)
                return
            if grad.data_ptr() != at:
                view.copy_(values)
            tell(i)

        return ready

    # ---- a pass

    def begin(self, quiet):
        self.open, self.quiet = True, quiet
        self._fired = [False] * len(self._fired)
        if self._gpu is not None:
            self._gpu.claim()
        elif self.blocks.outside:
            self._gpu = streams_of(self.run, self.blocks.outside)

    def end(self):
        """Ends the pass when all copies have arrived."""
        self.open = False
        if self._gpu is not None:
            self._gpu.finish()

    def drop(self):
        """The pass failed."""
        self.open = False
        if self._gpu is not None:
            self._gpu.drop()

    def claim(self):
        """Waits until the block's gradients may be written."""
        if self._gpu is not None:
            self._gpu.claim()

    @torch.no_grad()
    def complete(self, counts, goes_on):
        """Fills the block for the parameters that the pass has not reached: with zeros, or with
        what earlier passes have left in param.grad. counts: the slice has a weight. goes_on: what
        earlier passes have left counts in this step, too."""
        if counts and all(self._fired):
            return
        for i, (slot, to) in enumerate(zip(self.blocks.slots, self.blocks.gradients)):
            grad = slot.tensor.grad
            if goes_on and grad is not None:
                if not self._fired[i]:
                    if grad.data_ptr() != to.data_ptr():
                        to.copy_(grad)
                    self._fired[i] = True
            elif not counts or not self._fired[i]:
                to.zero_()

    def give_back(self):
        """param.grad becomes the sum. It stays as it is where no rank's pass has reached the
        parameter."""
        for i, slot in enumerate(self.blocks.slots):
            param, sum_ = slot.tensor, self.blocks.gradients[i]
            if not self._fired[i] and not (param.requires_grad and sum_.any()):
                continue
            if self._gpu is not None and on_gpu(param):
                self._gpu.give(param, sum_)
            elif not slot.inside:
                param.grad = sum_.to(param.device, param.dtype)
            elif (grad := param.grad) is None or grad.data_ptr() != self._at[i]:
                param.grad = sum_.detach()
        if self._gpu is not None:
            self._gpu.given()

    # ---- param.grad as it stands

    def of_all(self):
        return [slot.tensor.grad for slot in self.blocks.slots]

    def become(self, gradients):
        for slot, gradient in zip(self.blocks.slots, gradients):
            slot.tensor.grad = gradient

    def clear(self):
        for slot in self.blocks.slots:
            slot.tensor.grad = None

    def rescale(self, ratio):
        if ratio != 1.0:
            for slot in self.blocks.slots:
                if slot.tensor.grad is not None:
                    slot.tensor.grad.mul_(ratio)

    def send(self):
        """Copies param.grad to the block as it stands."""
        for slot, to in zip(self.blocks.slots, self.blocks.gradients):
            grad = slot.tensor.grad
            if grad is None:
                to.zero_()
            elif grad.data_ptr() != to.data_ptr():
                to.copy_(grad)
