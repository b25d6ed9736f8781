"""A backward pass: gradients leave for the rank as they are ready, and come back summed.

    loss.backward()
      begin()                first, by backward.py: autograd's outermost call
      gradients.py           hooks: each gradient is copied into the block, libevenstep is
                             told, and tells the rank when a bucket is complete; the exchange
                             overlaps
      end()                  last: waits until the rank has answered
    clipping, scaler, optimizer.step() see gradients that are summed over all ranks

A rank that is the only one of a strategy that sums takes no gradients: they stay where autograd
puts them, and nothing is copied. Whatever runs in every step looks up little and makes no tensors,
since a small network's step lasts half a millisecond.

Nested backwards (checkpointing) belong to the outermost one. Where autograd is entered by a way
that backward.py does not see, the first hook opens the pass and an engine callback ends it.

The rank answers what the optimizer does: step on the sum, leave its step out (a server made it, or
a pass failed on some rank), or step on the local gradients and send the difference, which is taken
when the next slice begins.

A further pass over the same slice sends its own gradients alone. What param.grad held before, which
is summed already, is set aside and added to the new sum. Where the difference of the step is sent,
a further pass is the program's own and the rank does not hear of it.

Where losses are sums, what param.grad holds of slices before (accumulation) is set aside, too: each
node has the same, which the sum would count once for each.

A slice is settled once its gradients were sent. Within no_sync they are kept. When the next slice
begins, they are summed by themselves where all ranks sum in each step anyway, so that any rank has
what an accumulation has so far; else the slice is settled as held back. A slice without samples
(another rank had them all) still gives the program a batch, so that its loop makes the same calls
as everybody's; that batch weighs nothing.
"""

import math
import sys

import torch

from ...run import DIFFERENCE, SKIP, STEP, VOID, Error
from ..loss.batch import tell_hooks
from ..randomness import Draws
from .ahead import Ahead
from .blocks import has_batch_norm
from .buffers import Buffers
from .changed import Changed
from .gradients import Gradients
from .idle import Idle
from .optimizer import Served, describe
from .weight import Weight

SPARE_MOST = 100  # backward passes in a row of batches that no step is made of
TINY = 1e-6  # weight of a slice without samples that carries gradients kept before, of the step's


class Passes:
    def __init__(self, run, blocks, optimizers, reduction):
        self.run, self.blocks, self.optimizers = run, blocks, optimizers
        self.weight = Weight(run, has_batch_norm(blocks.models), reduction == "sum")
        self.slice = None  # begun, and not yet followed by another
        self.batches = 0  # slices begun
        self.samples = 0  # of the slice
        self.varies = False  # the program has had another number of them in one epoch
        self.settled = True  # its gradients were sent
        self.touched = False  # a pass over it has begun
        self.held_back = False  # the last one was within no_sync
        self._idle = Idle()
        self.ahead = Ahead(run, self)
        self.answer = STEP
        self.served = False  # a server makes the steps, by the rule of the first optimizer
        self.server = Served(run, describe(optimizers))
        self.changed = Changed(run)
        self.draws = Draws(run)
        self.buffers = Buffers(run, blocks.models, [slot.tensor for slot in blocks.statistics])
        self.keeping = False  # within no_sync
        self.kept = 0.0  # what gradients of former slices weigh that are in param.grad; 0: none are
        self.stepped = False  # an optimizer may step: gradients of this slice were summed
        self.spare = False  # the loop has a batch of no slice: no step is made of it
        self.spared = 0  # passes over such batches in a row
        self.loss = self.scaler = None
        self._own = False  # gradients of this pass stay where they are: the rank takes none
        self._local = False  # a further pass of which the rank does not hear
        self._further = False  # the last pass was one more over its slice
        self._graph_told = False
        self.place = None  # place.py, once there is one
        self.made = lambda: None  # an optimizer that the program has made, and not stepped yet
        self.on_adopted = lambda optimizers: None
        self.gradients = Gradients(run, blocks, self._opens)

    def take_optimizers(self, optimizers):
        """Those of a second phase. A server that makes the steps knows the first one's rule; of
        another it needs no more than its rate, which comes with each step."""
        rule = describe(optimizers)
        alike = all(
            rule.get(key) == self.server.rule.get(key)
            for key in ("server", "momentum", "nesterov", "weight_decay")
        )
        if self.served and not alike:
            raise Error(
                "under this strategy the server makes the steps by the rule of the first "
                "optimizer, %s: take the same but for its rate in the second phase, or the "
                "strategy sync" % self.server.rule["name"]
            )
        self.optimizers = optimizers
        self.gradients.hook()

    # ---- between slices

    def finish_step(self):
        """Whatever belongs to the slice before is done: its step, and what it still has to send."""
        if self.gradients.open:
            self.abandon()
        if self.slice is None:
            return
        if not self.touched and not self.run.over:
            self._idle.count(self.slice)
        self.gradients.claim()
        if self.answer == DIFFERENCE:
            self.blocks.difference()
            self.run.difference()
            self.blocks.refresh()
        elif not self.settled and self.held_back and self.run.sums_gradients and not self.run.over:
            self._sum_held_back()
        elif not self.settled and self.kept:
            self.run.held_back(*self._figures())
        elif not self.settled and not self.run.over:
            self.run.abort()  # its pass failed, or there was none
        self.place.slice_ends(self.touched)
        self.answer, self.settled, self.slice = STEP, True, None
        self.stepped = False

    def given(self):
        """The loop gets a batch."""
        self._idle.given()

    def in_a_step(self):
        """A slice has begun, and a pass was made over it."""
        return self.slice is not None and self.touched and not self.spare

    def follows_a_pass(self):
        """The slice that has begun had no pass, and the one before had one."""
        trained = self._idle.trained and self._idle.row == 0
        return self.slice is not None and not self.touched and trained

    def tell_of_graph(self):
        """The program asks backward() for gradients that it may differentiate."""
        if self.run.workers > 1 and not self._graph_told:
            self._graph_told = True
            self.run.say(
                "backward(create_graph=True): param.grad comes back summed over the nodes and has "
                "no graph. torch.autograd.grad(loss, params, create_graph=True) gives what can be "
                "differentiated again, of this node's samples"
            )

    def entered(self):
        """The program begins a pass; begin() may be called by a thread of autograd's."""
        self._idle.check_thread()

    def untouched(self):
        """The slice that has begun, if no pass was made over it."""
        return None if self.touched else self.slice

    def begin_slice(self, piece):
        """False: the job was stopped."""
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
        self.touched = self.spare = self.held_back = False
        self.spared = 0
        self.weight.begin(piece)
        self.loss = None
        return True

    def hand_over(self):
        if self.place.stream.is_ending():
            self._idle.epoch_ends()
        self.blocks.check()

    def take_over(self):
        self.blocks.refresh()
        self.blocks.check_replaced()

    def weigh(self, weight):
        self.ahead.weighs()
        if self.spare:
            return
        if self.slice is None or self.gradients.open or self.settled:
            raise Error("weight() belongs between a batch and its backward pass")
        self.weight.say(weight)

    def begins_at(self, values):
        """(values, gradient) of a pass that begins at no loss, or None: refuses a sum, and tells of
        weights."""
        if values and self.slice and not self.spare:
            self.weight.judge(*values)

    def _count_spare(self):
        self.spared += 1
        if self.spared > SPARE_MOST + 4 * self.run.loops.lacks and self.run.over:
            self.run.say("the job is over, and the program's loop over steps is not: it ends here")
            sys.exit(0)

    # ---- what a state holds of an accumulation that is not complete

    def former_gradients(self):
        """Those of the passes that were made over this slice, in the middle of a further one."""
        return self.gradients.before if self._further else None

    def follow_former(self, gradients):
        """Another rank's: this process goes through the passes that were made, which are left out
        (VOID), and its first pass that counts follows these."""
        self.gradients.follow(gradients)

    def kept_gradients(self):
        return self.kept, self.gradients.of_all()

    def keep_gradients(self, kept, are_mine):
        """Those of another rank stand for this one's, and weigh what this one's samples do."""
        self.kept, gradients = kept
        if self.kept and not are_mine and self.weight.mine:
            self.kept = self.weight.share()
        self.gradients.become(gradients)

    # ---- the pass

    def _opens(self):
        """A pass begins at a hook, since autograd was entered by a way that backward.py does not
        see."""
        if self.spare or self.slice is None:
            return False
        self.begin()
        torch.autograd.Variable._execution_engine.queue_callback(self.end)
        return True

    def begin(self, loss=None):
        self.ahead.pass_begins(loss)
        if self.spare:  # also with a slice that was looked at before, whose pass comes later
            self._count_spare()
            if self.gradients.keep():
                self.ahead.when_left(lambda: self.gradients.put_back(self._idle.trained))
        if self.spare or self.slice is None:
            return
        if not self._idle.trained:
            tell_hooks(self.run, self.blocks.slots)
        self.draws.pass_begins(self.slice)
        first, self.touched = not self.touched, True
        self._idle.trains()
        self.gradients.hook()
        further = self._further = self.settled and not self.keeping
        self.weight.take(loss, self.scaler is not None, not self.settled)
        self.place.pass_begins()
        self._local = further and self.answer == DIFFERENCE and not self.weight.sums
        if further and not self._local:
            self._begin_further()
        elif first and not self.kept and self._would_mix():
            self.gradients.set_aside()
        if loss is not None:  # a GPU's is read when its backward pass is under way
            self.loss = loss.item() if loss.is_cpu else loss.detach()
        else:
            self.loss = None
        mine = self.weight.mine
        self._own = mine != 0 and not self.run.takes_gradients
        self.gradients.begin(quiet=self.keeping or mine == 0 or self._own or self._local)
        if mine == 0:
            self.gradients.stash()
        elif self.kept:
            self.gradients.rescale(self.kept / self.weight.share())

    def end(self):
        if not self.gradients.open:
            return
        self.gradients.end()
        if self.gradients.unstash() and self.kept and not self.keeping:
            self._carry()
        if self._local:
            return
        self.held_back = self.keeping
        if self.keeping:
            self.kept = self.weight.share() if self.weight.mine else self.kept
            return
        if not self._own:
            counts = self.weight.mine != 0
            goes_on = bool(self.kept) or (counts and not self.weight.sums)
            self.gradients.complete(counts, goes_on)
        self._sum()
        if self.answer in (STEP, DIFFERENCE):
            self.changed.pass_ends(self.blocks.slots)

    def _sum(self):
        """The rank has the gradients, and sums; what becomes of them."""
        self.answer = self.run.gradients(*self._figures())
        self.served |= self.answer == SKIP and self.samples > 0
        self.settled = self.stepped = True
        self.kept = 0.0
        self._follow()
        self.gradients.add_before()

    def _follow(self):
        """What the rank's answer means for gradients and parameters."""
        if self.answer == STEP:
            if not self._own:
                self.gradients.give_back()
            self.gradients.counted()
        elif self.answer == VOID:
            return  # the optimizer's step is left out, and nothing has changed
        elif self.scaler is not None:
            raise Error(
                "a GradScaler's gradients are scaled, and a server's rule cannot know by how much: "
                "train in bfloat16 without a scaler, or under a synchronous strategy"
            )
        elif self.answer == SKIP:
            self.blocks.refresh()
            self.server.made_step(self.optimizers, self.blocks.slots, self.slice)
        else:
            if self.weight.sums:  # over this rank's samples, made that of a whole step
                self.gradients.give_back()
            self.blocks.remember()

    def abandon(self):
        """An exception ended the pass: no rank makes the step of this slice, unless the rank knows
        nothing of the pass."""
        former = None if self._further else self.gradients.before
        self.gradients.drop()
        if former is not None:
            self.gradients.become(former)
        if not self._local:
            self.settled, self.kept = False, 0.0

    # ---- parts of it

    def _begin_further(self):
        self.run.again()
        if self.slice.count:
            self.run.weight(self.weight.mine)
        self.gradients.set_aside()

    def _would_mix(self):
        """Gradients of former slices, which are whole already, must not stand beside those of this
        one where these are scaled or counted once for each rank."""
        return self.run.workers > 1 and (
            self.weight.sums or (self.keeping and self.run.sums_gradients)
        )

    @torch.no_grad()
    def _sum_held_back(self):
        """Of a slice whose last pass was within no_sync. Where all ranks sum in each step anyway,
        its gradients are summed behind its passes: then any rank has those of an accumulation."""
        if self.weight.mine:
            self.gradients.send()
        else:
            self.gradients.complete(False, False)
        self.kept = 0.0
        self._sum()

    @torch.no_grad()
    def _carry(self):
        """Gradients kept before go out with a slice that has no samples."""
        total = float(self.slice.step_count or 1)
        self.run.weight(TINY * (1.0 if self.weight.sums else total))
        self.gradients.rescale(self.kept / TINY)
        self.gradients.send()

    def _figures(self):
        """What the rank is told with gradients."""
        return self.samples, self._loss(), self._rate()

    def _loss(self):
        if self.loss is None:
            return math.nan
        loss = float(self.loss)
        if self.scaler is not None:
            loss /= self.scaler.get_scale()  # NaN is met by leaving the step out
        elif math.isnan(loss) and self.samples and self.weight.mine:
            loss = math.inf  # to the rank NaN is a loss that nobody knows
        samples = self.samples * 2 if self.weight.is_doubled() else self.samples
        return loss / samples if self.weight.sums and samples else loss

    def _rate(self):
        first = self.made() or next(iter(self.optimizers), None)
        return float(first.param_groups[0]["lr"]) if first else math.nan
