"""How many batches the program accumulates for a step, for a process that goes on in the middle of
an accumulation.

    batch       0   1   2   3 │ 4   5   6 ║ 0   1   2   3 │ …       accumulation by four, 7 batches
    a loop                    4           3               4         `or i + 1 == len(loader)`
    another                   4                           7         `(i + 1) % 4 == 0` alone
    a third                   4                   4 (at batch 0)    a count over all epochs

The first two programs count the batches of each epoch from 0. The third counts over all epochs, so
its loop in a new epoch must also count batches of the epoch before. A state says which kind was
observed. If a process that goes on accumulates otherwise than the one before it, the log says so:
most likely the program compares its count with a length that it asked for before the loop.
"""

TOLD = (
    "this process goes on within a run, and now an optimizer's step is made of %d batches, where "
    "the run had %s: a count or a length of the program's own is not that of the run. Ask for "
    "len(loader) in each epoch, give prepare() a dict of counts that go on over several epochs, or "
    "loop over evenstep.steps(n)"
)
LEFT = (
    "the loop of this epoch went on within it, and no optimizer's step was made of its last %d "
    "batch%s. If the program steps after an epoch's last batch by a length that it has asked for "
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
        self.pending = 0  # batches with a pass since the last step of an optimizer
        self.inside = 0  # how many of them belong to the current epoch
        self.each = 1  # batches of a step
        self.crosses = None  # the program counts over all epochs; None: not known
        self.rest = None  # `pending` at the end of the last epoch
        self._sizes = set()  # batches of steps so far
        self._then = None  # the same of the processes before this one
        self._told = False  # the log has said something

    # ---- what the passes tell

    def batch(self, stepped):
        """A batch with a pass has ended. stepped: an optimizer has stepped after the pass."""
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
        """went_on: this process's loop began in the middle of the epoch."""
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
        """Takes what a state says about the processes before this one."""
        then = place.get("rhythm", {})
        self.each = max(self.each, place.get("each", 1))
        self.crosses, self.rest = then.get("crosses"), then.get("rest")
        self._sizes = set(then.get("sizes", ()))
        self._then = set(self._sizes)

    def counts_right(self):
        """This process has repeated all batches that were made, so its counts are right."""
        self._told = True

    def of_loop(self, place):
        """How many of the batches that are pending in a state the loop must count."""
        pending = place["pending"]
        inside = place.get("rhythm", {}).get("inside", pending)
        if self.crosses is None and inside < pending and not self._told:
            self.run.say(OPEN % (pending - inside, _es(pending - inside)))
        return pending if self.crosses else inside

    def goes_on(self, place):
        """This process goes on with the batches that are pending in the state."""
        self.pending = place["pending"]
        self.inside = place.get("rhythm", {}).get("inside", self.pending)
