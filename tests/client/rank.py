"""A stand-in for the ranks of a job: plays client/protocol.h against programs of a test.

One object serves all programs of a job on one thread. `sync` sums gradients by weight, `average`
lets optimizers step and averages parameters at the next slice, `server` applies plain SGD at once
and leaves steps out, `difference` applies what steps changed. Shares of the global batch are any
numbers, or a function of the step that gives them. Sums are made in double, once, so that all
programs get the same bits.
"""

import array
import json
import mmap
import os
import selectors
import socket
import struct
import threading
import time

import numpy as np

MAGIC, VERSION = 0x45564E53, 4
JOIN, READY, BEGIN, BUCKET, GRADIENTS, EPOCH_END, EPOCHS, LOG, STATE, LEAVE, FAILED = range(1, 12)
WELCOME, START, SLICE, GO, SAVE, CONTINUE, REFUSED = range(64, 71)
HAS_STATE, RESUMED, SKIP_STEP, HOLD, DIFFERENCE, EPOCH_LAST, RUN_LAST, STOP, NOT_FINITE = (
    1 << i for i in range(9)
)
NO_STEP, AGAIN, HELD_BACK, VOID, WITH_BEGIN = 512, 1024, 2048, 4096, 8192
SIZE = 136
BUCKET_FLOATS = 5000
DEADLINE = 240 * int(os.environ.get("EVENSTEP_TEST_PATIENCE", "1"))


def _aligned(n):
    return (n + 63) // 64 * 64


def _read(fd):
    with os.fdopen(fd, "rb") as f:
        f.seek(0)
        return f.read()


def _memfd(content):
    fd = os.memfd_create("text")
    os.write(fd, content)
    return fd


class Side:
    """One program: its socket, its block, and its messages."""

    def __init__(self, rank, path):
        self.rank, self.path = rank, path
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        self.listener.listen(1)
        self.sock = None
        self.pending = None  # (type, flags, payload) that waits for the others
        self.held = self.left = self.closed = False
        self.sent = 0  # slices
        self.epochs = self.failure = self.state = None
        self.steps, self.logs, self.buckets, self.begun = [], [], [], []

    def send(self, kind, flags=0, payload=b"", fds=()):
        message = struct.pack("=II", kind, flags) + payload
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([message.ljust(SIZE, b"\0")], rights)

    def receive(self):
        data, rights, _, _ = self.sock.recvmsg(SIZE, socket.CMSG_SPACE(4))
        fd = struct.unpack("i", rights[0][2][:4])[0] if rights else None
        if not data:
            return None
        return *struct.unpack_from("=II", data), data[8:], fd

    def make_block(self, about, ranks, ahead, state):
        n = sum(int(np.prod(p["shape"])) for p in about["parameters"])
        m = sum(int(np.prod(s["shape"])) for s in about["statistics"])
        cuts = list(range(0, n, BUCKET_FLOATS)) + [n]
        buckets = [(a, b - a) for a, b in zip(cuts, cuts[1:])][::-1]
        slots, batch = ahead + 2, about["global_batch"]
        places, at = [], 128  # after struct wire_shared
        for size in (4 * n, 4 * n, 4 * m, 16 * len(buckets), 8 * slots * batch):
            places.append(at)
            at += _aligned(size)
        fd = os.memfd_create("block", os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, at)
        self.block = mmap.mmap(fd, at)
        struct.pack_into("=3q", self.block, 0, -1, -1, -1)  # struct wire_shared
        floats = lambda place, count: np.frombuffer(self.block, np.float32, count, places[place])
        self.params, self.grads, self.stats = floats(0, n), floats(1, n), floats(2, m)
        struct.pack_into("=%dq" % (2 * len(buckets)), self.block, places[3], *sum(buckets, ()))
        self.indices = np.frombuffer(self.block, np.int64, slots * batch, places[4])
        self.indices = self.indices.reshape(slots, batch)
        self.n_buckets, self.ahead = len(buckets), ahead
        payload = struct.pack("=IIii9q", MAGIC, VERSION, self.rank, ranks, batch, at, *places, n, m)
        payload += struct.pack("=iii4xqqQ", len(buckets), slots, ahead, 0, 0, 1234)
        fds = [fd] if state is None else [fd, _memfd(state)]
        self.send(WELCOME, 0 if state is None else HAS_STATE | RESUMED, payload, fds)
        for f in fds:
            os.close(f)


class Ranks:
    """shares: a number for each program, or a function of the step that gives them."""

    def __init__(self, folder, shares, epochs, mode="sync", **options):
        self.shares = shares if callable(shares) else lambda step: shares
        self.sides = [Side(i, str(folder / ("rank-%d" % i))) for i in range(len(self.shares(0)))]
        self.epochs, self.mode = epochs, mode
        self.ahead = options.get("ahead")  # most that are granted
        self.save_every = options.get("save_every")
        self.states = options.get("states")
        self.start = options.get("start")  # parameters from which all programs start
        self.stop_at = options.get("stop_at")
        self.rounds = 0
        self.about = None
        self.error = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def path(self, rank):
        return self.sides[rank].path

    def join(self):
        self.thread.join(DEADLINE)
        if self.error:
            raise self.error
        assert not self.thread.is_alive(), "the programs did not end"

    # ---- the thread

    def _run(self):
        try:
            for side in self.sides:
                self._accept(side)
            for side in self.sides:
                self._get_ready(side)
            first = self.sides[0].params.copy() if self.start is None else self.start
            self.plan = list(self._plan())
            for side in (s for s in self.sides if not s.closed):
                side.params[:] = first
                side.send(START)
                self._slices(side, side.ahead + 1)
            self._serve()
        except Exception as e:  # join() reports it
            self.error = e
        finally:
            for side in self.sides:
                side.listener.close()
                if side.sock:
                    side.sock.close()

    def _accept(self, side):
        side.listener.settimeout(DEADLINE)
        side.sock, _ = side.listener.accept()
        side.sock.settimeout(DEADLINE)
        kind, _, payload, fd = side.receive()
        assert kind == JOIN and struct.unpack_from("=II", payload) == (MAGIC, VERSION)
        side.about = json.loads(_read(fd))
        self.about = self.about or side.about
        assert dict(side.about, samples=0) == dict(self.about, samples=0)
        ahead = min(side.about["ahead"], self.ahead or 1000)
        side.make_block(side.about, len(self.sides), ahead, self.states and self.states[side.rank])

    def _get_ready(self, side):
        message = side.receive()
        if message and message[0] == EPOCHS:
            self._hear(side, *message)
            message = side.receive()
        assert message and message[0] in (READY, FAILED), message
        if message[0] == FAILED:
            self._hear(side, *message)
            side.closed = True

    def _plan(self):
        """(epoch, last, order, start, counts, total) of each step."""
        samples, batch = self.about["samples"], self.about["global_batch"]
        step = 0
        for epoch in range(self.epochs):
            order = np.arange(samples)
            if self.about["shuffle"]:
                order = np.random.RandomState(7 + epoch).permutation(samples)
            ends = samples - samples % batch if self.about["drop_last"] else samples
            for at in range(0, ends, batch):
                total = min(batch, ends - at)
                bounds = np.cumsum([0, *self.shares(step)]) / sum(self.shares(step)) * total
                bounds = np.round(bounds).astype(int)
                yield epoch, at + batch >= ends, order[at : at + total], at, bounds, total
                step += 1

    def _slices(self, side, up_to):
        while side.sent < min(up_to, len(self.plan)):
            epoch, last, order, start, bounds, total = self.plan[side.sent]
            a, b = bounds[side.rank], bounds[side.rank + 1]
            slot = side.sent % len(side.indices)
            side.indices[slot, : b - a] = order[a:b]
            flags = EPOCH_LAST if last else 0
            step_count = 0 if self.mode in ("server", "difference") else total
            payload = struct.pack("=5qi", epoch, side.sent, start + a, b - a, step_count, slot)
            side.sent += 1
            side.send(SLICE, flags | (RUN_LAST if side.sent == len(self.plan) else 0), payload)

    def _serve(self):
        wait = selectors.DefaultSelector()
        for side in (s for s in self.sides if not s.closed):
            wait.register(side.sock, selectors.EVENT_READ, side)
        begun = time.monotonic()
        while not all(side.closed for side in self.sides):
            assert time.monotonic() - begun < DEADLINE, "the programs take too long"
            for key, _ in wait.select(1):
                side, message = key.data, key.data.receive()
                if message is None:
                    side.closed = True
                    wait.unregister(side.sock)
                else:
                    self._hear(side, *message)
                self._act()

    def _hear(self, side, kind, flags, payload, fd):
        if kind == BEGIN or flags & WITH_BEGIN:
            at = 8 if kind == BEGIN else 0
            side.begun.append((struct.unpack_from("=q", payload, at)[0], flags & AGAIN))
            side.buckets.append([])
            assert struct.unpack_from("=q", side.block)[0] == side.begun[-1][0]
        if kind == BUCKET:
            side.buckets[-1].append(struct.unpack_from("=di", payload)[1])
        elif kind == EPOCHS:
            side.epochs = struct.unpack_from("=d", payload)[0]
        elif kind == LOG:
            side.logs.append(json.loads(_read(fd)))
        elif kind == FAILED:
            side.failure = _read(fd).partition(b"\0")[0].decode()  # an exception may follow it
        elif kind == STATE:
            side.state = _read(fd) if fd is not None else b""
            side.send(CONTINUE)
            side.held = False
        elif kind in (GRADIENTS, EPOCH_END) or (side.held and kind in (BEGIN, LEAVE)):
            assert side.pending is None
            side.pending = kind, flags, payload
            if kind == GRADIENTS:
                self._slices(side, struct.unpack_from("=q", payload)[0] + side.ahead + 2)
        if kind == LEAVE:
            side.left = True

    def _act(self):
        for side in self.sides:
            if side.pending and side.pending[0] == GRADIENTS and self.mode != "sync":
                self._alone(side)
        live = [s for s in self.sides if not s.closed and not (s.left and not s.pending)]
        if not live or not all(s.pending for s in live):
            return
        kinds = {s.pending[0] for s in live}
        assert len(kinds) == 1, "the programs are at different places: %s" % kinds
        if kinds == {GRADIENTS}:
            self._sum(live)
        else:
            self._release(live)

    def _told(self, side):
        _, flags, payload = side.pending
        number, samples, weight, loss, correct, rate = struct.unpack_from("=qqdddd", payload)
        side.steps.append(
            dict(number=number, samples=samples, weight=weight, loss=loss, rate=rate, flags=flags,
                 again=bool(side.begun[-1][1]))
        )
        side.pending = None
        return flags, weight

    def _sum(self, live):
        flags, weights = zip(*[self._told(s) for s in live])
        assert len({f & (HELD_BACK | VOID) for f in flags}) == 1 or any(f & VOID for f in flags)
        answer = 0
        if any(f & VOID for f in flags):
            answer = SKIP_STEP
        elif not any(f & HELD_BACK for f in flags):
            for s in live:  # the bucket that completes last has no message
                assert len(set(s.buckets[-1])) == len(s.buckets[-1]) == s.n_buckets - 1
                assert all(0 <= b < s.n_buckets for b in s.buckets[-1])
            sums = self.about["reduction"] == "sum"
            total = 1.0 if sums else sum(weights)
            mean = sum(s.grads.astype(float) * w for s, w in zip(live, weights)) / total
            for s in live:
                s.grads[:] = mean
            if len(self.sides[0].stats):
                statistics = sum(s.stats.astype(float) * w for s, w in zip(live, weights))
                for s in live:
                    s.stats[:] = statistics / sum(weights)
        self.rounds += 1
        if self.save_every and self.rounds % self.save_every == 0:
            answer |= HOLD
        if self.stop_at == self.rounds:
            answer |= STOP
        for s in live:
            s.held = bool(answer & HOLD)
            s.send(GO, answer)

    def _alone(self, side):
        """Gradients for which no other rank waits."""
        flags, weight = self._told(side)
        if self.mode == "average":
            side.held = True
            side.send(GO, HOLD)
            return
        if self.mode == "difference" and not flags & DIFFERENCE:
            side.send(GO, DIFFERENCE)
            return
        if not hasattr(self, "weights"):
            self.weights = self.sides[0].params.astype(float)
            self.velocity = np.zeros_like(self.weights)
        rule = self.about["optimizer"]
        if self.mode == "difference":
            self.weights -= side.grads.astype(float) / len(self.sides)
        else:
            share = weight * len(self.sides) / self.about["global_batch"] / len(self.sides)
            self.velocity = rule["momentum"] * self.velocity + share * side.grads
            self.weights -= rule["learning_rate"] * self.velocity
        side.params[:] = self.weights
        side.send(GO, SKIP_STEP)

    def _release(self, live):
        if self.mode == "average":
            mean = np.mean([s.params.astype(float) for s in live], axis=0)
            for s in live:
                s.params[:] = mean
        for s in live:
            save = self.save_every and s.held
            s.pending = None
            if save:
                s.send(SAVE)
            else:
                s.held = False
                s.send(CONTINUE)
