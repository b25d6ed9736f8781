"""Gradients of a GPU leave on a stream of their own, while the backward pass goes on.

    backward's stream   ▇ grad 9 ▇ grad 8 ▇ grad 7 ▇ …
    side stream            └► copy 9, copy 8 │event└► copy 7, … │event    into the pinned block
    this thread              hook  hook  hook: what has come? tell the rank  … end: wait, tell

A copy waits for the kernel that made the gradient, and for nothing after it. An event stands behind
every megabyte or so of copies; the rank hears of their tensors when the event has passed, which
each hook asks and only the pass's end waits for. Nothing of ours runs in a thread of its own.

The sums come back on the program's stream, into the memory of its gradients. The block is not
written again before they have left it: by copies, since the side stream waits for the backward pass
that follows; by this process and the rank, since every pass begins with a wait for it (`claim`).
"""

import ctypes
import mmap

import torch

PART_BYTES = 1 << 20  # of copies that share an event


def _pin(run):
    """The pages of parameters and gradients become ones that the GPU reads and writes directly.
    Without that every copy is right and none overlaps."""
    begins = [ctypes.addressof(run.params), ctypes.addressof(run.grads)]
    ends = [at + ctypes.sizeof(run.params) for at in begins]
    first = min(begins) // mmap.PAGESIZE * mmap.PAGESIZE
    bytes_ = -(-max(ends) // mmap.PAGESIZE) * mmap.PAGESIZE - first
    error = int(torch.cuda.cudart().cudaHostRegister(first, bytes_, 0))
    if error:
        run.say(
            "the GPU cannot use the shared memory directly (CUDA error %d: a limit of locked "
            "memory, ulimit -l?), so copies of gradients do not overlap the backward pass" % error
        )


def on_gpu(tensor):
    return tensor.is_cuda


def _copy(to, values):
    to.copy_(values, non_blocking=True)


def streams_of(run, outside):
    """Those of the parameters outside the block, if these are on a GPU; else None."""
    devices = [slot.tensor.device for slot in outside if on_gpu(slot.tensor)]
    return Streams(run, devices[0]) if devices else None


class Streams:
    """Of one GPU: the program sees no other, unless its job says so."""

    def __init__(self, run, device):
        self.run, self.device = run, device
        self.side = torch.cuda.Stream(device)
        self._taken = []  # tensors whose copies have no event behind them yet
        self._bytes = 0
        self._under_way = []  # (event, tensors), in order
        self._given = None  # the sums have left the block
        _pin(run)

    def claim(self):
        """The block's gradients may be written from now on."""
        if self._given is not None:
            self._given.synchronize()
            self._given = None

    def take(self, index, gradient, to):
        """The hook of tensor `index`: copies its gradient into the block, and tells the rank of
        those that have arrived meanwhile."""
        self.side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.side):
            _copy(to, gradient)
        gradient.record_stream(self.side)  # its memory is not used again before
        self._taken.append(index)
        self._bytes += 4 * to.numel()
        if self._bytes >= PART_BYTES:
            self._mark()
        while self._under_way and self._under_way[0][0].query():
            self._tell()

    def _mark(self):
        event = torch.cuda.Event()
        event.record(self.side)
        self._under_way.append((event, self._taken))
        self._taken, self._bytes = [], 0

    def _tell(self):
        for index in self._under_way.pop(0)[1]:
            self.run.ready(index)

    def finish(self):
        """The pass has ended: all its gradients are in the block, and the rank knows."""
        if self._taken:
            self._mark()
        while self._under_way:
            self._under_way[0][0].synchronize()
            self._tell()

    def drop(self):
        """The pass failed: its copies end, and the rank does not hear of them."""
        self._taken, self._bytes, self._under_way = [], 0, []
        self.side.synchronize()

    def give(self, param, sum_):
        """param.grad becomes the sum."""
        grad = param.grad
        if grad is None or grad.requires_grad:
            param.grad = torch.empty_like(param, requires_grad=False)
        _copy(param.grad, sum_)

    def given(self):
        """All sums are on their way."""
        self._given = torch.cuda.Event()
        self._given.record(torch.cuda.current_stream(self.device))
