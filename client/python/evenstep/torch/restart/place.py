"""Where the program's loop stands, for a process that is started again: the number of its step, and
gradients that were accumulated and not used by a step yet.

    batch            0   1   2   3 │ 4   5 ✗      accumulation by four; the process ends in batch 5
    the next process                 s   5   6   7 │ 8   …      s: a batch of which no step is made

A loop that accumulates gradients counts its batches from 0 (`(i + 1) % 4 == 0`). The process above
ended after one batch of its second step. So the next process first gets one batch without a step,
which makes its count right, and then the gradients of batch 4. A state contains both the number of
such batches (`replays`) and the gradients.

Under `sync` the state is that of another rank, taken at the very slice that is due. In other
strategies it is that of the last checkpoint. Then the slices since the checkpoint are counted, and
the accumulated gradients are lost.
"""

import contextlib

import torch

from ..samples.zipped import Zipped
from ..step.manner import LOOKS_MOST
from .again import Again
from .habits import BATCHES, EPOCHS
from .rhythm import Rhythm


class Place:
    def __init__(self, run, stream):
        self.run, self.stream, self.passes = run, stream, stream.steps
        self.zipped, self.again = Zipped(run, self), Again(run, self)
        self.length = 0  # global batches of an epoch; 0: not known
        self._passed = -1, 0  # (epoch, batches of it that an earlier process has made)
        self.step = 0  # the step of the program's loops over steps()
        self.in_steps = False
        self.in_schedule = False  # within a schedule's step, which counts from the run's beginning
        self.rhythm = Rhythm(run)
        self.replays = 0  # batches without a step that the loop gets first
        self._behind = 0  # steps of loops over steps() that have ended
        self._counts = False  # an optimizer has stepped; before that nobody knows whether one will
        self._stepped = False  # an optimizer has stepped in the current slice
        self._found = 0.0  # the sum of all parameters when the current pass began
        self._before = None  # (weight, gradients) that were kept when it began
        self._saved = None  # (place, gradients) of the state that was loaded
        self._settled = False  # settle() was called
        self._to_restore = None  # the same as _saved, until the first slice has begun
        self.others_kept = contextlib.nullcontext  # keeps what the program counts: Others.kept
        self.on_passing_on = lambda then, now: None  # called with two {EPOCHS: …, BATCHES: …}

    # ---- what the passes tell

    def optimizer_steps(self):
        if self.passes.slice is not None and not self.passes.spare.at_hand:
            self._counts = self._stepped = True

    def pass_begins(self):
        if self._looks():
            self._found = self._parameters()
        if self.rhythm.pending and self._before is None and self.run.workers > 1:
            kept, gradients = self.passes.accumulation.save()
            self._before = kept, [g if g is None else g.clone() for g in gradients]

    def slice_ends(self, touched):
        rhythm, piece = self.rhythm, self.passes.slice
        if self._stepped or (touched and (self._counts or self._stands())):
            rhythm.batch(self._stepped)
        elif touched:
            rhythm.pending = rhythm.inside = 0
        if piece.epoch_last:
            rhythm.epoch_ends(bool(self.passed()))
        self._stepped, self._before = False, None

    def _looks(self):
        return not self._counts and self.passes.batches <= LOOKS_MOST

    def _parameters(self):
        return sum(float(s.tensor.detach().abs().sum()) for s in self.passes.blocks.slots)

    def _stands(self):
        """Has no optimizer stepped yet, and are parameters unchanged since the pass began? Then a
        step is still to come. A step that is made by hand changes them."""
        return self._looks() and self._parameters() == self._found

    # ---- states

    def index(self, piece):
        """The number of a slice's batch, from the run's beginning. A slice without a step has the
        number of the next epoch's first batch."""
        if piece.number < 0:
            return (piece.epoch + 1) * self.length
        return piece.epoch * self.length + piece.start // self.run.global_batch

    def _due(self):
        """(number, index) of the current slice, or of the next one; number -1: not known."""
        piece = self.passes.slice or self.stream.first()
        if piece is not None and piece.number >= 0:
            return piece.number, self.index(piece)
        return -1, (self.stream.epoch + self.stream.is_ending()) * self.length

    def save(self, own):
        number, index = self._due()
        own["place"].update(
            step=self.step, number=number, batch=index, pending=self.rhythm.pending,
            each=self.rhythm.each, rhythm=self.rhythm.save(), varies=self.passes.varies,
            ahead=self.passes.ahead.manner.save(),
        )
        if self.rhythm.pending or self.passes.accumulation.kept:
            own["gradients"] = self._before or self.passes.accumulation.save()

    def load(self, own):
        self._saved = own["place"], own.get("gradients")
        self.step = self._saved[0].get("step", 0)
        self.rhythm.load(self._saved[0])
        self.passes.varies = self._saved[0].get("varies", False)
        self.passes.ahead.manner.load(self._saved[0].get("ahead"))

    def settle(self):
        """The run has started: finds out what has come since the state was taken."""
        if self._settled:
            return
        self._settled = True
        if self._saved is None:
            if self.run.restarted and self.run.step:
                self._pass_on({"batch": 0, "pending": 0})
            return
        place, gradients = self._saved
        self._saved = None
        if "batch" not in place:
            return
        if not self.run.restarted or place["number"] == self.run.step:
            self.replays = self.rhythm.of_loop(place)
            self._to_restore = place, gradients
        else:
            self._pass_on(place)

    def _pass_on(self, place):
        """Moves from where the state was taken to the slice that is due."""
        piece = self.stream.coming()
        if piece is None or not self.length:
            return
        then = {EPOCHS: place.get("epoch", 0), BATCHES: place["batch"]}
        self.on_passing_on(then, {EPOCHS: piece.epoch, BATCHES: self.index(piece)})
        if not piece.step_count:  # under a server nodes make numbers of batches of their own
            self.step = max(self.step, self.index(piece) // self.rhythm.each)
            return
        since = place["pending"] + max(0, self.index(piece) - place["batch"])
        self.step += since // self.rhythm.each
        is_new = self.rhythm.crosses is False and piece.epoch != place.get("epoch")
        self.replays = (self.index(piece) % self.length if is_new else since) % self.rhythm.each
        self.rhythm.pending = self.rhythm.inside = self.replays

    def enter_epoch(self):
        """A loop begins, and its first slice has come."""
        self.settle()
        piece = self.stream.first()
        if piece is not None and self.again.covers(piece.epoch):
            self._passed, self.replays = (piece.epoch, 0), 0
        elif piece is not None and self.length:
            at = self.index(piece) % self.length if piece.step_count else 0
            self._passed = piece.epoch, max(0, at - self.replays)

    def has_entered(self):
        """Was enter_epoch() called for the current epoch?"""
        return self._passed[0] == self.stream.epoch

    def passed(self):
        """Batches of the epoch that an earlier process has made. The loop does not get them, and
        len(loader) does not count them, so `i + 1 == len(loader)` is still the last batch."""
        epoch, passed = self._passed
        return passed if self.stream.epoch == epoch else 0

    @torch.no_grad()
    def restore(self):
        """The first slice has begun: gradients that were accumulated come back."""
        if self._to_restore is None:
            return
        (place, gradients), self._to_restore = self._to_restore, None
        self.rhythm.goes_on(place)
        self._counts = place["pending"] > 0
        if gradients is not None:
            self.passes.accumulation.load(gradients, place["rank"] == self.run.rank)

    # ---- evenstep.steps()

    def steps(self, n, batches):
        self.rhythm.each, self.in_steps = max(self.rhythm.each, batches), True
        self.again.leave_out()
        self.run.loops.goes_on_where_it_is()
        self.settle()
        while self.step < self._behind + n and not self.run.over:
            seen = self.passes.batches
            yield self.step - self._behind
            self.step = self._next(seen)
        self.in_steps = False
        self.stream.close_loop()
        self._behind += n
        self.step = max(self.step, self._behind)

    def _next(self, seen):
        """The number of the next step. Under a server nodes make different numbers of batches;
        there it is the step that the run has reached, so a node may see one twice, or never."""
        piece = self.passes.slice
        alike = piece is None or piece.step_count or self.run.workers == 1 or not self.length
        if alike or seen == self.passes.batches:
            return self.step + 1
        part = min(self.length, (piece.start + piece.count) / self.run.global_batch)
        return max(self.step, int((piece.epoch * self.length + part) / self.rhythm.each + 1e-6))
