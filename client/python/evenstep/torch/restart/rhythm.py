"""Of how many batches the program makes an optimizer's step, for a process that goes on within an
accumulation.

    batch       0   1   2   3 │ 4   5   6 ║ 0   1   2   3 │ …       accumulation by four, 7 batches
    a loop                    4           3               4         `or i + 1 == len(loader)`
    another                   4                           7         `(i + 1) % 4 == 0` alone
    a third                   4                   4 (at batch 0)    a count over all epochs

The first two count each epoch's batches from 0, so that of the next epoch's loop needs only the
batches of this epoch; the third one's count goes on. A state says which of them the program was
seen to do. What a process that goes on does otherwise than the one before is told: most likely it
compares its own count with a length that it has asked for before the loop.
"""

TOLD = (
    "this process goes on within a run, and now an optimizer's step is made of %d batches, where "
    "the run had %s: a count or a length of the program's own is not that of the run. Ask for "
    "len(loader) in each epoch, give prepare() a dict of counts that go on over several epochs, or "
    "loop over evenstep.steps(n)"
)
LEFT = (
    "the loop of this epoch went on within it, and no optimizer's step was made of its last %d "
    "batch%s. If the program steps behind an epoch's last batch by a length that it has asked for "
    "before the loop, that step is missing: this loop has fewer batches, so ask for len(loader) in "
    "each epoch"
)
OPEN = (
    "the run goes on in a new epoch with gradients of %d batch%s of the one before, which no step "
    "has used yet. A program that counts the batches of each epoch from 0 goes on as it would "
    "have; one that counts them over all epochs does not: give prepare() a dict of such counts"
)


def _es(n):
    return "" if n == 1 else "es"


class Rhythm:
    def __init__(self, run):
        self.run = run
        self.pending = 0  # batches with a pass since an optimizer stepped
        self.inside = 0  # of these, in this epoch
        self.each = 1  # batches of an optimizer's step
        self.crosses = None  # the program's count goes on over epochs; None: nobody knows yet
        self.rest = None  # pending at the end of the last epoch
        self._sizes = set()  # of steps
        self._then = None  # those of the processes before this one
        self._told = False

    # ---- what the passes tell

    def batch(self, stepped):
        """One with a pass is done, and an optimizer has made a step behind it, or has not."""
        self.pending, self.inside = self.pending + 1, self.inside + 1
        if stepped:
            self._step(self.pending, self.pending > self.inside)
            self.pending = self.inside = 0

    def _step(self, size, crosses):
        if not crosses or self.each == 1:
            self.each = max(self.each, size)
        if crosses:
            self.crosses = size == self.each
        if self._then and size not in self._then:
            before = " and ".join("%d" % n for n in sorted(self._then))
            self._tell(TOLD % (size, before))
        if len(self._sizes) < 64:  # of one that accumulates as it likes
            self._sizes.add(size)

    def epoch_ends(self, went_on):
        """went_on: its loop began within it."""
        before, self.rest, self.inside = self.rest, self.pending, 0
        if went_on and self._then and self.pending and not before:
            self._tell(LEFT % (self.pending, _es(self.pending)))

    def _tell(self, what):
        if not self._told:
            self._told = True
            self.run.say(what)

    # ---- states

    def save(self):
        return {"inside": self.inside, "crosses": self.crosses, "rest": self.rest,
                "sizes": sorted(self._sizes)}

    def load(self, place):
        """What a state says of the processes before."""
        then = place.get("rhythm", {})
        self.each = max(self.each, place.get("each", 1))
        self.crosses, self.rest = then.get("crosses"), then.get("rest")
        self._sizes = set(then.get("sizes", ()))
        self._then = set(self._sizes)

    def counts_right(self):
        """This process has gone through all batches that were made."""
        self._told = True

    def of_loop(self, place):
        """Of the batches that are pending in a state, those that the loop is to count."""
        pending = place["pending"]
        inside = place.get("rhythm", {}).get("inside", pending)
        if self.crosses is None and inside < pending and not self._told:
            self.run.say(OPEN % (pending - inside, _es(pending - inside)))
        return pending if self.crosses else inside

    def goes_on(self, place):
        """The same batches are pending in this process."""
        self.pending = place["pending"]
        self.inside = place.get("rhythm", {}).get("inside", self.pending)
