"""Two batches were taken and no pass was made yet: whether the first one is still to be used, or
was passed over. A wrong guess ends at the epoch's end in a sentence, since then the last batch has
no pass, or a pass has no batch.

    for x in loader:            the loop ran between the two: it has had the first, and its
        if bad(x): continue     variables changed. Nothing of it is kept

    for x in ahead(loader):     the generator took both; the loop stood still
    p = Prefetcher(loader)      one instruction took the first, and another
    x = p.next()                the second
    last = x                    a tensor of the first is kept
    loss = f(x); next(it)       what the pass begins at was computed before the second was taken
"""

import sys
import weakref
from inspect import CO_OPTIMIZED

from torch.autograd import _get_sequence_nr

from ..loss.batch import tensor_of
from ..loss.graph import inputs_of

_OF_PARAMETERS = 1 << 63  # AccumulateGrad nodes have the highest number
_NODES_MOST = 100_000


def _key(frame):
    """A frame that has ended leaves its place to one of another function."""
    return id(frame), frame.f_code


def _frames():
    """Those that wait for the batch, from the innermost: what each does and holds."""
    frame, found = sys._getframe(2), {}
    while frame is not None:
        values = frame.f_locals
        found[_key(frame)] = frame.f_lasti, {name: id(value) for name, value in values.items()}
        if frame.f_code.co_flags & CO_OPTIMIZED and isinstance(values, dict):
            values.clear()  # a copy that a function's frame keeps, and would keep the batch alive
        frame = frame.f_back
    return found


def _oldest(node):
    """The number of the node that was made first."""
    seen, todo, oldest = {node}, [node], _OF_PARAMETERS
    while todo and len(seen) < _NODES_MOST:
        node = todo.pop()
        oldest = min(oldest, node._sequence_nr())
        new = [n for n in inputs_of(node) if n not in seen]
        seen.update(new)
        todo += new
    return oldest


class Taken:
    def __init__(self):
        self._tensor = lambda: None  # of the first batch, while the program holds it
        self._first = self._second = None  # _frames() as each was taken
        self._number = 0  # nodes of autograd's that were made before the last was taken

    def mark(self):
        """A batch is taken."""
        self._number = _get_sequence_nr()

    def note(self, batch, is_second):
        """The first one that is looked at, or one that is taken before a pass over it."""
        self.mark()
        if is_second:
            self._second = _frames()
            return
        tensor = tensor_of(batch)
        if tensor is not None:
            self._tensor = weakref.ref(tensor)
        self._first = _frames()

    def is_kept(self):
        return self._tensor() is not None

    def root_before_last(self, loss):
        """What the pass begins at was computed before the last batch was taken."""
        node = getattr(loss, "grad_fn", None)
        return node is not None and node._sequence_nr() < self._number

    def before_last(self, loss):
        """The same of the first thing that was computed for it."""
        node = getattr(loss, "grad_fn", None)
        return node is not None and _oldest(node) < self._number

    def is_ahead(self):
        """The first batch is still to be used."""
        if self.is_kept() or self._first is None or self._second is None:
            return self.is_kept()
        frame = sys._getframe(1)
        while frame is not None:
            first, second = self._first.get(_key(frame)), self._second.get(_key(frame))
            if first and second:  # the loop
                return first[0] != second[0] or first[1] == second[1]
            frame = frame.f_back
        return False
