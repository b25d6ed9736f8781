"""A GPU that is not there: what PyTorch's streams and events do, on host memory. A copy is made as
late as CUDA may make it, that is when somebody waits for an event behind it, or asks for one that
has passed; so what is used too early is what stood there before."""

import contextlib

import torch

import evenstep
from evenstep.torch.step import streams

from .parts import data, full, loop, plain_step


class Queue:
    """A stream. `lazy`: its copies wait until they must be made; else the program's own."""

    def __init__(self, lazy):
        self.lazy, self.copies, self.done = lazy, [], 0

    def wait_stream(self, other):
        other.run(len(other.copies))

    def put(self, copy):
        self.copies.append(copy)
        if not self.lazy:
            self.run(len(self.copies))

    def run(self, up_to):
        while self.done < up_to:
            self.copies[self.done]()
            self.done += 1

    def synchronize(self):
        self.run(len(self.copies))


class Event:
    asked = 0

    def record(self, stream):
        self.stream, self.at = stream, len(stream.copies)

    def synchronize(self):
        self.stream.run(self.at)

    def query(self):
        """Every third time it has passed."""
        Event.asked += 1
        if Event.asked % 3 == 0:
            self.synchronize()
        return self.stream.done >= self.at


class Runtime:
    pinned = []

    @classmethod
    def cudaHostRegister(cls, at, count, flags):
        cls.pinned.append((at, count))
        return 0


def pretend(part_bytes):
    """From now on float64 tensors count as a GPU's."""
    own, now = Queue(False), []

    @contextlib.contextmanager
    def within(stream):
        now.append(stream)
        yield
        now.pop()

    def copy(to, values):
        (now[-1] if now else own).put(lambda: to.copy_(values))

    torch.cuda.Stream = lambda device: Queue(True)
    torch.cuda.Event = Event
    torch.cuda.current_stream = lambda device: own
    torch.cuda.stream = within
    torch.cuda.cudart = lambda: Runtime
    torch.Tensor.record_stream = lambda tensor, stream: None
    streams.on_gpu = lambda tensor: tensor.dtype == torch.float64
    streams._copy = copy
    from evenstep.torch.step import gradients

    gradients.on_gpu = streams.on_gpu
    streams.PART_BYTES = part_bytes


def _loop(output, part_bytes, step=plain_step):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 5)).double()
    pairs = [(x.double(), y) for x, y in data()]
    if not evenstep.alone():
        pretend(part_bytes)
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    loop(output, model, opt, full(pairs), step)
    if not evenstep.alone():
        (at, count), = Runtime.pinned
        params = evenstep.run().params
        assert at % 4096 == 0 and count % 4096 == 0 and count >= 2 * len(params) * 4
        assert Event.asked > 0 or part_bytes > 1 << 20


def gpu(output):
    """Several events in a pass."""
    _loop(output, 4096)


def gpu_one_event(output):
    _loop(output, 1 << 30)


def gpu_failed_pass(output):
    """A backward pass that an exception ends leaves copies under way."""

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("half way")

    steps = []

    def step(model, opt, x, y):
        steps.append(1)
        opt.zero_grad()
        if len(steps) % 20 == 0:
            front = model[2](Fails.apply(model[1](model[0](x))))
            out = model[4](model[3](front))
            with contextlib.suppress(ValueError):
                torch.nn.functional.cross_entropy(out, y).backward()
            return
        plain_step(model, opt, x, y)

    _loop(output, 4096, step)
