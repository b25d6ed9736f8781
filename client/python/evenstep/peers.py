"""Exchanges between the programs of one job, beside the gradients that their ranks exchange.

    rank 1 ─┐ its part                      ┌─► rank 1's answer
    rank 2 ─┼────────► rank 0 combines all ─┼─► rank 2's answer
    rank 0 ─┘                               └─► its own

Every program calls exchange() as often and in the same order, so nobody needs a thread: whoever
calls it waits for the others. It is made for figures, flags and small objects. The ranks' workers
say where to meet (EVENSTEP_PEERS, worker/program/child/peers.h), and programs prove to each other
that they have the job's key before anything else is read. No message is unpickled here.
"""

import os
import select
import socket
import struct
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

from .library import Lost
from .run import Error, run

HANDSHAKE_SECONDS = 20
BEAT_SECONDS = 2
TIMEOUT_SECONDS = 900  # unless the program gives another one to init_process_group()
FAILED = b"!"  # begins an answer that is an error sentence


class Peers:
    """This program's connections: rank 0 has one to each other rank, the others have one to rank
    0."""

    def __init__(self, rank, size, timeout=TIMEOUT_SECONDS):
        self.rank, self.size, self.timeout = rank, size, timeout
        self._others = None  # by rank; made by the first exchange
        self._count = 0

    def exchange(self, call, part, combine):
        """Sends `part`, which is bytes, and returns this rank's answer. combine(parts) runs on rank
        0: it gets the parts of all ranks and returns the answers, both by rank. `call` names what
        every rank must be doing, for instance "all_reduce"."""
        if self.size == 1:
            return combine([part])[0]
        if self._others is None:
            self._others = self._meet(call)
        self._count += 1
        if self.rank == 0:
            return self._lead(call, part, combine)
        there = self._others[0]
        self._send(there, 0, self._head(call) + part)
        answer = self._receive(there, 0, call)
        if answer[:1] == FAILED:
            raise Lost(answer[1:].decode())
        return answer[1:]

    def _head(self, call):
        return b"%d %s\n" % (self._count, call.encode())

    def _lead(self, call, part, combine):
        head, parts = self._head(call), [part]
        try:
            for rank, there in self._others.items():
                theirs, _, bytes_ = self._receive(there, rank, call).partition(b"\n")
                if theirs + b"\n" != head:
                    raise Lost(
                        "rank 0 is at its exchange %s, and rank %d at %s: all ranks make the same "
                        "calls in the same order" % (head.decode().strip(), rank, theirs.decode())
                    )
                parts.append(bytes_)
            answers = self._combined(call, combine, parts)
        except Error as e:
            for there in self._others.values():
                there.send_bytes(FAILED + str(e).encode())
            raise
        for rank, there in self._others.items():
            self._send(there, rank, b" " + answers[rank])
        return answers[0]

    @staticmethod
    def _combined(call, combine, parts):
        try:
            return combine(parts)
        except (IndexError, TypeError, ValueError, RuntimeError) as e:
            raise e if isinstance(e, Error) else Error("%s: %s" % (call, e)) from e

    # ---- messages

    @staticmethod
    def _send(there, rank, message):
        try:
            there.send_bytes(message)
        except OSError as e:
            raise Lost("the program of rank %d is gone: %s" % (rank, e)) from None

    def _receive(self, there, rank, call):
        try:
            self._await(there.poll, "the program of rank %d" % rank, call)
            return there.recv_bytes()
        except (EOFError, OSError):
            raise Lost(
                "%s: the program of rank %d has ended, or makes fewer calls" % (call, rank)
            ) from None

    def _await(self, poll, who, call):
        """Tells the rank from time to time that a waiting program is alive; otherwise the rank
        would take it for one that hangs."""
        until = time.monotonic() + self.timeout
        while not poll(min(BEAT_SECONDS, self.timeout)):
            if time.monotonic() > until:
                raise Error(
                    "%s: %s has made no such call for %g s: all ranks make the same calls in the "
                    "same order, and the same steps between them" % (call, who, self.timeout)
                )
            if run():
                run().log({})

    # ---- meeting

    def _meet(self, call):
        where, key = os.environ.get("EVENSTEP_PEERS"), os.environ.get("EVENSTEP_PEERS_KEY", "")
        if not where:
            raise Lost("nobody has told this program where the others are (EVENSTEP_PEERS)")
        if int(os.environ.get("EVENSTEP_INCARNATION", "0")):
            raise Lost(
                "this program was started again, and cannot make again what the ranks had "
                "exchanged: all begin anew, from the last checkpoint"
            )
        if self.rank == 0:
            return dict(sorted(self._accept(key.encode(), call)))
        address, port = where.split()
        there = self._connection(socket.create_connection((address, int(port))))
        try:  # rank 0 may take a while to get here
            self._await(there.poll, "the program of rank 0", call)
            answer_challenge(there, key.encode())
            deliver_challenge(there, key.encode())
        except (AuthenticationError, EOFError, OSError) as e:
            raise Lost("the program of rank 0 does not let rank %d in: %s" % (self.rank, e))
        there.send_bytes(struct.pack("!i", self.rank))
        return {0: there}

    def _accept(self, key, call):
        """(rank, connection) of each other program; strangers are dropped."""
        came = set()
        with socket.socket(fileno=int(os.environ["EVENSTEP_PEERS_FD"])) as listener:
            comes = select.poll()
            comes.register(listener, select.POLLIN)
            while len(came) < self.size - 1:
                self._await(lambda s: comes.poll(1000 * s), "another rank's program", call)
                one, _ = listener.accept()
                patience = struct.pack("ll", HANDSHAKE_SECONDS, 0)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
                there = self._connection(one)
                try:
                    deliver_challenge(there, key)
                    answer_challenge(there, key)
                    (rank,) = struct.unpack("!i", there.recv_bytes(4))
                except (AuthenticationError, EOFError, OSError, struct.error):
                    there.close()
                    continue
                if 0 < rank < self.size and rank not in came:
                    came.add(rank)
                    yield rank, there

    @staticmethod
    def _connection(one):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.settimeout(None)
        return Connection(one.detach())
