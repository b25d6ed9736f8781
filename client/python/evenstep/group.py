"""PyTorch's process group in pure Python, for programs that were written for it (ddp.py).

Gradients are not its matter: the ranks exchange them. It makes the calls that programs make beside
them, of a metric, a flag, a list of objects, over peers.py. PyTorch's object collectives are built
on these. Every call has ended when it returns, with async_op=True too.
"""

import ctypes
import struct

import torch
import torch.distributed as dist

from .peers import Peers
from .run import Error

REDUCTIONS = {
    "SUM": torch.Tensor.add_,
    "AVG": torch.Tensor.add_,
    "PRODUCT": torch.Tensor.mul_,
    "MIN": lambda a, b: torch.minimum(a, b, out=a),
    "MAX": lambda a, b: torch.maximum(a, b, out=a),
    "BAND": torch.Tensor.bitwise_and_,
    "BOR": torch.Tensor.bitwise_or_,
    "BXOR": torch.Tensor.bitwise_xor_,
}
REFUSED = "allgather_coalesced send recv recv_anysource"


# ---- tensors as bytes


def _bytes(tensor):
    tensor = tensor.detach().cpu().contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.nbytes) if tensor.nbytes else b""


def _joined(tensors):
    return b"".join(map(_bytes, tensors))


def _tensor(bytes_, like):
    """A flat tensor with its own memory, of the type of `like`."""
    if not bytes_:
        return torch.empty(0, dtype=like.dtype)
    return torch.frombuffer(bytearray(bytes_), dtype=like.dtype)


@torch.no_grad()
def _fill(tensors, bytes_, call):
    room = sum(tensor.nbytes for tensor in tensors)
    if room != len(bytes_):
        raise Error("%s: it gives %d bytes to tensors of %d" % (call, len(bytes_), room))
    at = 0
    for tensor in tensors:
        part = _tensor(bytes_[at : at + tensor.nbytes], tensor)
        tensor.copy_(part.view(tensor.shape))
        at += tensor.nbytes


def _reduction(op):
    """None: not one of REDUCTIONS."""
    return next((n for n in REDUCTIONS if op == getattr(dist.ReduceOp, n)), None)


def _call(name, like, how=""):
    """The call that all ranks must be making, as text: "all_reduce SUM of int64"."""
    return " ".join(filter(None, (name, how, "of", str(like.dtype).removeprefix("torch."))))


def _reducer(op, like, call):
    """Makes the bytes of the reduction from the bytes of all ranks, in the order of ranks."""
    name = _reduction(op)
    if name is None:
        raise Error("%s: of reductions there are %s" % (call, ", ".join(REDUCTIONS)))

    def reduce(parts):
        if len({len(p) for p in parts}) > 1:
            raise Error("%s: the ranks' tensors are of different sizes" % call)
        total = _tensor(parts[0], like)
        for part in parts[1:]:
            REDUCTIONS[name](total, _tensor(part, like))
        return _bytes(total / len(parts) if name == "AVG" else total)

    return reduce


def _done(tensors):
    future = torch.futures.Future()
    future.set_result(tensors)
    return torch._C._distributed_c10d._create_work_from_future(future)


# ---- the group


class Group(dist.ProcessGroup):
    def __init__(self, rank, size, timeout):
        super().__init__(rank, size)
        self._peers = Peers(rank, size, timeout.total_seconds())

    def getBackendName(self):
        return "evenstep"

    def setGroupName(self, name):
        self._name = name

    def getGroupName(self):
        return self._name

    group_name = property(getGroupName)
    _set_group_name = setGroupName

    def _make(self, call, given, combine, taken, root=None):
        """`given` and `taken`: lists of tensors; with `root`, only that rank takes something."""
        answer = self._peers.exchange(call, _joined(given), combine)
        if root is None or root == self.rank():
            _fill(taken, answer, call)
        return _done(taken)

    def _root(self, call, root):
        if not 0 <= root < self.size():
            raise Error("%s: there are ranks 0 to %d, and no %d" % (call, self.size() - 1, root))
        return root

    def _to_all(self, answer):
        return [answer] * self.size()

    def _to_one(self, root, answer):
        return [answer if r == root else b"" for r in range(self.size())]

    def _cut(self, bytes_):
        n = len(bytes_) // self.size()
        return [bytes_[r * n : (r + 1) * n] for r in range(self.size())]

    def barrier(self, *_, **__):
        return self._make("barrier", [], lambda parts: parts, [])

    def allreduce(self, tensors, opts=None):
        call = _call("all_reduce", tensors[0], _reduction(opts.reduceOp))
        reduce = _reducer(opts.reduceOp, tensors[0], call)
        return self._make(call, tensors, lambda p: self._to_all(reduce(p)), tensors)

    def broadcast(self, tensors, opts=None):
        root = self._root("broadcast", opts.rootRank)
        given = tensors if self.rank() == root else []
        call = _call("broadcast", tensors[0], "from %d" % root)
        return self._make(call, given, lambda parts: self._to_all(parts[root]), tensors)

    def reduce(self, tensors, opts=None):
        root = self._root("reduce", opts.rootRank)
        call = _call("reduce", tensors[0], "%s to %d" % (_reduction(opts.reduceOp), root))
        reduce = _reducer(opts.reduceOp, tensors[0], call)
        return self._make(call, tensors, lambda p: self._to_one(root, reduce(p)), tensors, root)

    def allgather(self, outputs, inputs, opts=None):
        call = _call("all_gather", inputs[0])
        return self._make(call, inputs, lambda p: self._to_all(b"".join(p)), outputs[0])

    def all_gather_single(self, output, input, opts=None):
        return self.allgather([[output]], [input])

    def gather(self, outputs, inputs, opts=None):
        root = self._root("gather", opts.rootRank)
        taken = outputs[0] if outputs else []
        call = _call("gather", inputs[0], "to %d" % root)
        return self._make(call, inputs, lambda p: self._to_one(root, b"".join(p)), taken, root)

    def scatter(self, outputs, inputs, opts=None):
        root = self._root("scatter", opts.rootRank)
        given = inputs[0] if inputs else []
        call = _call("scatter", outputs[0], "from %d" % root)
        return self._make(call, given, lambda p: self._cut(p[root]), outputs)

    def reduce_scatter(self, outputs, inputs, opts=None):
        call = _call("reduce_scatter", outputs[0], _reduction(opts.reduceOp))
        reduce = _reducer(opts.reduceOp, outputs[0], call)
        return self._make(call, inputs[0], lambda p: self._cut(reduce(p)), outputs)

    def reduce_scatter_single(self, output, input, opts=None):
        return self.reduce_scatter([output], [[input]], opts)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        for output, input in zip(outputs, inputs):
            self.all_gather_single(output, input)
        return _done(outputs)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        for output, input in zip(outputs, inputs):
            self.reduce_scatter_single(output, input, opts)
        return _done(outputs)

    def alltoall(self, outputs, inputs, opts=None):
        """inputs: one tensor per rank."""
        parts = list(map(_bytes, inputs))
        lengths = struct.pack("<%dQ" % self.size(), *map(len, parts))
        call = _call("all_to_all", inputs[0])
        answer = self._peers.exchange(call, lengths + b"".join(parts), self._turned)
        _fill(outputs, answer, call)
        return _done(outputs)

    def _turned(self, parts):
        """What each rank gets of each input."""
        each = [b""] * self.size()
        for part in parts:
            at = 8 * self.size()
            for r, length in enumerate(struct.unpack("<%dQ" % self.size(), part[:at])):
                each[r] += part[at : at + length]
                at += length
        return each

    def all_to_all_single(self, output, input, output_sizes=None, input_sizes=None, opts=None):
        outputs, inputs = (
            t.split(list(sizes) if sizes else len(t) // self.size())
            for t, sizes in ((output, output_sizes), (input, input_sizes))
        )
        return self.alltoall(outputs, inputs)

    allreduce_coalesced = allreduce  # of one type

    # names of earlier releases
    _allgather_base, _reduce_scatter_base = all_gather_single, reduce_scatter_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single


def _refused(name):
    def call(*_, **__):
        raise Error(
            "%s is not offered under --ddp: ranks exchange gradients, and programs barrier, "
            "broadcast, reduce, gather, scatter and their variants for all" % name.strip("_")
        )

    return call


for _name in REFUSED.split():
    setattr(Group, _name, _refused(_name))


def new_group(ranks=None, *_, **__):
    """Replaces dist.new_group; a group must contain all ranks."""
    if ranks is not None and sorted(ranks) != list(range(dist.get_world_size())):
        raise Error(
            "new_group: under --ddp there is one group, of all %d ranks, and not one of ranks %s"
            % (dist.get_world_size(), ", ".join(map(str, ranks)))
        )
    return dist.group.WORLD


def monitored_barrier(*_, **__):
    """Replaces dist.monitored_barrier, which asks for gloo's group."""
    dist.barrier()


def register():
    dist.Backend.register_backend(
        "evenstep",
        lambda store, rank, size, timeout: Group(rank, size, timeout),
        devices=["cpu", "cuda"],
    )
    for module in dist, dist.distributed_c10d:
        module.new_group, module.monitored_barrier = new_group, monitored_barrier
        module.batch_isend_irecv = _refused("batch_isend_irecv")
    for module in dist, getattr(dist, "device_mesh", dist):  # since PyTorch 2.2
        module.init_device_mesh = _refused("init_device_mesh")
