"""The program's side of client/protocol.h in plain Python, for programs that test the rank's side.
It does not use our library, so a test can send what the library never would."""
import array
import json
import mmap
import os
import socket
import struct

import numpy as np

SIZE, VERSION, MAGIC = 136, 4, 0x45564e53
JOIN, READY, BEGIN, BUCKET, GRADIENTS, EPOCH_END, EPOCHS, LOG, STATE, LEAVE, FAILED = range(1, 12)
WELCOME, START, SLICE, GO, SAVE, CONTINUE, REFUSED = range(64, 71)
(HAS_STATE, RESUMED, SKIP_STEP, HOLD, DIFFERENCE, EPOCH_LAST, RUN_LAST, STOP, NOT_FINITE, NO_STEP,
 AGAIN, HELD_BACK, VOID, WITH_BEGIN, WITH_SLICE) = (1 << i for i in range(15))
FINAL, KEEP = 1 << 17, 1 << 19


class Refused(Exception):
    pass


class Slice:
    def __init__(self, flags, body, indices):
        self.flags = flags
        self.epoch, self.number, self.start, self.count, self.step_count, self.slot = (
            struct.unpack_from("<qqqqqi", body))
        self.indices = None if indices is None or flags & NO_STEP else indices[self.slot,
                                                                               :self.count].copy()


class Wire:
    """A program that has joined: `params`, `grads`, `stats` are arrays in the block."""

    def __init__(self, description, version=VERSION):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(os.environ["EVENSTEP_SOCKET"])
        self.indices, self.slices, self.held = None, [], False
        self.send(JOIN,
                  body=struct.pack("<IIii", MAGIC, version, os.getpid(),
                                   int(os.environ.get("EVENSTEP_INCARNATION", 0))),
                  text=json.dumps(description))
        flags, body, fds = self.receive(WELCOME)
        (_, _, self.rank, self.workers, self.global_batch, size, params, grads, stats, buckets,
         indices, n, m, n_buckets, slots, self.ahead, self.epoch, self.step,
         self.seed) = struct.unpack_from("<IIiiqqqqqqqqqiiixxxxqqQ", body)
        self.resumed = bool(flags & RESUMED)
        self.state, self.save = os.pread(fds[1], 1 << 30,
                                         0) if flags & HAS_STATE else None, lambda: b""
        block = mmap.mmap(fds[0], size)
        os.close(fds[0])

        def view(kind, at, count):
            return np.frombuffer(block, kind, count, at)
        self.params, self.grads, self.stats = view("<f4", params, n), view("<f4", grads, n), view(
            "<f4", stats, m)
        self.shared = view("<i8", 0, 3)  # struct wire_shared: begun, granted, copied
        self.copy = None
        if flags & KEEP:
            self.copy = view("<f4", size - (4 * (n + m) + 63) // 64 * 64, n + m)
        self.buckets = view("<i8", buckets, 2 * n_buckets).reshape(-1, 2)
        self.indices = view("<i8", indices, slots * self.global_batch).reshape(slots, -1)

    def send(self, kind, flags=0, body=b"", text=None, blob=None):
        packet = struct.pack("<II", kind, flags) + body
        packet += bytes(SIZE - len(packet))
        if text is None and not blob:
            self.socket.send(packet)
            return
        fd = os.memfd_create("text")
        os.write(fd, blob or text.encode())
        self.socket.sendmsg([packet],
                            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        os.close(fd)

    def receive(self, *kinds):
        """The next message other than slices, which it keeps."""
        while True:
            packet, control, _, _ = self.socket.recvmsg(SIZE, socket.CMSG_SPACE(8))
            if len(packet) != SIZE:
                raise SystemExit("the rank is gone")
            fds = array.array("i")
            for _, _, data in control:
                fds.frombytes(data[:len(data) // 4 * 4])
            kind, flags = struct.unpack_from("<II", packet)
            if kind == REFUSED:
                raise Refused(os.pread(fds[0], 10000, 0).decode())
            if kind == SLICE or flags & WITH_SLICE:
                self.slices.append(Slice(flags, packet[8:], self.indices))
            if kind in kinds:
                self.last = kind
                return flags, packet[8:], list(fds)
            if kind != SLICE:
                raise SystemExit(f"message {kind} came where one of {kinds} was due")

    def epochs(self, n):
        self.send(EPOCHS, body=struct.pack("<d", n))

    def start(self):
        self.send(READY)
        return self.receive(START)[0]

    def next(self):
        while not self.slices:
            self.receive(SLICE)
        return self.slices.pop(0)

    def hold(self):
        """Waits if the last GO or CONTINUE said so; true if the job continues."""
        return not self.held or self.go_on()

    def go_on(self):
        """Waits for CONTINUE; gives the state from `save` as often as it is asked."""
        while True:
            flags, _, _ = self.receive(CONTINUE, SAVE)
            if self.last != SAVE:
                self.held = bool(flags & HOLD)
                return not flags & STOP
            self.send(STATE, blob=self.save())

    def begin(self, s):
        self.shared[0] = s.number
        self.send(BEGIN, body=struct.pack("<qq", s.epoch, s.number))
        return self.hold()

    def again(self, s):
        """One more backward pass over this slice; it is never held before that."""
        self.send(BEGIN, AGAIN, struct.pack("<qq", s.epoch, s.number))

    def bucket(self, index, weight):
        self.send(BUCKET, body=struct.pack("<di", weight, index))

    def gradients(self, s, loss, rate=float("nan"), correct=-1, flags=0, samples=None, weight=None):
        n = s.count if samples is None else samples
        self.send(GRADIENTS, flags,
                  struct.pack("<qqdddd", s.number, n, n if weight is None else weight, loss,
                              correct, rate))
        go, _, _ = self.receive(GO, SAVE)
        while self.last == SAVE:
            self.send(STATE, blob=self.save())
            go, _, _ = self.receive(GO, SAVE)
        self.held = bool(go & HOLD)
        if not go & (SKIP_STEP | DIFFERENCE | VOID):
            self.keep(s)
        return go

    def keep(self, s):
        """Keeps what another process continues from if this one dies in its step."""
        if self.copy is not None and self.shared[2] != s.number:
            self.copy[:] = np.concatenate([self.params, self.stats])
            self.shared[2] = s.number

    def epoch_end(self, epoch):
        self.send(EPOCH_END, body=struct.pack("<q", epoch))
        return self.go_on()

    def log(self, **metrics):
        self.send(LOG, text=json.dumps(metrics))

    def leave(self):
        self.send(LEAVE)
        self.hold()
