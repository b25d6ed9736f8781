"""The graph of a TensorFlow loop that is no tf.function. In the first batches its operations are
noted as they run, from a batch to the gradient of its loss.

TensorFlow calls a callback for each operation, as for its debugger. Backward passes are left out. A
number that the program computes in Python (`/ int(mask.sum())`) looks like a constant in this
graph, so a loss counts as a sum only if several batches in a row have the same divisor.
"""

_LOOKS_MOST = 6
_OPS_MOST = 20
_COUNTED = {"Shape", "Size", "Rank", "ReadVariableOp"}  # their results are no constants


class _Op:
    def __init__(self, type_, inputs=(), rows=None):
        self.type, self.name, self.inputs, self.rows = type_, id(self), inputs, rows


class _Value:
    def __init__(self, tensor, op):
        self.tensor, self.op, self.shape = tensor, op, tensor.shape


def _op_callbacks():
    """TensorFlow's module of such callbacks; None: this version has none."""
    try:
        from tensorflow.python.framework import op_callbacks
    except ImportError:
        return None
    return op_callbacks


class Recorder:
    def __init__(self):
        self.rows = 0
        self.looks = _LOOKS_MOST  # batches whose operations are noted
        self._paused = False
        self._made = {}  # values by the ids of their tensors
        self._callbacks = None  # TensorFlow's module, while operations are noted

    def batch_begins(self, rows):
        """The loop gets a batch of so many rows."""
        self.end()
        self.rows = rows
        if self.looks and rows > 1:
            self.looks -= 1
            self._callbacks = _op_callbacks()
            if self._callbacks is not None:
                self._callbacks.add_op_callback(self._note)

    def end(self):
        callbacks, self._callbacks = self._callbacks, None
        if callbacks is not None:
            callbacks.remove_op_callback(self._note)
        self._made = {}

    def pause(self, paused):
        """A backward pass begins, or has ended."""
        self._paused = paused

    def _note(self, type_, inputs, attrs, outputs, op_name=None, graph=None):
        if self._paused or graph is not None:
            return
        type_ = type_.decode() if isinstance(type_, bytes) else type_
        op = _Op(type_, [self._value_of(t) for t in inputs])
        for tensor in outputs:
            self._made[id(tensor)] = _Value(tensor, op)

    def _value_of(self, tensor):
        """The value of a tensor that no operation has made: a batch, a number, a variable."""
        if id(tensor) not in self._made:
            rows = tensor.shape[0] if tensor.shape.rank else None
            self._made[id(tensor)] = _Value(tensor, _Op("Given", rows=rows))
        return self._made[id(tensor)]

    # ---- the graph, as summed.py asks for it

    def value(self, one):
        """The number that Python gave, or that is computed of such numbers alone; None: it is
        neither."""
        if one.op.type == "Given":
            return one.tensor.numpy()
        behind = [one]
        for _ in range(_OPS_MOST):
            op = behind.pop().op
            if op.type in _COUNTED or op.rows is not None:
                return None
            behind += op.inputs
            if not behind:
                return one.tensor.numpy()
        return None

    def is_batch(self, op):
        return op.rows == self.rows

    def may_be_rows(self, size):
        return size % self.rows == 0

    def made(self, loss):
        """A loss as a value of the graph; None: nothing is known of it."""
        return self._made.get(id(loss))
