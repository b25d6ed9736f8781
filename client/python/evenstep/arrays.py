"""Programs whose parameters are arrays: NumPy, JAX, or whatever gives its gradients as arrays.

    run = evenstep.arrays.join(params, samples=len(x), batch_size=128)
    for epoch in evenstep.epochs(10):
        for rows in run:                       # this node's samples of the next step
            loss, grads = value_and_grad(run.params, x[rows], y[rows])
            grads = run.sum(grads, loss)       # over all nodes; None: this step is not yours
            if grads is not None:
                run.params = step(run.params, grads)

`params` is an array, or dicts, lists and tuples of them; `run.params` and what sum() gives have its
shape, in float32. What run.params gives is never written to, neither by you nor by the run, since
JAX may keep such memory as its own: new values are assigned. A program that runs alone does the
same, and sees every sample (libevenstep hands them out).
"""

import math

import numpy as np

from . import take_part
from .run import DIFFERENCE, STEP, Error, Run
from .stream import GHOST, Stream


def join(params, samples, batch_size, *, shuffle=True, drop_last=False, sums=False, sgd=None,
         save=None, framework="numpy " + np.__version__):
    """`batch_size` is the global batch. sums: gradients are sums over samples, not means. sgd: the
    step that a server may make itself, dict(learning_rate=, momentum=, weight_decay=, nesterov=);
    without it, the server gets the change of parameters that your step made. save: returns bytes
    (an optimizer's state), which a process that continues finds in run.state."""
    about = {"samples": samples, "global_batch": batch_size, "drop_last": int(drop_last)}
    about.update(in_order=int(not shuffle), sums=int(sums), framework=framework)
    optimizer = {"name": "", "server": 0}
    if sgd is not None:
        optimizer = {"name": "SGD", "server": 1, **sgd, "nesterov": int(sgd.get("nesterov", 0))}
    return Arrays(params, about, optimizer, save)


def _branches(tree, like, path):
    """(name, branch, branch of `like`) in the order of `like`, because a framework may sort the
    keys of a dict (JAX does)."""
    if isinstance(like, dict):
        alike = isinstance(tree, dict) and tree.keys() == like.keys()
        keys = like.keys()
    else:
        alike = isinstance(tree, (list, tuple)) and len(tree) == len(like)
        keys = range(len(like))
    if not alike:
        raise Error(
            "'%s' is not made as the parameters of join() are: there it has %s"
            % (path or "params", ", ".join(map(str, keys)) or "nothing")
        )
    for key in keys:
        yield "%s.%s" % (path, key) if path else str(key), tree[key], like[key]


def _leaves(tree, like, path=""):
    """(name, array) of each leaf of `like`, in the order in which _like() consumes them."""
    if isinstance(like, (dict, list, tuple)):
        for name, branch, branch_like in _branches(tree, like, path):
            yield from _leaves(branch, branch_like, name)
    elif like is not None:
        try:
            yield path, np.asarray(tree, np.float32)
        except (TypeError, ValueError):
            raise Error(
                "'%s' is a %s: parameters are arrays of numbers, or dicts, lists and tuples of "
                "them" % (path or "params", type(tree).__name__)
            ) from None


def _like(tree, leaves):
    if isinstance(tree, dict):
        return type(tree)((key, _like(branch, leaves)) for key, branch in tree.items())
    if isinstance(tree, (list, tuple)):
        branches = [_like(branch, leaves) for branch in tree]
        return type(tree)(*branches) if hasattr(tree, "_fields") else type(tree)(branches)
    return None if tree is None else next(leaves)


BEGAN_ANEW = (
    "this program was started again, and what its optimizer keeps from step to step, if anything "
    "(a momentum, Adam's moments and its count), began anew: join(save=function) gives it to the "
    "next process, which finds it in run.state"
)


class Arrays:
    """A program's run. A loop over it yields the samples of each step."""

    def __init__(self, params, about, optimizer, save):
        leaves = list(_leaves(params, params))
        if not leaves:
            raise Error("join() needs parameters: an array, or dicts, lists and tuples of arrays")
        self._tree, self._shapes = params, [a.shape for _, a in leaves]
        described = [{"name": name or "params", "shape": list(a.shape)} for name, a in leaves]
        self.run = Run(about, optimizer, described, [])
        self._block = np.frombuffer(self.run.params, np.float32)
        self._grads = np.frombuffer(self.run.grads, np.float32)
        self._first, self._now, self._before = params, None, None
        self._slice, self._answer, self._weight = None, STEP, None
        self._sums = bool(about["sums"])
        self._stream = Stream(self.run, self)
        self.run.save, self.run.ending.before_leave = save, self._stream.close
        self.run.on_start = self._start
        if self.run.resumed and not (save or optimizer["server"]):
            self.run.say(BEGAN_ANEW)
        take_part(self)

    rank = property(lambda self: self.run.rank)
    world_size = property(lambda self: self.run.workers)
    state = property(lambda self: self.run.state, doc="what `save` gave before, or None")

    def _start(self):
        self._gather(self._block, self._first)
        self.run.start()
        self._first = None

    # ---- parameters

    def _gather(self, flat, tree):
        at = 0
        for (name, leaf), shape in zip(_leaves(tree, self._tree), self._shapes):
            if leaf.shape != shape:
                raise Error("'%s' has the shape %s, not %s" % (name, leaf.shape, shape))
            flat[at : at + leaf.size] = leaf.reshape(-1)
            at += leaf.size

    def _scatter(self, flat):
        """Copies of a block's parts, in the tree's shape. Nobody may write to them."""
        flat, at, leaves = flat.copy(), 0, []
        flat.flags.writeable = False
        for shape in self._shapes:
            n = math.prod(shape)
            leaves.append(flat[at : at + n].reshape(shape))
            at += n
        return _like(self._tree, iter(leaves))

    @property
    def params(self):
        """The run's current parameters; before the first batch your own."""
        if self._first is not None:
            return self._first
        if self._now is None:
            self._now = self._scatter(self._block)
        return self._now

    @params.setter
    def params(self, tree):
        if self._first is not None:
            self._first = tree
        else:
            self._gather(self._block, tree)
            self._now = None

    # ---- a step

    def __iter__(self):
        for piece in self._stream.loop():
            yield np.array(piece.indices or [0] * GHOST, np.int64)

    def weight(self, n):
        """See evenstep.weight()."""
        self._weight = float(n)

    def sum(self, grads, loss=math.nan, learning_rate=math.nan):
        """The gradients of this batch over all nodes: their mean by samples, or their sum. None:
        make no step, because the run has made it (run.params are new), or a node's pass failed."""
        piece = self._slice
        if piece is None:
            raise Error("sum() belongs into the loop over the run, once for each batch")
        if piece.count:
            self._gather(self._grads, grads)
        else:
            self._grads[:] = 0
        weight, self._weight, self._slice = self._weight, None, None
        if weight is not None and piece.count:
            self.run.weight(weight)
        loss = float(loss) / max(piece.count, 1) if self._sums else float(loss)
        self._answer = self.run.gradients(piece.count, loss, learning_rate)
        if self._answer == STEP:
            return self._scatter(self._grads)
        if self._answer == DIFFERENCE:
            self._before = self._block.copy()
            return self._scatter(self._grads) if self._sums else grads
        self._now = None
        return None

    # ---- what the stream asks for

    def untouched(self):
        return self._slice

    def begin_slice(self, piece):
        if not self.run.begin(piece):
            return False
        self._slice, self._now = piece, None
        return True

    def finish_step(self):
        if self._slice is not None and not self.run.over:
            self.run.abort()
        answer, self._answer, self._slice = self._answer, STEP, None
        if answer == DIFFERENCE:
            np.subtract(self._before, self._block, out=self._grads)
            self._block[:] = self._before
            self.run.difference()
            self._now = None

    def hand_over(self):
        """Does nothing: parameters are always in the block."""

    def take_over(self):
        self._now = None

    def no_sync(self):
        raise Error("no_sync() is of PyTorch programs: add up gradients yourself, before sum()")

    def state_dict(self):
        raise Error("state_dict() is of PyTorch programs: save run.params")
