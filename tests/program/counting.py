"""A program whose gradients are whole numbers over powers of two, so that sums are exact in any
order: what the rank's side makes of it is compared bit for bit. It keeps a list of the samples it
has seen, per epoch, beneath $EVENSTEP_OUTPUT.

    counting.py [--samples N] [--batch B] [--epochs E] [--optimizer sgd|momentum|heavy|adaptive]
                [--fault NAME] [--after STEPS] …
"""
import argparse
import errno
import json
import os
import signal
import sys
import time

import numpy as np

import wire

GOES = []  # the GO of each step
SHAPES = {"first.weight": [40, 50], "first.bias": [40], "second.weight": [10, 40],
          "second.bias": [10]}
N = sum(int(np.prod(s)) for s in SHAPES.values())


def tokens(i):
    """The weight of a sample with --tokens."""
    return 1 + int(i) % 3 if ARGS.tokens else 1


def gradient(indices, params):
    """Mean over the samples (or their tokens, or a sum) of a gradient of whole numbers, plus a part
    that depends on the parameters."""
    j = np.arange(N, dtype=np.int64)
    total = np.zeros(N, np.float64)
    for i in indices:
        total += tokens(i) * ((int(i) * 7 + j * 3) % 17 - 8)
    mean = (total / (1 if ARGS.reduction == "sum" else max(sum(map(tokens, indices)), 1))).astype(
        np.float32)
    return mean + np.float32(0.25) * params if ARGS.curved else mean


class Optimizer:
    """Like a user's: plain SGD, with momentum, or one that the server's rule cannot make (adaptive:
    the sign of the gradient; heavy: a momentum that it does not tell)."""

    def __init__(self, kind, rate):
        self.kind, self.rate, self.velocity = kind, np.float32(rate), np.zeros(N, np.float32)

    def step(self, params, grads):
        if self.kind == "adaptive":
            params -= self.rate * np.sign(grads)
            return
        if self.kind in ("momentum", "heavy"):
            self.velocity *= np.float32(0.5)
            self.velocity += grads
            grads = self.velocity
        params -= self.rate * grads

    def about(self):
        return {"type": "other" if self.kind in ("adaptive", "heavy") else "sgd",
                "name": "" if ARGS.nameless else self.kind, "learning_rate": float(self.rate),
                "momentum": 0.5 if self.kind == "momentum" else 0, "nesterov": False,
                "weight_decay": 0}


def describe(optimizer):
    return {"framework": "plain", "samples": ARGS.samples, "global_batch": ARGS.batch,
            "ahead": ARGS.ahead, "shuffle": True, "epochs": ARGS.epochs, "state": ARGS.state,
            "reduction": ARGS.reduction, "optimizer": optimizer.about(),
            "statistics": [{"name": "mean", "shape": [3], "mean_of": -1}],
            "parameters": [{"name": k, "shape": s, "decay": True} for k, s in SHAPES.items()]}


def faulty(number):
    """Does this process have its fault in this slice?"""
    rank, incarnation = int(os.environ["EVENSTEP_RANK"]), int(os.environ["EVENSTEP_INCARNATION"])
    here = (not ARGS.on or rank in ARGS.on) and ARGS.but != rank
    due = number == ARGS.every * (incarnation + 1) if ARGS.every else number == ARGS.after
    return ARGS.fault and here and due and incarnation < ARGS.times


def at(point, w, s):
    if faulty(s.number) and ARGS.point == point:
        fault(w, ARGS.fault, s)


def fault(w, name, s):
    if name == "crash":
        print("about to crash", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if name == "exit":
        print("about to exit", flush=True)
        os._exit(3)
    if name == "full":
        with open("/dev/full", "w") as f:
            f.write("what it would keep")
    if name == "hang":
        time.sleep(1000)
    if name == "loop":
        while True:
            pass
    if name in ("failed", "refused"):
        w.send(wire.FAILED, wire.FINAL if name == "refused" else 0, text="nothing to go on with")
        sys.exit(1)
    if name == "leave":
        w.leave()
        sys.exit(0)
    if name == "quit":
        w.leave()
        print("about to quit", flush=True)
        sys.exit(3)
    if name == "rank" and not (ARGS.hold and os.path.exists(ARGS.hold)):  # a worker is lost
        while ARGS.gate and not os.path.exists(ARGS.gate):
            time.sleep(0.01)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(1000)
    if name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "epoch":
        w.epoch_end(s.epoch)
    if name == "twice":
        try:
            wire.Wire(describe(Optimizer("sgd", 1)))
        except wire.Refused as why:
            print(f"refused: {why}", flush=True)


def weight_of(w, s):
    if w.rank == ARGS.silent or ARGS.silent == -2:
        return 0.0
    if ARGS.reduction == "sum":
        return float(s.count > 0)
    return float(sum(map(tokens, s.indices)))


def one_pass(w, s, optimizer, grads):
    """Gradients, bucket by bucket; gradients without weight are NaN."""
    weight, now = weight_of(w, s), faulty(s.number)
    loss = float("nan") if ARGS.no_loss else float(np.abs(grads).mean())
    w.grads[:] = grads if weight > 0 or s.count == 0 else np.nan
    for b in range(len(w.buckets)):
        if s.count:
            w.bucket(b, -1.0 if ARGS.fault == "weight" and now else weight)
        if b == 0:
            at("half", w, s)
        if w.rank == ARGS.void and s.number == ARGS.after:
            w.grads[:] = np.nan
            return w.gradients(s, float("nan"), flags=wire.VOID, weight=weight)
    if ARGS.fault == "unsteady" and now:
        weight += 1
    samples = s.count + 1 if ARGS.fault == "samples" and now else None
    return w.gradients(s, loss, float(optimizer.rate), s.count // 2, samples=samples, weight=weight)


def more_passes(w, s, optimizer, go):
    """Each further pass adds half of the gradient to what GO left, or is followed by its own
    step."""
    passes = (2 if ARGS.fault == "further" and w.rank == 1 and s.number == ARGS.after
              else ARGS.passes)
    for _ in range(1, passes):
        before = 0 if ARGS.step_each else w.grads.copy()
        if ARGS.step_each and not go & wire.SKIP_STEP:
            optimizer.step(w.params, w.grads.copy())
        at("between", w, s)
        w.again(s)
        at("again", w, s)
        go = one_pass(w, s, optimizer, gradient(s.indices, w.params) / 2)
        w.grads[:] += before
    return go


def one_step(w, s, optimizer):
    if ARGS.fault == "nan" and faulty(s.number):
        return w.gradients(s, float("nan"), flags=wire.NOT_FINITE)
    w.stats[:] = s.number
    go = more_passes(w, s, optimizer, one_pass(w, s, optimizer, gradient(s.indices, w.params)))
    GOES.append(go & (wire.SKIP_STEP | wire.VOID))
    if go & wire.DIFFERENCE:
        before = w.params.copy()
        optimizer.step(w.params, w.grads.copy())
        w.grads[:] = before - w.params
        w.params[:] = before
        go = w.gradients(s, float("nan"), flags=wire.DIFFERENCE)
    if not go & wire.SKIP_STEP:
        if faulty(s.number) and ARGS.point == "step":
            w.params[:100] = 99  # half of a step
        at("step", w, s)
        optimizer.step(w.params, w.grads.copy())
    at("after", w, s)
    if s.number == ARGS.after and ARGS.change in (w.rank, -2):
        w.params[2010:2020] *= 2  # first.bias
    return go


def seen_file(rank):
    return os.path.join(ARGS.seen or os.environ["EVENSTEP_OUTPUT"], f".seen-{rank}")


def note(rank, s):
    """The samples of which this rank's processes have given gradients; of a repeated slice the last
    time counts."""
    line = (json.dumps([s.number, s.epoch, [int(i) for i in s.indices]]) + "\n").encode()
    with open(seen_file(rank), "ab", buffering=0) as f:
        length = f.tell()
        while not written(f, line):  # on a full disk it waits for room, as a user's would have to
            f.truncate(length)
            time.sleep(0.1)


def written(f, line):
    try:
        return f.write(line) == len(line)
    except OSError as e:
        if e.errno != errno.ENOSPC:
            raise
        return False


def all_seen(rank):
    seen = {}
    if os.path.exists(seen_file(rank)):
        with open(seen_file(rank)) as f:
            for _, epoch, indices in {number: (number, epoch, indices)
                                      for number, epoch, indices in map(json.loads, f)}.values():
                seen.setdefault(epoch, []).extend(indices)
    return seen


def measure(w, s):
    """An evaluation within the epoch."""
    if ARGS.measure and (s.number + 1) % ARGS.measure == 0 and w.rank in ARGS.measure_on:
        w.log(test_accuracy=ARGS.accuracy + (s.number + 1) / 128,
              test_loss=float(np.abs(w.params).sum()))


def log(w, s):
    """Metrics that are no evaluation, each with a value that its step tells."""
    if ARGS.log and (s.number + 1) % ARGS.log == 0:
        w.log(**{"bleu": s.number + 1, "eval/rank": w.rank})
        w.log(bleu=(s.number + 1) / 4)


def loops(rank):
    """Epochs that the program makes without having said how many."""
    return ARGS.loop + 1 if ARGS.loop and rank == ARGS.longer else ARGS.loop


def hold(number):
    """Waits until the test says so, or for this long."""
    while number == ARGS.after and ARGS.stays == int(os.environ["EVENSTEP_RANK"]):
        time.sleep(1)
    until = time.monotonic() + ARGS.hold_for
    while (ARGS.hold and number > ARGS.after and not os.path.exists(ARGS.hold)
           and time.monotonic() < until):
        time.sleep(0.01)


def train(w, optimizer):
    while not ARGS.loop or w.epoch < ARGS.loop:  # else all were made before
        s = w.next()
        if s.number == ARGS.steps:
            w.epoch_end(-1)
            w.log(test_accuracy=0.5, test_loss=float(np.abs(w.params).sum()))
            return
        if not s.flags & wire.NO_STEP:
            at("before", w, s)
            if s.flags & wire.STOP or not w.begin(s):
                return
            at("begun", w, s)
            if ARGS.then and int(os.environ["EVENSTEP_INCARNATION"]) == 1:
                fault(w, ARGS.then, s)
            time.sleep(ARGS.pause)
            hold(s.number)
            note(w.rank, s)
            if one_step(w, s, optimizer) & wire.STOP:
                return
            measure(w, s)
            log(w, s)
        if s.flags & wire.STOP or (s.flags & wire.EPOCH_LAST and not w.epoch_end(s.epoch)):
            return
        if s.flags & wire.EPOCH_LAST:
            at("evaluation", w, s)
        if s.flags & wire.EPOCH_LAST and (w.rank == 0 or ARGS.everyone):
            w.log(test_accuracy=ARGS.accuracy + 0.125 * s.epoch,
                  test_loss=float(np.abs(w.params).sum()))
        if s.flags & wire.RUN_LAST or (s.flags & wire.EPOCH_LAST and s.epoch + 1 == loops(w.rank)):
            return


def main():
    rank, incarnation = int(os.environ["EVENSTEP_RANK"]), int(os.environ["EVENSTEP_INCARNATION"])
    print(f"rank {rank} of {os.environ['EVENSTEP_WORLD_SIZE']}", flush=True)
    if not incarnation and os.path.exists(seen_file(rank)):  # another attempt's
        os.remove(seen_file(rank))
    while incarnation and ARGS.again_when and not os.path.exists(ARGS.again_when):
        time.sleep(0.01)
    optimizer = Optimizer(ARGS.optimizer, ARGS.rate)
    about = describe(optimizer)
    if (ARGS.fault == "differs" and rank == 1) or (ARGS.becomes_another and incarnation):
        about["parameters"][1]["shape"] = [41]
    if ARGS.fault == "never":
        return
    w = wire.Wire(about, 99 if ARGS.fault == "version" else wire.VERSION)
    if ARGS.state:
        w.save = lambda: bytes([rank]) + optimizer.velocity.tobytes()
        print(f"state of rank {w.state[0]}" if w.state else "no state", flush=True)
        optimizer.velocity = np.frombuffer(w.state, "<f4", N,
                                           1).copy() if w.state else optimizer.velocity
    w.params[:] = np.arange(N) % 5 + rank + 1000 * incarnation  # rank 0's are used by all
    if ARGS.loop:
        w.epochs(float("inf"))
    w.start()
    train(w, optimizer)
    out = os.path.join(os.environ["EVENSTEP_OUTPUT"], f"rank-{rank}.json")
    with open(out, "w") as f:
        json.dump({"seen": all_seen(rank), "params": w.params.tolist(), "resumed": w.resumed,
                   "incarnation": incarnation, "epoch": w.epoch, "goes": GOES}, f)
    w.leave()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=float)
    parser.add_argument("--loop", type=int, help="epochs that it makes, and does not tell")
    parser.add_argument("--steps", type=int, help="its loop ends before this slice, and it says so")
    parser.add_argument("--longer", type=int, help="this rank makes one more of them")
    parser.add_argument("--ahead", type=int, default=1)
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--nameless", action="store_true", help="it tells no optimizer's name")
    parser.add_argument("--rate", type=float, default=0.125)
    parser.add_argument("--curved", action="store_true")
    parser.add_argument("--everyone", action="store_true")
    parser.add_argument("--accuracy", type=float, default=0.25)
    parser.add_argument("--measure", type=int, help="after each so many steps")
    parser.add_argument("--log", type=int, help="metrics after each so many steps")
    parser.add_argument("--measure-on", type=int, nargs="+", default=[0], help="on these ranks")
    parser.add_argument("--pause", type=float, default=0)
    parser.add_argument("--reduction", default="mean")
    parser.add_argument("--tokens", action="store_true", help="samples weigh 1, 2 or 3")
    parser.add_argument("--silent", type=int, default=-1,
                        help="this rank's batches weigh 0; -2: all do")
    parser.add_argument("--no-loss", action="store_true")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--step-each", action="store_true", help="a step after each of them")
    parser.add_argument("--void", type=int, default=-1,
                        help="this rank's pass fails half way in step --after")
    parser.add_argument("--change", type=int, default=-1,
                        help="this rank changes parameters after step --after, beside its "
                        "optimizer; -2: all do")
    parser.add_argument("--state", action="store_true")
    parser.add_argument("--seen", help="the folder of its list of samples; that of its results")
    parser.add_argument("--fault")
    parser.add_argument("--then", help="the fault of a rank's second process in its first slice")
    parser.add_argument("--gate", help="the fault `rank` waits until this file is there")
    parser.add_argument("--stays", type=int, help="this rank's program stays in slice --after")
    parser.add_argument("--again-when", help="a process that is started again waits for this file")
    parser.add_argument("--hold", help="later slices than that of the fault wait for this file")
    parser.add_argument("--hold-for", type=float, default=1e9, help="seconds, each of them at most")
    parser.add_argument("--after", type=int, default=3)
    parser.add_argument("--point", default="before",
                        choices=["before", "begun", "half", "between", "again", "step", "after",
                                 "evaluation"])
    parser.add_argument("--every", type=int,
                        help="in place of --after: the next process goes that much further")
    parser.add_argument("--on", type=int, nargs="+", help="ranks that have the fault; all")
    parser.add_argument("--but", type=int)
    parser.add_argument("--times", type=int, default=99)
    parser.add_argument("--becomes-another", action="store_true")
    ARGS = parser.parse_args()
    main()
