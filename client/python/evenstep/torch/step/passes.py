"""What happens in a backward pass: gradients are sent as they are ready, and come back summed.

    loss.backward()
      begin()                called first, by backward.py
      gradients.py           hooks: each gradient is copied to the block, and libevenstep tells the
                             rank when a bucket is complete; the exchange overlaps with the pass
      end()                  called last: waits for the rank's answer
    clipping, scaler, optimizer.step() see gradients that are summed over all ranks

One rank alone. If a strategy that sums has one rank, nothing is copied: gradients stay where
autograd puts them. A small network's step takes half a millisecond, so whatever runs in every step
must be quick: it makes no tensors and looks up little.

Nested passes (activation checkpointing) belong to the outermost one. If autograd is entered in a
way that backward.py does not see, the first hook begins the pass and an engine callback ends it.

The answer says what the optimizer does: step on the sum; leave its step out, because a server has
made it or a pass has failed on some rank; or step on the local gradients and send the difference,
which is done when the next slice begins.

A further pass over the same slice sends only its own gradients. The sums of the passes before are
set aside, and added to the new sum. In strategies that take differences the rank hears nothing of a
further pass.

Accumulation. Where losses are sums, the gradients of earlier slices are set aside, too. Each node
has the same ones, and the sum would count them once for each node.

A slice is settled when its gradients were sent. Those of a pass within no_sync() are kept instead.
If all ranks sum in each step anyway, they are summed when the next slice begins, so that every rank
has the whole accumulation; else the slice is settled as held back.

A slice without samples, because other ranks have them all, still gives the program a batch, so that
its loop makes the same calls as on other nodes. That batch has weight 0.
"""

import torch

from ...run import DIFFERENCE, SKIP, STEP, VOID, Error
from ..loss.batch import tell_hooks
from ..randomness import Draws
from .accumulation import Accumulation
from .ahead import Ahead
from .aside import Aside
from .blocks import has_batch_norm
from .buffers import Buffers
from .changed import Changed
from .gradients import Gradients
from .idle import Idle
from .rule import Optimizers
from .shown_loss import ShownLoss
from .spare import SpareBatch
from .weight import Weight


class Passes:
    def __init__(self, run, blocks, optimizers, reduction):
        self.run, self.blocks = run, blocks
        self.slice = None  # the current one: begun, and not followed by another yet
        self.batches = 0  # slices that have begun
        self.samples = 0  # of the current slice
        self.varies = False  # slices of one epoch had different numbers of samples
        self.settled = True  # the gradients of the current slice were sent
        self.touched = False  # a pass over it has begun
        self.held_back = False  # the last pass was within no_sync()
        self.stepped = False  # its gradients were summed, so an optimizer may step
        self.answer = STEP
        self._own = False  # gradients of this pass stay where they are: the rank takes none
        self._local = False  # a further pass of which the rank hears nothing
        self._further = False  # the last pass was a further one over its slice
        self.optimizers = Optimizers(run, optimizers)
        self.gradients = Gradients(run, blocks, self._opens)
        self.aside = Aside(self.gradients)
        self.weight = Weight(run, has_batch_norm(blocks.models), reduction == "sum")
        self.accumulation = Accumulation(run, self.gradients, self.weight)
        self.loss = ShownLoss()
        self.buffers = Buffers(run, blocks.models, [slot.tensor for slot in blocks.statistics])
        self.changed = Changed(run)
        self.draws = Draws(run)
        self.idle = Idle()
        self.spare = SpareBatch(run)
        self.ahead = Ahead(run, self)
        self.place = None  # place.py, once there is one

    def take_optimizers(self, optimizers):
        """In place of those before."""
        self.optimizers.take(optimizers)
        self.gradients.hook()

    # ---- between slices

    def finish_step(self):
        """Ends the current slice: its step is made, and what it still has to send is sent."""
        if self.gradients.open:
            self.abandon()
        if self.slice is None:
            return
        if not self.touched and not self.run.over:
            self.idle.count(self.slice)
        self.gradients.claim()
        if self.answer == DIFFERENCE:
            self.blocks.difference()
            self.run.difference()
            self.blocks.refresh()
        elif not self.settled and self.held_back and self.run.sums_gradients and not self.run.over:
            self._sum_held_back()
        elif not self.settled and self.accumulation.kept:
            self.run.held_back(*self._figures())
        elif not self.settled and not self.run.over:
            self.run.abort()  # its pass failed, or there was none
        self.place.slice_ends(self.touched)
        self.answer, self.settled, self.slice = STEP, True, None
        self.stepped = False

    def in_a_step(self):
        """Has a slice begun, and a pass over it been made?"""
        return self.slice is not None and self.touched and not self.spare.at_hand

    def follows_a_pass(self):
        """Had the current slice no pass yet, and the one before one?"""
        trained = self.idle.trained and self.idle.row == 0
        return self.slice is not None and not self.touched and trained

    def untouched(self):
        """The current slice, if no pass was made over it; else None."""
        return None if self.touched else self.slice

    def begin_slice(self, piece):
        """Begins this slice. False: the job was stopped."""
        self.finish_step()
        held = self.run.holds()
        self.blocks.check(copy=held)
        if not self.run.begin(piece):
            return False
        if held:
            self.blocks.refresh()
        self.varies |= self.samples not in (0, piece.count) and piece.start > 0
        self.slice, self.samples, self.settled = piece, piece.count, False
        self.batches += 1
        self.buffers.slice_begins()
        self.spare.slice_begins()
        self.touched = self.held_back = False
        self.weight.begin(piece)
        self.loss.forget()
        return True

    def hand_over(self):
        if self.place.stream.is_ending():
            self.idle.epoch_ends()
        self.blocks.check()

    def take_over(self):
        self.blocks.refresh()
        self.blocks.check_replaced()

    def weigh(self, weight):
        self.ahead.weighs()
        if self.spare.at_hand:
            return
        if self.slice is None or self.gradients.open or self.settled:
            raise Error("weight() belongs between a batch and its backward pass")
        self.weight.say(weight)

    def begins_at(self, values):
        """(values, gradient) of a pass that begins at no loss, or None: refuses a sum, and tells of
        weights."""
        if values and self.slice and not self.spare.at_hand:
            self.weight.judge(*values)

    def former_gradients(self):
        """For a state that is taken in the middle of a further pass: the sums of the passes so
        far."""
        return self.aside.sums if self._further else None

    # ---- the pass

    def _opens(self):
        """A hook was called outside of a pass, because autograd was entered in a way that
        backward.py does not see: begins one. False: there is no slice for it."""
        if self.spare.at_hand or self.slice is None:
            return False
        self.begin()
        torch.autograd.Variable._execution_engine.queue_callback(self.end)
        return True

    def begin(self, loss=None):
        self.ahead.pass_begins(loss)
        if self.spare.at_hand:  # also with a slice that was looked at, whose pass comes later
            self.spare.pass_begins()
            if self.aside.keep():
                self.spare.when_left(lambda: self.aside.put_back(self.idle.trained))
        if self.spare.at_hand or self.slice is None:
            return
        if not self.idle.trained:
            tell_hooks(self.run, self.blocks.slots)
        self.draws.pass_begins(self.slice)
        first, self.touched = not self.touched, True
        self.idle.trains()
        self.gradients.hook()
        keeping = self.accumulation.keeping
        further = self._further = self.settled and not keeping
        self.weight.take(loss, self.loss.scaler is not None, not self.settled)
        self.place.pass_begins()
        self._local = further and self.answer == DIFFERENCE and not self.weight.sums
        if further and not self._local:
            self._begin_further()
        elif first and not self.accumulation.kept and self.accumulation.would_mix():
            self.aside.set_aside()
        self.loss.take(loss)
        mine = self.weight.mine
        self._own = mine != 0 and not self.run.takes_gradients
        self.gradients.begin(quiet=keeping or mine == 0 or self._own or self._local)
        if mine == 0:
            self.aside.stash()
        else:
            self.accumulation.rescale()

    def end(self):
        if not self.gradients.open:
            return
        self.gradients.end()
        kept = self.accumulation
        if self.aside.unstash() and kept.kept and not kept.keeping:
            kept.carry(self.slice.step_count)
        if self._local:
            return
        self.held_back = kept.keeping
        if kept.keeping:
            kept.keep()
            return
        if not self._own:
            counts = self.weight.mine != 0
            goes_on = bool(kept.kept) or (counts and not self.weight.sums)
            self.gradients.complete(counts, goes_on)
        self._sum()
        if self.answer in (STEP, DIFFERENCE):
            self.changed.pass_ends(self.blocks.slots)

    def _sum(self):
        """Waits for the rank's answer, and follows it."""
        self.answer = self.run.gradients(*self._figures())
        self.optimizers.served |= self.answer == SKIP and self.samples > 0
        self.settled = self.stepped = True
        self.accumulation.drop()
        self._follow()
        self.aside.add()

    def _follow(self):
        """Does with gradients and parameters what the answer says."""
        if self.answer == STEP:
            if not self._own:
                self.gradients.give_back()
            self.aside.counted()
        elif self.answer == VOID:
            return  # the optimizer's step is left out, and nothing has changed
        elif self.loss.scaler is not None:
            raise Error(
                "a GradScaler's gradients are scaled, and a server's rule cannot know by how much: "
                "train in bfloat16 without a scaler, or under a synchronous strategy"
            )
        elif self.answer == SKIP:
            self.blocks.refresh()
            self.optimizers.made_by_server(self.blocks.slots, self.slice)
        else:
            if self.weight.sums:  # over this rank's samples, made that of a whole step
                self.gradients.give_back()
            self.blocks.remember()

    def abandon(self):
        """An exception has ended the pass. No rank makes the step of this slice, unless the rank
        has heard nothing of the pass."""
        former = None if self._further else self.aside.sums
        self.gradients.drop()
        self.aside.drop()
        if former is not None:
            self.gradients.become(former)
        if not self._local:
            self.settled = False
            self.accumulation.drop()

    # ---- parts of it

    def _begin_further(self):
        self.run.again()
        if self.slice.count:
            self.run.weight(self.weight.mine)
        self.aside.set_aside()

    @torch.no_grad()
    def _sum_held_back(self):
        """Sums the gradients of a slice whose last pass was within no_sync(), where all ranks sum
        in each step anyway: then every rank has the whole accumulation."""
        if self.weight.mine:
            self.gradients.send()
        else:
            self.gradients.complete(False, False)
        self.accumulation.drop()
        self._sum()

    def _figures(self):
        """Samples, loss and learning rate, for the message to the rank."""
        return self.samples, self.loss.told(self.samples, self.weight), self.optimizers.rate()
