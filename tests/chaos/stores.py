"""Concurrent users and coordinators on one real Redis, faults between them, and the history of what
they asked and were answered (docs/decisions/0027).

Each client is a process of its own (store_client.c), driven by a thread of this one. Two of them
are coordinators: they take the lease from each other, also from one that is stopped in the middle
of a change and wakes up later, and go on writing with a token that is no longer good. What each
asks, and which fault comes after how many answers, follows from the seed; what is answered does
not, since processes race."""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from linear import NEVER, UNKNOWN, Op
from models import ARROWS, CONFLICT, ENDED, NOT_FOUND
from service import BUILD, proc_file, until

CLIENT = BUILD / "tests/chaos/store_client"
KEYS = [f"key-{n}" for n in range(4)]
NODES = ["node-a", "node-b"]
USERS, COORDINATORS = 4, 2
CALL_SECONDS = 2  # the store ends a call after this time (store.h)


class Redis:
    """The private Redis as evenstep runs it, with the lifetimes of its processes."""

    def __init__(self, folder):
        self.folder, self.lives = folder, []
        self.start()

    def start(self):
        self.lives.append([time.monotonic(), NEVER])
        said = subprocess.run([CLIENT, "--serve", self.folder], capture_output=True, text=True,
                              timeout=120)
        assert said.returncode == 0, said.stderr
        self.pid, self.url = said.stdout.split()
        self.pid = int(self.pid)

    def signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL)
        until("Redis has ended",
              lambda: (proc_file(self.pid, "stat").rsplit(b")", 1) + [b" Z"])[1][1:2] == b"Z")
        self.lives[-1][1] = time.monotonic()

    def last_moment(self, until_then):
        """Until when a command sent before `until_then` can be carried out: the end of the newest
        process that can have received it."""
        return max((life for life in self.lives if life[0] <= until_then), default=[0, 0])[1]


class Client:
    """One process that uses the store, and the thread that drives it."""

    def __init__(self, run, name):
        self.run, self.name, self.random = run, name, random.Random(f"{run.seed} {name}")
        self.thread, self.births = threading.Thread(target=self.work, name=name), 0
        self.be_born()

    def be_born(self):
        self.births += 1
        self.instance = f"{self.name}-{self.births}".rjust(32, "0")
        self.process = subprocess.Popen([CLIENT, self.run.redis.url, self.instance], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def call(self, *words):
        """Its answer, as words; and the times of request and answer."""
        begin = time.monotonic()
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"{self.name} ended at {words}"
        return begin, line.split(), time.monotonic()

    def operate(self, object, name, args, *words):
        """Makes an operation on an object, and enters it into the history; returns its result."""
        begin, answer, end = self.call(*words)
        self.run.answered()
        if answer[:2] == ["no", "unavailable"]:
            if name != "get":
                self.run.unanswered.append((object, Op(name, args, UNKNOWN, begin, end, self.name)))
            self.run.stop.wait(0.05)
            return UNKNOWN
        if answer == ["fenced"]:
            result = "fenced"
        elif answer[0] == "no":
            assert answer[1] in (CONFLICT, NOT_FOUND), f"{words}: {' '.join(answer)}"
            result = answer[1]
        else:
            result = self.result_of(name, answer[1:])
        if result != "fenced":  # the object is unchanged
            self.run.history[object].append(Op(name, args, result, begin, end, self.name))
        return self.fenced(result, begin, end)

    def fenced(self, result, begin, end):
        return result

    @staticmethod
    def result_of(name, words):
        if name in ("create", "take"):
            return words[0], int(words[1]) if words[0] == "self" else words[1]
        if name == "attempt":
            return int(words[0])
        if not words or words[0] == "done":
            return "ok"
        return words[0]

    def work(self):
        try:
            while not self.run.stop.is_set():
                self.turn()
                self.run.stop.wait(self.random.uniform(0, 0.02))
        except Exception as e:  # the test's thread raises it again
            self.run.trouble.append(e)

    def pick(self):
        """A known job with its key; mostly the newest one of a key."""
        key = self.random.choice(KEYS)
        known = self.run.ids[key]
        if not known:
            return key, None
        return key, known[-1] if self.random.random() < 0.9 else self.random.choice(known)

    def seen(self, key, id):
        """Reads the job's version, like a client that wants to change it."""
        result = self.operate(key, "get", (id,), "get", id)
        return result if result not in (UNKNOWN, NOT_FOUND) else None

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


class User(Client):
    """Submits, reads and deletes jobs, and changes priorities."""

    def turn(self):
        key, id = self.pick()
        what = self.random.choices(("create", "ask", "delete", "priority", "get"),
                                   (2, 4, 2, 2, 3))[0]
        if what == "create" or id is None:
            rank = self.random.randint(-3, 3)
            made = self.operate(key, "create", (key, rank), "create", key, rank)
            if made is not UNKNOWN and made[1] not in self.run.ids[key]:
                self.run.ids[key].append(made[1])
        elif what == "ask":
            wish = self.random.choice(("cancel", "pause", "resume", "cancel"))
            self.operate(key, "ask", (id, wish), "ask", id, wish)
        elif what == "get":
            self.seen(key, id)
        else:
            seen = self.seen(key, id) if self.random.random() < 0.5 else None
            value = (self.random.randint(-3, 3),) if what == "priority" else ()
            self.operate(key, what, (id, *value, seen), what, id, *value, *([seen] if seen else []))


class Coordinator(Client):
    """Moves jobs, counts attempts, claims nodes, all with the token of its lease, however old. A
    coordinator that takes another's lease is a new process, like a standby."""

    token, usurps = 0, False  # usurps: it was told to take the other's lease

    def take(self, dead=""):
        """Takes or renews the lease. Returns the instance that holds it, if it is another."""
        args = (self.instance, self.token)
        result = self.operate("lease", "take", args, "take", dead)
        if result is not UNKNOWN and result[0] == "self":
            self.token, self.run.leader = result[1], self
        return result[1] if result is not UNKNOWN and result[0] == "other" else None

    def usurp(self):
        self.close()
        self.be_born()
        self.token, dead = 0, self.run.leader.instance
        while self.run.leader is not self and not self.run.stop.is_set():
            dead = self.take(dead) or dead
        self.usurps = False

    def fenced(self, result, begin, end):
        """A change names the lease's token, so it is an operation on the lease too."""
        if self.changing:
            told = "fenced" if result == "fenced" else "ok"
            self.run.history["lease"].append(
                Op("change", (self.token,), told, begin, end, self.name))
        return result

    changing = False

    def change(self, object, name, args, *words):
        self.changing = True
        try:
            return self.operate(object, name, args, *words)
        finally:
            self.changing = False

    def turn(self):
        if self.usurps:
            self.usurp()
        if self.token == 0 or self.random.random() < 0.05:
            return self.take()
        key, id = self.pick()
        if id is None:
            return None
        what = self.random.choices(("move", "attempt", "claim", "release"), (6, 1, 2, 2))[0]
        if what == "move":
            return self.move(key, id)
        if what == "attempt":
            return self.change(key, what, (id,), what, id)
        node = self.random.choice(NODES)
        return self.change(node, what, (node, id), what, node, id)

    def move(self, key, id):
        seen = self.seen(key, id)
        start = seen.split("-")[0] if seen else "queued"
        if start not in ENDED:
            to = self.random.choice(ARROWS[start])
            self.change(key, "move", (id, start, to), "move", id, start, to)


class Run:
    """The store after `faults` faults: histories by object, and the running Redis."""

    def __init__(self, seed, faults):
        self.seed, self.random, self.faults = seed, random.Random(f"{seed} faults"), faults
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="evenstep-store-"))
        self.history = {name: [] for name in [*KEYS, *NODES, "lease"]}
        self.ids, self.unanswered, self.trouble, self.log = {k: [] for k in KEYS}, [], [], []
        self.stop, self.count, self.counting = threading.Event(), 0, threading.Lock()

    def answered(self):
        with self.counting:
            self.count += 1

    def wait_for(self, answers):
        """Waits for this many more answers, or for the end of trouble."""
        goal = self.count + answers
        until(f"{answers} answers more", lambda: self.count >= goal or self.trouble, every=0.002)

    def play(self):
        self.redis = Redis(self.folder)
        users = [User(self, f"user-{n}") for n in range(USERS)]
        self.coordinators = [Coordinator(self, f"coordinator-{n}") for n in range(COORDINATORS)]
        clients, self.leader = [*users, *self.coordinators], self.coordinators[0]
        self.leader.take()
        for client in clients:
            client.thread.start()
        try:
            for _ in range(self.faults):
                self.wait_for(self.random.randint(60, 240))
                if not self.trouble:
                    self.fault()
            self.wait_for(200)
            for _ in range(60):  # otherwise chance would decide what the checks below find
                if self.has_all() or self.trouble:
                    break
                self.usurp()
                self.wait_for(100)
        finally:
            self.stop.set()
            for client in clients:
                client.thread.join(60)
                client.close()
        if self.trouble:
            raise self.trouble[0]
        self.bound_unanswered()

    def has_all(self):
        """Every job was deleted and made again, every node was refused to somebody, and somebody
        tried a change with a lease that it had lost."""
        results = {name: {op.result for op in list(ops)} for name, ops in self.history.items()}
        return (all(len(ids) > 1 for ids in self.ids.values()) and "fenced" in results["lease"]
                and all("lost" in results[node] for node in NODES))

    def fault(self):
        kind = self.random.choices(("kill", "time-out", "blink", "usurp", "freeze"),
                                   (6, 2, 2, 4, 4))[0]
        self.log.append(f"{time.monotonic():.3f} {kind}")
        getattr(self, kind.replace("-", "_"))()

    def kill(self):
        self.redis.kill()
        self.redis.start()

    def time_out(self):
        """For so long that calls end without an answer, and are carried out afterwards."""
        self.pause(CALL_SECONDS + 0.3)

    def blink(self):
        self.pause(0.1)

    def pause(self, seconds):
        self.redis.signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)  # the fault itself
        finally:
            self.redis.signal(signal.SIGCONT)

    def rivals(self):
        """The leader and the other one."""
        leader = self.leader
        return leader, next(c for c in self.coordinators if c is not leader)

    def usurp(self):
        """One takes the lease of the other, which does not know it."""
        self.rivals()[1].usurps = True

    def freeze(self):
        """One is stopped, wherever it is; the other takes its lease; then the first continues."""
        frozen, usurper = self.rivals()
        frozen.process.send_signal(signal.SIGSTOP)
        try:
            usurper.usurps = True
            until("the other leads", lambda: self.leader is usurper or self.trouble, every=0.002)
            self.wait_for(self.random.randint(20, 60))
        finally:
            frozen.process.send_signal(signal.SIGCONT)

    def bound_unanswered(self):
        for object, op in self.unanswered:
            op.end = self.redis.last_moment(op.end)
            if op.end > op.begin:
                self.history[object].append(op)

    def close(self):
        self.redis.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
