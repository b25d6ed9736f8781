"""Programs that take the next batch from the loader before they have used the current one.

                one ahead            late step            one ahead, taken within the pass
    take 0      begins 0             begins 0             begins 0
    take 1      1 waits              (pass 0) 1 waits     1 waits
    pass, step  of 0                 step of 0            pass 0
    take 2      begins 1, 2 waits    (forward begins 1)   begins 1, 2 waits

A slice of the job begins when its batch is taken, and everything that the program does until the
next slice begins belongs to it. So if the current batch is still to be used, the slice of the next
one must wait. It begins when the program takes a further batch (first column), or at the next
forward pass, if only the step of the current batch was missing (second column: nanoGPT takes a
batch between backward() and step()). Passes use batches in the order in which they were taken.

Which kind a program is shows at the first backward pass of its first loop (taken.py), and holds for
all loops that follow (manner.py). `lag` is the number of batches that it has in hand besides the
one that it uses: 0 or 1. A program with a lag of 1 must use every batch: if it passed over one,
that would look as if it had two in hand.
"""

import functools
from collections import deque

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from ...run import Error
from .manner import Manner
from .taken import Taken

TOO_FAR = (
    "a batch was taken from the loader while two before it had no backward pass: a program may "
    "have one batch in hand ahead of the one that it uses, and then passes over none. "
    "DataLoader(num_workers=…, prefetch_factor=…) reads further ahead in the background"
)
UNUSED = (
    "the last batch of the epoch had no backward pass, though the loop took each batch before the "
    "pass of the one before: such a loop uses each batch. One that passes over its first batch "
    "keeps nothing of it"
)
SERVED = (
    "a batch was taken from the loader before the backward pass of the one before it: under this "
    "strategy a slice of the job ends where the next batch is taken. Take each batch after the "
    "step of the one before, or take the strategy sync; DataLoader(num_workers=…, "
    "prefetch_factor=…) reads ahead in the background"
)
CHANGED = (
    "a batch was taken between the forward pass over the one before and its step, and parameters "
    "were averaged there: take it after the step, or take the strategy sync"
)


class _Waiting:
    """A batch that was taken and whose slice has not begun. piece: the slice; None: the batch is a
    spare one (spare.py)."""

    def __init__(self, piece):
        self.piece, self.rows, self.seconds = piece, None, 0.0


class Watch:
    """Between begin() and end(), calls `forward` before a forward pass of any module, and `saves`
    before a model is saved."""

    def __init__(self, forward, saves):
        self.forward, self.saves = forward, saves
        self._hook = self._plain = None

    def begin(self):
        if self._hook is not None:
            return
        self._hook = register_module_forward_pre_hook(lambda module, _: self.forward(module))
        plain = self._plain = torch.nn.Module.state_dict

        @functools.wraps(plain)
        def state_dict(module, *args, **kwargs):
            self.saves()
            return plain(module, *args, **kwargs)

        torch.nn.Module.state_dict = state_dict

    def end(self):
        if self._hook is not None:
            self._hook.remove()
            torch.nn.Module.state_dict = self._plain
            self._hook = None


class Ahead:
    def __init__(self, run, passes):
        self.run, self.passes, self.stream = run, passes, None
        self.lag = None  # of this loop; None: not known before the first pass
        self.manner = Manner()
        self._waiting = deque()
        self._used = True  # the current batch had a backward pass
        self._stepped = True  # and an optimizer has stepped since
        self.left_over = False  # the loop has ended, and its last batch had a pass and no step
        self._ended = False  # the loop has had its last batch, and that is still in hand
        self._passed = False  # the batch before the current one had no pass
        self._taken = Taken()
        self._watch = Watch(self._forward, self.evaluates)

    # ---- a loop

    def reopen(self):
        """A loop over batches begins. Returns True if the last batch of the loop before is still in
        hand."""
        self._watch.end()
        in_hand = self._ended and (self._steps_later() if self._used else self.lag == 1)
        if in_hand:
            self.stream.begin_loop()
        else:
            self._let_go()
            self.stream.reopen()
            self._used = self._stepped = True
            self.lag, self._taken = self.manner.lag, Taken()
        self._ended = False
        return in_hand

    def _let_go(self):
        """Forgets the batches of the loop before: it was left, or its last batch was passed
        over."""
        self._waiting.clear()
        self.passes.spare.leave()
        if self._ended and not self._used:
            self.passes.finish_step()

    def next(self):
        """The program takes a batch. Returns its slice; None: the loop ends."""
        self._move_on()
        if self._waits():
            piece = self.stream.take_ahead()
            if piece is not None:
                self._wait(piece)
                return piece
            self._ended = True
            self._watch.begin()
            return None
        self.passes.spare.leave()
        self._passed = not self._used
        unstepped = self._used and not self._stepped
        piece = self.stream.begin()
        self._used = self._stepped = piece is None
        self.left_over = piece is None and unstepped
        if not self.manner.calls and self.manner.is_unknown(self.passes.batches):
            self._watch.begin()
        return piece

    def _waits(self):
        """Must the slice of the batch that is taken now wait?"""
        if self._used:
            return self._steps_later()
        served = self.passes.slice is not None and not self.passes.slice.step_count
        return self.lag != 0 and not served  # a server says late which slice comes next

    def _steps_later(self):
        """May the step of the current batch still come, after its pass? Before the first step of
        the program nobody knows; then the next slice waits. It does not wait if parameters may
        change when it begins and no forward pass of a module is seen, at which it could begin."""
        piece, spare, manner = self.passes.slice, self.passes.spare.at_hand, self.manner
        if self._stepped or (piece is None and not spare):
            return False
        looks = manner.is_unknown(self.passes.batches)
        stand = spare or (piece.step_count and (manner.calls or not self.run.holds()))
        return manner.late or bool(looks and stand)

    def _wait(self, piece):
        self._waiting.append(_Waiting(piece))
        if self._used:
            self._watch.begin()

    def _move_on(self):
        """The program takes a further batch, so it now uses the one that waits."""
        if not self._waiting:
            return
        if not self._used:
            if self.lag == 1 or self._taken.is_kept():
                raise Error(TOO_FAR)
            self._tells(False)
        self._move(checks=self.manner.within)

    def _move(self, checks=False):
        """Begins the slice of the first batch that waits. checks: its forward pass may have begun
        already, so parameters must not change now."""
        taken = self._waiting.popleft()
        self.passes.spare.leave()
        self._watch.end()
        self._used = self._stepped = False
        before = self.passes.blocks.flat.clone() if checks and self.run.holds() else None
        if taken.piece is None or not self.stream.begin_taken():
            self.passes.spare.take()
            return
        if before is not None and not torch.equal(before, self.passes.blocks.flat):
            raise Error(CHANGED)
        self.passes.weight.leave_out(taken.rows)
        self.run.loaded_in(taken.seconds)

    def given(self, batch, seconds):
        """The loop receives this batch, which took so many seconds to load."""
        passes = self.passes
        passes.idle.given()
        self._note(batch)
        if not self._waiting:
            self.run.loaded_in(seconds)
            if passes.slice is not None:
                passes.weight.leave_out(passes.weight.fewer(batch, passes.slice))
            return batch
        last = self._waiting[-1]
        last.rows = passes.weight.fewer(batch, last.piece)
        if passes.slice is None or self._used:
            last.seconds = seconds
        else:
            self.run.loaded_in(seconds)  # within the step of the one before
        return batch

    def _note(self, batch):
        if self.lag is None:
            self._taken.note(batch, is_second=self._passed or bool(self._waiting))
        elif self._waiting and self._used:
            self._taken.mark()

    # ---- batches of which no step is made

    def spare(self, batch):
        """The loop receives a spare batch (spare.py)."""
        if self._waits():
            self._wait(None)
        else:
            self.passes.spare.take()
            self._used = self._stepped = False
        self._note(batch)
        return batch

    def spare_ends(self):
        """The loop asks for the batch after a spare one, or ends."""
        self._move_on()
        if not self._steps_later() and (self._used or self.lag == 0):
            self.passes.spare.leave()

    def loop_ends(self):
        """The loop ends after a spare batch."""
        self._ended = self.passes.spare.at_hand

    def when_used(self, call):
        """Calls `call` now. If a spare batch is in hand, it does so when that was used."""
        if self.passes.spare.at_hand and not self._used:
            self.passes.spare.when_left(call)
        else:
            call()

    # ---- what the program does with batches

    def pass_begins(self, loss=None):
        if self._waiting:
            self._find_whose(loss)
        elif self.lag is None:
            if self._passed and self._taken.is_ahead():
                raise Error(SERVED)
            self._tells(self._ended)
        self._used, self._stepped = True, False

    def _tells(self, ahead):
        self.lag = self.manner.lag = int(ahead)

    def _find_whose(self, loss):
        """A batch waits: is this pass over the current batch, or over the one that waits? In the
        second case its slice begins."""
        if not self._used and self.lag is None:
            self.manner.within = self._taken.before_last(loss)
            self._tells(self.manner.within or self._taken.is_ahead())
        if self.lag == 1 or (self._used and self._taken.root_before_last(loss)):
            return
        self._move(checks=True)

    def weighs(self):
        """The program calls weight(), for the batch of its next pass."""
        if not self._waiting or self.lag == 1:
            return
        if not self._used:
            self._tells(self._taken.is_ahead())
        if self.lag != 1:
            self._move(checks=True)

    def has_stepped(self):
        """An optimizer has stepped."""
        self.manner.steps, self._stepped = True, self._used
        self.manner.late |= bool(self._waiting) and self._used and self.lag != 1
        if self._ended and self._used and self.passes.spare.at_hand and not self._waiting:
            self.passes.spare.leave()

    def _forward(self, module):
        """A forward pass begins, of any module."""
        self.manner.calls = True
        if not (self._waiting or self._ended):
            self._watch.end()
        elif not (module.training and torch.is_grad_enabled()):
            self.evaluates()
        elif self._waiting and self._used and self.lag != 1:
            self._move()

    def evaluates(self):
        """The program evaluates, saves or logs. If its loop has ended, the epoch is closed now."""
        is_made = self._stepped or not (self.manner.steps or self.lag == 1)
        if self._ended and self._used and is_made and not self._waiting:
            self._watch.end()
            self._ended = False
            self.stream.close_epoch_if_over()

    def ends(self):
        """The program ends."""
        self._watch.end()
        passes = self.passes
        unused = self._ended and self.lag == 1 and not self._used and not passes.spare.at_hand
        if unused and passes.slice is not None and not self.run.over:
            raise Error(UNUSED)
