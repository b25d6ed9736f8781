"""Gradients that the program divides between backward() and the optimizer's step.

Fairseq adds up the losses of all tokens and divides the gradients by their number:

    loss.backward()                                the sum over all nodes stands in p.grad
    for p in model.parameters():
        p.grad.mul_(world_size / own_tokens)       and each node divides it by a number of its own

So nodes step on different gradients, or on gradients that are too large. A factor that is a whole
number's reciprocal, and another one in each step, is such a number; clipping gives no whole ones,
and a constant, or a count of accumulated batches, is the same on each node. A few steps are looked
at, and of one parameter's gradient a few values.
"""

import torch

_LOOKS_MOST = 12
_VALUES = 64
_FOUND = 3  # steps
_NUMBER_MOST = 100_000
_ROUNDING = 3e-7  # of a factor, as the middle one of some values has it
TOLD = (
    "between backward() and the optimizer's step the gradients are divided by %s: if that is the "
    "number of this node's samples or tokens, each node divides the sum over all nodes by a number "
    "of its own. Divide the loss by it before backward(), in place of the gradients and without "
    'reduction="sum": then the batch weighs that number, and the mean is over all nodes'
)


def _few(gradient):
    gradient = gradient.detach()
    flat = (torch.view_as_real(gradient) if gradient.is_complex() else gradient).reshape(-1)
    return flat[:: max(1, flat.numel() // _VALUES)][:_VALUES].double()


def _divisor(before, now, workers):
    """The whole number by which it was divided, on its own or times the number of nodes."""
    used = before != 0
    if not bool(used.any()):
        return None
    factors = (now[used] / before[used]).sort().values
    middle, spread = float(factors[len(factors) // 2]), float(factors[-1] - factors[0])
    if not 0 < middle < 1 or spread > 1e-5 * middle:
        return None
    for by in 1 / middle, workers / middle:
        if 1 < round(by) <= _NUMBER_MOST and abs(by - round(by)) < max(1e-6, _ROUNDING * by):
            return round(by)
    return None


class Changed:
    def __init__(self, run):
        self.run = run
        self._looks = _LOOKS_MOST if run.workers > 1 else 0
        self._param = self._before = None
        self._found = []  # (what gradients were divided by, this node's samples)

    def pass_ends(self, slots):
        """Gradients stand as they come back of a pass."""
        self._param = None
        if not self._looks:
            return
        for slot in slots:
            grad = slot.tensor.grad
            if grad is not None and grad.layout is torch.strided and grad.is_cpu and grad.numel():
                self._param, self._before = slot.tensor, _few(grad)
                return

    def before_step(self, samples):
        """The optimizer steps."""
        param, self._param = self._param, None
        if param is None or param.grad is None:
            return
        self._looks -= 1
        by = _divisor(self._before, _few(param.grad), self.run.workers)
        if by is None or by < samples:  # batches that were accumulated are counted as well
            return
        self._found.append((by, samples))
        numbers = [number for number, _ in self._found]
        own = all(number == n for number, n in self._found)
        if len(numbers) >= _FOUND and (own or len(set(numbers)) > 1):
            self._looks = 0
            self.run.say(TOLD % ", ".join(map(str, numbers)))
