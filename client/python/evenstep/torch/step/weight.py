"""What the samples of a slice weigh in the mean of their step.

    count              as many as the slice has
    rows               without those that the program's collate_fn has left out, and without the
                       empty places of a batch that is smaller than others (samples/batches.py)
    what a loss is     of class weights, masks and ignored labels (loss/divisor.py); of several
    a mean over        passes over a slice each has its own
    weight()           what the program says
    1                  of sums, prepare(…, reduction="sum")

A slice of one sample comes twice where there is a batch norm, and counts once.
"""

from ..loss.batch import fewer_rows
from ..loss.divisor import Divisor


class Weight:
    def __init__(self, run, doubles, is_sum):
        self.run, self.doubles, self.sums = run, doubles, is_sum
        self.by_samples = is_sum or run.workers == 1  # nobody asks what a loss was divided by
        self.slice = None
        self.rows_of = lambda piece: None  # the samples of a slice that has empty places
        self.rows = 0  # samples, without those that were left out
        self.mine = 0.0
        self._base = 0.0  # the same of its rows, whatever a loss was divided by
        self._said = False  # by weight()
        self._doubled = False  # its only sample comes twice
        self._passes = 0  # over the slice
        self._divisor = Divisor(run)

    def begin(self, piece):
        self.slice, self.rows, self._said, self._passes = piece, piece.count, False, 0
        self._doubled = self.doubles and piece.count == 1
        self.mine = self._base = float(piece.count > 0) if self.sums else float(piece.count)
        if self.sums and self.is_doubled():
            self.say(1.0)

    def is_doubled(self):
        return self._doubled

    def fewer(self, batch, piece):
        """How many rows a batch of this slice has, where samples are left out; else None."""
        rows = self.rows_of(piece)
        if rows is not None:
            return rows
        looks = not self.by_samples and piece.count > 1
        return fewer_rows(batch, piece.count) if looks else None

    def leave_out(self, rows):
        """The slice that has begun has so many; None: none is left out."""
        if rows is None or not self.slice.count:
            return
        self.rows, self._base = rows, float(rows > 0) if self.sums else float(rows)
        self._doubled = self.doubles and rows == 1 and self.rows_of(self.slice) == 1
        if self.sums and self._doubled:
            self.say(1.0)
        else:
            self._set(self._base, True)

    def say(self, weight):
        self._said = True
        self._set(weight / 2 if self.is_doubled() else weight, True)  # the batch has it twice

    def _set(self, weight, tells):
        if self.slice.count:
            self.mine = weight
            if tells:
                self.run.weight(weight)

    def take(self, loss, scaled, tells):
        """By what the loss of a pass is a mean over. What is computed of no loss that is seen
        weighs what the pass before does. A pass over a slice that is settled tells its own as it
        begins."""
        if self.sums and self.run.workers > 1:
            self._divisor.of_sum(loss)
        if self._said or self.by_samples:
            return
        doubled = self.is_doubled()
        self._passes += 1
        self._divisor.in_parts |= self._passes > 1
        total = self._divisor.of(loss, self.rows * 2 if doubled else self.rows, scaled)
        if total is None:
            weight = self._base
        else:
            weight = total / 2 if doubled else total
        if loss is not None and weight != self.mine:
            self._set(weight, tells)

    def judge(self, values, gradient):
        """Of a pass that begins at a loss for each sample, which get this gradient."""
        if not (self._said or self.by_samples):
            self._divisor.judge(values, gradient, self.rows)

    def share(self):
        """What this slice's gradient counts in its step's mean."""
        total = self.slice.step_count
        return self.mine if self.sums or not total else self.mine / total
